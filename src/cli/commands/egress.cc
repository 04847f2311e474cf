// SPDX-License-Identifier: Apache-2.0
// `cloister egress`: the network of sandboxes.
#include "base/file.h"
#include "cli/commands/resources.h"
#include "cli/render/terminal.h"
#include "cli/run_body.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int kDeniedStatus = 1;

// Members with the name of their flag.
constexpr std::string_view kTexts[] = {"method", "network", "language"};
constexpr std::string_view kPrincipal[] = {"tenant", "app", "agent", "user"};

Result<json::object> egressBody(const base::Flags& flags) {
  if (flags.operands().empty()) {
    return fail(Code::kInvalid, "which URL: give one, as https://api.example.com/items");
  }
  json::object body{{"url", flags.operands()[0]}};
  for (const std::string_view name : kTexts) {
    if (const auto text = flags.text(name)) body[name] = *text;
  }
  json::object principal;
  for (const std::string_view name : kPrincipal) {
    if (const auto text = flags.text(name)) principal[name] = *text;
  }
  if (const auto roles = flags.all("role"); !roles.empty()) principal["roles"] = toArray(roles);
  if (!principal.empty()) body["principal"] = std::move(principal);
  if (const auto version = TRY(flags.integer("version", 1, INT64_MAX))) body["version"] = *version;
  if (const auto file = flags.text("policy")) body["document"] = TRY(base::readFile(*file));
  return body;
}

std::string egressText(const json::object& answer) {
  const std::string rule = printable(textOf(answer, "rule"));
  std::string text = std::string(boolOf(answer, "allowed") ? "allowed" : "denied") + ": " +
                     printable(textOf(answer, "reason")) +
                     "\n  rule: " + (rule.empty() ? "none" : rule) +
                     "\n  network tier: " + printable(textOf(answer, "tier")) +
                     "\n  policy: " + printable(textOf(answer, "policy_id")) + "\n";
  if (const std::string remedy = textOf(answer, "remedy"); !remedy.empty())
    text += "  instead: " + printable(remedy) + "\n";
  return text;
}

int egressStatus(const json::object& answer) {
  return boolOf(answer, "allowed") ? 0 : kDeniedStatus;
}

constexpr Verb kExplainEgress = {.method = "POST",
                                 .path = "/v1/egress:explain",
                                 .body = egressBody,
                                 .text = egressText,
                                 .status = egressStatus};
constexpr Flag kEgressFlags[] = {
    {.name = "method", .value = "NAME", .help = "of an HTTP request (default GET)"},
    {.name = "network",
     .value = "TIER",
     .help = "the tier that the run asks for (default restricted)"},
    {.name = "language",
     .value = "NAME",
     .help = "of the run, or command (default python)",
     .letter = 'l'},
    {.name = "tenant", .value = "NAME", .help = "by whom it is (default: you)"},
    {.name = "app", .value = "NAME", .help = "the same"},
    {.name = "agent", .value = "NAME", .help = "the same"},
    {.name = "user", .value = "NAME", .help = "the same"},
    {.name = "role", .value = "ROLE", .help = "the same", .many = true},
    {.name = "version", .value = "N", .help = "by this version (default: what is in force)"},
    {.name = "policy", .value = "FILE", .help = "by this document"},
};

}  // namespace

const Command kEgressExplain = {
    .name = "egress explain",
    .operands = "URL",
    .max_operands = 1,
    .summary = "say whether a run could reach a URL, and by which rule",
    .details =
        "Policy and the level of the agent decide, with the evaluator of cloister-egress. Nothing "
        "is run and nothing is sent. The exit status is 0 when it is allowed and 1 when it is "
        "denied.",
    .flags = kEgressFlags,
    .examples =
        "cloister egress explain https://api.example.com/v1/items\n"
        "cloister egress explain http://api.example.com/items --method POST --agent coder",
    .run = carryOut<kExplainEgress>};

}  // namespace cloister::cli
