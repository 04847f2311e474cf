// SPDX-License-Identifier: Apache-2.0
// `cloister policy explain`: how a request would be decided, and why.
#include <unistd.h>

#include "base/file.h"
#include "cli/commands/resources.h"
#include "cli/render/decision_text.h"
#include "cli/render/terminal.h"
#include "cli/run_body.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int kNotAllowed = 1;
constexpr size_t kMaxRequest = size_t{32} << 20;

std::string riskText(const json::object& risk) {
  std::string text = "  risk: " + printable(textOf(risk, "arithmetic")) + "\n";
  for (const json::value& item : arrayOf(risk, "tiers")) {
    if (!item.is_object()) continue;
    const json::object& tier = item.get_object();
    const std::string from = textOf(tier, "from_score");
    text += "    " + textOf(tier, "tier") + ": " + printable(textOf(tier, "runtime")) +
            (from.empty() ? "" : ", from " + from) +
            (boolOf(tier, "approval") ? ", with approval" : "") + "\n";
  }
  return text;
}

std::string ruleText(const json::object& rule) {
  const std::string name = "    " + printable(textOf(rule, "name")) + ": ";
  if (!boolOf(rule, "matches")) return name + "no, " + printable(textOf(rule, "because")) + "\n";
  if (!boolOf(rule, "decides")) return name + "matches too, but comes later\n";
  return name + "DECIDES: " + textOf(rule, "effect") + " (" + printable(textOf(rule, "why")) +
         ")\n";
}

std::string explanationText(const json::object& answer) {
  std::string text = decisionText(answer);
  text += riskText(objectOf(answer, "risk")) + "  rules:\n";
  for (const json::value& item : arrayOf(answer, "rules")) {
    if (item.is_object()) text += ruleText(item.get_object());
  }
  return text;
}

Result<json::object> requestFrom(const base::Flags& flags) {
  if (!flags.operands().empty()) {
    const std::string& file = flags.operands()[0];
    return readObject(TRY(base::readFile(file == "-" ? "/dev/stdin" : file, kMaxRequest)), file);
  }
  json::object request;
  for (const std::string_view name : {"language", "code", "command", "tier"}) {
    if (const auto text = flags.text(name)) request[name] = *text;
  }
  if (!request.contains("command") && !request.contains("code")) request["code"] = "";
  if (!request.contains("command") && !request.contains("language")) {
    request["language"] = "python";
  }
  if (const auto deps = flags.all("dep"); !deps.empty()) request["deps"] = toArray(deps);
  if (const auto type = flags.text("tool-type")) request["metadata"] = {{"tool_type", *type}};
  TRY(putPairs(flags, "env", request));
  putIsolation(flags, request);
  TRY(putLimits(flags, request));
  return request;
}

Result<json::object> explainBody(const base::Flags& flags) {
  json::object body{{"request", TRY(requestFrom(flags))}};
  json::object principal;
  for (const std::string_view name : {"tenant", "app", "agent", "user"}) {
    if (const auto text = flags.text(name)) principal[name] = *text;
  }
  if (const auto roles = flags.all("role"); !roles.empty()) principal["roles"] = toArray(roles);
  if (!principal.empty()) body["principal"] = std::move(principal);
  if (flags.has("session")) body["session"] = true;
  if (const auto version = TRY(flags.integer("version", 1, INT64_MAX))) body["version"] = *version;
  if (const auto file = flags.text("policy")) body["document"] = TRY(base::readFile(*file));
  return body;
}

int statusOf(const json::object& answer) {
  return textOf(answer, "decision") == "allow" ? 0 : kNotAllowed;
}

constexpr Verb kExplain = {.method = "POST",
                           .path = "/v1/policies:explain",
                           .body = explainBody,
                           .text = explanationText,
                           .status = statusOf};
constexpr Flag kFlags[] = {
    {.name = "language", .value = "NAME", .help = "default: python", .letter = 'l'},
    {.name = "code", .value = "TEXT", .help = "the code", .letter = 'c'},
    {.name = "command", .value = "TEXT", .help = "a shell command in its place"},
    {.name = "dep", .value = "NAME", .help = "a dependency", .many = true},
    {.name = "env", .value = "NAME=VALUE", .help = "a variable", .many = true},
    {.name = "network", .value = "TIER", .help = "none, restricted, internal, api or full"},
    {.name = "allow", .value = "NAME:PORT", .help = "a destination", .many = true},
    {.name = "on-denied", .value = "ACTION", .help = "deny, escalate or ask"},
    {.name = "tier", .value = "TIER", .help = "Auto, Assisted, HumanApprove or ManualOnly"},
    {.name = "runtime", .value = "NAME", .help = "process, gvisor or microvm"},
    {.name = "tool-type", .value = "NAME", .help = "as metadata.tool_type has it"},
    {.name = "tenant", .value = "NAME", .help = "by whom it is (default: you)"},
    {.name = "app", .value = "NAME", .help = "the same"},
    {.name = "agent", .value = "NAME", .help = "the same"},
    {.name = "user", .value = "NAME", .help = "the same"},
    {.name = "role", .value = "ROLE", .help = "the same", .many = true},
    {.name = "session", .value = "", .help = "a program of a session"},
    {.name = "version", .value = "N", .help = "by this version (default: what is in force)"},
    {.name = "policy", .value = "FILE", .help = "by this document"},
};

}  // namespace

const Command kPolicyExplain = {
    .name = "policy explain",
    .operands = "[REQUEST.json]",
    .max_operands = 1,
    .summary = "say how a request would be decided, and why",
    .details =
        "The request is a file with the body of POST /v1/executions, or what the flags say. "
        "Nothing is run. The exit status is 0 when it is allowed and 1 when it is denied or "
        "needs approval.",
    .flags = kFlags,
    .examples =
        "cloister policy explain -l bash -c 'rm -rf /' --tenant acme\n"
        "cloister policy explain --policy strict.yaml request.json",
    .run = carryOut<kExplain>};

}  // namespace cloister::cli
