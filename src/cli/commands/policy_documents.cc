// SPDX-License-Identifier: Apache-2.0
// `cloister policy …`: the policy documents and their versions.
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "cli/commands/resources.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;
using base::Flags;

constexpr size_t kMaxDocument = size_t{1} << 20;  // the server reports its own lower bound
constexpr int kNo = 1;                            // the answer is no: not valid, or not as wanted

// "version 3 (default, by acme/admin, 2026-…)"
std::string versionLine(const json::object& version) {
  const json::object& who = objectOf(version, "applied_by");
  std::string by = textOf(who, "tenant");
  for (const std::string_view member : {"user", "agent"}) {
    if (const std::string name = textOf(who, member); !name.empty()) by += "/" + name;
  }
  return "version " + textOf(version, "version") + " (" + printable(textOf(version, "name")) +
         ", by " + printable(by) + ", " + textOf(version, "applied_at") + ")";
}

Result<std::string> readText(const std::string& path) {
  return base::readFile(path == "-" ? "/dev/stdin" : path, kMaxDocument);
}

Result<std::string> document(const Flags& flags) {
  const auto& operands = flags.operands();
  if (operands.empty()) return fail(Code::kInvalid, "which document: give a FILE, or - for stdin");
  return readText(operands[0]);
}

std::string nameOf(const Flags& flags) {
  if (const auto name = flags.text("name")) return *name;
  std::string name = flags.operands()[0];
  name = name.substr(name.rfind('/') + 1);
  name = name.substr(0, name.find('.'));
  return name == "-" ? "" : name;
}

Result<json::object> checkBody(const Flags& flags) {
  return json::object{{"document", TRY(document(flags))}};
}

std::string warningsText(const json::object& answer) {
  std::string text;
  for (const json::value& warning : arrayOf(answer, "warnings")) {
    if (warning.is_string()) text += "  warning: " + printable(warning.get_string()) + "\n";
  }
  return text;
}

std::string checkText(const json::object& answer) {
  const bool valid = boolOf(answer, "valid");
  std::string text = "not valid: " + printable(textOf(answer, "error")) + "\n";
  const size_t levels = arrayOf(answer, "levels").size();
  if (valid && levels > 0) {
    text = "valid: " + std::to_string(levels) + " levels\n";
  } else if (valid) {
    text = "valid: " + std::to_string(arrayOf(answer, "rules").size()) + " rules\n";
  }
  return text + warningsText(answer);
}

int checkStatus(const json::object& answer) {
  return boolOf(answer, "valid") ? 0 : kNo;
}

std::string names(const json::object& diff, std::string_view member) {
  std::string text;
  for (const json::value& item : arrayOf(diff, member)) {
    const std::string name = item.is_object()   ? textOf(item.get_object(), "name")
                             : item.is_string() ? std::string(item.get_string())
                                                : "";
    text += (text.empty() ? "" : ", ") + printable(name);
  }
  return text;
}

// "deny by no-shells"
std::string decisionText(const json::object& decision) {
  const std::string rule = printable(textOf(decision, "rule"));
  const std::string tier = textOf(decision, "tier");
  return textOf(decision, "decision") + " by " + (rule.empty() ? "no rule" : rule) +
         (tier.empty() ? "" : " (" + tier + ", " + printable(textOf(decision, "runtime")) + ")");
}

std::string replayText(const json::object& replay) {
  std::string text = "of the last " + textOf(replay, "requests") + " recorded requests, " +
                     std::to_string(arrayOf(replay, "changes").size()) +
                     " would be decided otherwise\n";
  for (const json::value& item : arrayOf(replay, "groups")) {
    if (!item.is_object()) continue;
    const json::object& group = item.get_object();
    std::string examples;
    for (const json::value& id : arrayOf(group, "examples")) {
      if (!id.is_string()) continue;
      examples += (examples.empty() ? "" : ", ") + printable(std::string(id.get_string()));
    }
    text += "  " + textOf(group, "count") + ": " + decisionText(objectOf(group, "from")) + " -> " +
            decisionText(objectOf(group, "to")) + ": " + printable(textOf(group, "reason")) +
            "\n      as " + examples + "\n";
  }
  return text;
}

std::string diffText(const json::object& diff) {
  std::string text =
      printable(textOf(diff, "from")) + " -> " + printable(textOf(diff, "to")) + "\n";
  if (boolOf(diff, "same")) text += "the documents are the same\n";
  for (const std::string_view member : {"added", "removed", "changed"}) {
    if (const std::string some = names(diff, member); !some.empty()) {
      text += std::string(member) + ": " + some + "\n";
    }
  }
  if (boolOf(diff, "reordered")) text += "the rules have another order\n";
  if (boolOf(diff, "settings_changed")) text += "the weights or the tiers are others\n";
  const json::object& replay = objectOf(diff, "replay");
  return replay.empty() ? text : text + replayText(replay);
}

Result<> putChoices(const Flags& flags, json::object& body) {
  for (const auto& [flag, member] :
       {std::pair("expected", "expected_version"), std::pair("version", "version"),
        std::pair("against", "against"), std::pair("recent", "recent")}) {
    const auto number = TRY(flags.integer(flag, 0, INT64_MAX));
    if (number) body[member] = *number;
  }
  if (const auto note = flags.text("note")) body["note"] = *note;
  return {};
}

Result<json::object> applyBody(const Flags& flags) {
  json::object body{{"document", TRY(document(flags))}, {"name", nameOf(flags)}};
  TRY(putChoices(flags, body));
  if (flags.has("dry-run")) body["dry_run"] = true;
  return body;
}

std::string appliedText(const json::object& answer) {
  return "in force: " + versionLine(answer) + "\n" + warningsText(answer);
}

std::string triedText(const json::object& answer) {
  return diffText(objectOf(answer, "diff")) + warningsText(answer) + "nothing was applied\n";
}

Result<int> apply(const Invocation& invocation) {
  const bool dry_run = invocation.flags.has("dry-run");
  return carryOut({.method = "POST",
                   .path = "/v1/policies",
                   .body = applyBody,
                   .text = dry_run ? triedText : appliedText},
                  invocation);
}

Result<int> showVersion(const Invocation& invocation) {
  const auto& operands = invocation.flags.operands();
  const std::string which = operands.empty() ? "current" : operands[0];
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object answer = TRY(call(client, "GET", "/v1/policies/" + net::percentEncode(which)));
  if (invocation.globals.json) {
    printJson(answer);
    return 0;
  }
  writeTo(STDERR_FILENO,
          versionLine(answer) + (boolOf(answer, "in_force") ? ", in force\n" : "\n"));
  // Line by line: bytes unfit for a terminal are made harmless.
  std::string text;
  const std::string whole = textOf(answer, "document");
  for (size_t at = 0; at < whole.size();) {
    const size_t end = std::min(whole.find('\n', at), whole.size());
    text += printable(whole.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  writeTo(STDOUT_FILENO, text);
  return 0;
}

std::string inForce(const json::object& version, std::string_view name) {
  return boolOf(version, name) ? "yes" : "";
}

std::string shortDigest(const json::object& version, std::string_view name) {
  constexpr size_t kShown = 12;
  return textOf(version, name).substr(0, kShown);
}

std::string whoOf(const json::object& version, std::string_view name) {
  const json::object& who = objectOf(version, name);
  return textOf(who, "tenant") + "/" + textOf(who, "user");
}

std::string noteOf(const json::object& version, std::string_view name) {
  const std::string note = textOf(version, name);
  const std::string old = textOf(version, "restores");
  return old.empty() ? note : "version " + old + " again" + (note.empty() ? "" : ": " + note);
}

constexpr Column kVersions[] = {
    {"VERSION", "version"},
    {"IN FORCE", "in_force", inForce},
    {"NAME", "name"},
    {"SHA256", "sha256", shortDigest},
    {"AGE", "applied_at", ageOf},
    {"BY", "applied_by", whoOf},
    {"NOTE", "note", noteOf},
};

Result<int64_t> versionOperand(const Flags& flags) {
  const auto& operands = flags.operands();
  const auto refused = [] {
    return fail(Code::kInvalid, "which version: give its number (see `cloister policy history`)");
  };
  if (operands.empty()) return refused();
  int64_t version = 0;
  for (const char c : operands[0]) {
    if (c < '0' || c > '9' || version > INT32_MAX) return refused();
    version = version * 10 + (c - '0');
  }
  if (version < 1) return refused();
  return version;
}

Result<json::object> rollbackBody(const Flags& flags) {
  json::object body;
  TRY(putChoices(flags, body));
  body["version"] = TRY(versionOperand(flags));
  return body;
}

std::string rolledBackText(const json::object& answer) {
  return "in force: " + versionLine(answer) + ", which is version " + textOf(answer, "restores") +
         " again\n" + warningsText(answer);
}

Result<json::object> diffBody(const Flags& flags) {
  json::object body;
  TRY(putChoices(flags, body));
  if (!flags.operands().empty()) body["document"] = TRY(document(flags));
  return body;
}

Result<json::object> testBody(const Flags& flags) {
  json::object body{{"cases", TRY(document(flags))}};
  TRY(putChoices(flags, body));
  if (const auto file = flags.text("policy")) body["document"] = TRY(readText(*file));
  return body;
}

std::string testText(const json::object& answer) {
  std::string text;
  for (const json::value& item : arrayOf(answer, "cases")) {
    if (!item.is_object()) continue;
    const json::object& one = item.get_object();
    const json::object& came = objectOf(one, "came");
    text += std::string(boolOf(one, "passed") ? "ok      " : "FAILED  ") +
            printable(textOf(one, "name")) + ": " + decisionText(came) + ": " +
            printable(textOf(came, "reason")) + "\n";
    for (const json::value& problem : arrayOf(one, "problems")) {
      if (problem.is_string()) text += "        " + printable(problem.get_string()) + "\n";
    }
  }
  return text + textOf(answer, "passed") + " passed, " + textOf(answer, "failed") + " failed\n";
}

int testStatus(const json::object& answer) {
  return integerOf(answer, "failed") == 0 ? 0 : kNo;
}

constexpr Verb kCheck = {.method = "POST",
                         .path = "/v1/policies:check",
                         .body = checkBody,
                         .text = checkText,
                         .status = checkStatus};
constexpr Verb kHistory = {
    .path = "/v1/policies", .items = "policies", .paged = true, .columns = kVersions};
constexpr Verb kRollback = {.method = "POST",
                            .path = "/v1/policies:rollback",
                            .body = rollbackBody,
                            .text = rolledBackText};
constexpr Verb kDiff = {
    .method = "POST", .path = "/v1/policies:diff", .body = diffBody, .text = diffText};
constexpr Verb kTest = {.method = "POST",
                        .path = "/v1/policies:test",
                        .body = testBody,
                        .text = testText,
                        .status = testStatus};

constexpr Flag kApplyFlags[] = {
    {.name = "name", .value = "TEXT", .help = "what it is called (default: the file's name)"},
    {.name = "note", .value = "TEXT", .help = "why, for the history"},
    {.name = "expected", .value = "N", .help = "refuse unless this version is in force"},
    {.name = "dry-run", .value = "", .help = "say what it would change, and apply nothing"},
    {.name = "recent", .value = "N", .help = "with --dry-run: try it on the last N requests"},
};
constexpr Flag kHistoryFlags[] = {
    {.name = "limit", .value = "N", .help = "how many, newest first (default: 20)"},
};
constexpr Flag kRollbackFlags[] = {
    {.name = "note", .value = "TEXT", .help = "why, for the history"},
    {.name = "expected", .value = "N", .help = "refuse unless this version is in force"},
};
constexpr Flag kDiffFlags[] = {
    {.name = "version", .value = "N", .help = "this version in place of a FILE"},
    {.name = "against", .value = "N", .help = "what it is compared with (default: in force)"},
    {.name = "recent", .value = "N", .help = "try both on the last N recorded requests"},
};
constexpr Flag kTestFlags[] = {
    {.name = "policy", .value = "FILE", .help = "a document to test (default: what is in force)"},
    {.name = "version", .value = "N", .help = "a version to test"},
};

}  // namespace

const Command kPolicyCheck = {.name = "policy check",
                              .operands = "FILE",
                              .max_operands = 1,
                              .summary = "read a policy document without applying it",
                              .details = "The exit status is 0 when it is valid and 1 when not.",
                              .examples = "cloister policy check strict.yaml",
                              .run = carryOut<kCheck>};
const Command kPolicyApply = {
    .name = "policy apply",
    .operands = "FILE",
    .max_operands = 1,
    .summary = "put a policy document in force, at once and without a restart",
    .flags = kApplyFlags,
    .examples =
        "cloister policy apply --dry-run --recent 100 strict.yaml\n"
        "cloister policy apply --note 'ticket 17' strict.yaml",
    .run = apply};
const Command kPolicyShow = {.name = "policy show",
                             .operands = "[VERSION]",
                             .max_operands = 1,
                             .summary = "print the document in force, or another version",
                             .examples = "cloister policy show\ncloister policy show 3",
                             .run = showVersion};
const Command kPolicyHistory = {.name = "policy history",
                                .summary = "list the versions of the policy",
                                .flags = kHistoryFlags,
                                .run = carryOut<kHistory>};
const Command kPolicyRollback = {.name = "policy rollback",
                                 .operands = "VERSION",
                                 .max_operands = 1,
                                 .summary = "put an earlier version in force again",
                                 .flags = kRollbackFlags,
                                 .examples = "cloister policy rollback --note 'too strict' 3",
                                 .run = carryOut<kRollback>};
const Command kPolicyDiff = {
    .name = "policy diff",
    .operands = "[FILE]",
    .max_operands = 1,
    .summary = "what a document or version changes, in rules and in decisions",
    .flags = kDiffFlags,
    .examples =
        "cloister policy diff --recent 100 strict.yaml\n"
        "cloister policy diff --version 4 --against 3",
    .run = carryOut<kDiff>};
const Command kPolicyTest = {
    .name = "policy test",
    .operands = "FILE",
    .max_operands = 1,
    .summary = "run the cases of a file against a policy",
    .details =
        "Each case has a request, by whom it is, and what is expected (docs/POLICY.md). The "
        "exit status is 0 when all pass and 1 when not.",
    .flags = kTestFlags,
    .examples = "cloister policy test --policy strict.yaml cases.yaml",
    .run = carryOut<kTest>};

}  // namespace cloister::cli
