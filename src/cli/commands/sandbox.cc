// SPDX-License-Identifier: Apache-2.0
// `cloister agent …`: an agent's permissions. sandbox_watch.cc shows an agent's activity.
#include "cli/commands/sandbox.h"

#include <unistd.h>

#include "cli/render/amounts.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {

Result<std::string> agentFlag(const Invocation& invocation) {
  if (auto agent = invocation.flags.text("agent"); agent && !agent->empty()) return *agent;
  return fail(Code::kInvalid, std::string(kWhichAgent));
}

std::string sandboxPath(const Invocation& invocation, const std::string& agent,
                        std::string_view rest, std::string query) {
  if (const auto tenant = invocation.flags.text("tenant")) {
    query += (query.empty() ? "tenant=" : "&tenant=") + net::percentEncode(*tenant);
  }
  return "/v1/agents/" + net::percentEncode(agent) + "/sandbox" + std::string(rest) +
         (query.empty() ? "" : "?" + query);
}

namespace {

using base::Flag;

constexpr std::string_view kChange = "/v1/agents/{--agent}/sandbox:update";
using base::Flags;

std::string joined(const json::array& items, std::string_view otherwise) {
  std::string text;
  for (const json::value& item : items) {
    if (item.is_string()) text += (text.empty() ? "" : ", ") + printable(item.get_string());
  }
  return text.empty() ? std::string(otherwise) : text;
}

std::string limitText(const json::object& limits) {
  const auto each = [&](std::string_view name, auto shown) {
    return limits.if_contains(name) == nullptr || limits.at(name).is_null()
               ? std::string("unlimited")
               : shown(integerOf(limits, name));
  };
  const auto set = [&](std::string_view name) {
    return limits.if_contains(name) != nullptr && !limits.at(name).is_null();
  };
  std::string text = "memory " + each("memory_mb", shownMemory) + ", CPU " +
                     each("cpu_percent", [](int64_t n) { return std::to_string(n) + "%"; }) +
                     ", time " + each("time_seconds", shownSeconds);
  const auto plain = [](int64_t n) { return std::to_string(n); };
  if (set("disk_mb")) text += ", disk " + each("disk_mb", shownMemory);
  if (set("file_mb")) text += ", a file " + each("file_mb", shownMemory);
  if (set("concurrent")) text += ", at once " + each("concurrent", plain);
  if (set("requests_per_minute"))
    text += ", requests " + each("requests_per_minute", plain) + " a minute";
  return text;
}

// "git (not --output), sort (only -n)".
std::string restrictionsText(const json::array& restrictions) {
  std::string text;
  for (const json::value& item : restrictions) {
    if (!item.is_object()) continue;
    const json::object& one = item.get_object();
    std::string held;
    for (const auto& [member, word] : {std::pair("allowed_flags", "only "),
                                       {"forbidden_flags", "not "},
                                       {"allowed_paths", "in "}}) {
      const json::array& list = arrayOf(one, member);
      if (!list.empty()) held += (held.empty() ? "" : "; ") + (word + joined(list, ""));
    }
    text += (text.empty() ? "" : ", ") + printable(textOf(one, "command")) + " (" + held + ")";
  }
  return text.empty() ? "none" : text;
}

// "what is safe, by the level".
std::string byRuleText(const json::object& effective) {
  const std::string by = textOf(effective, "auto_approve_by");
  const std::string origin = by == "sandbox"  ? ", by the agent's own setting"
                             : by == "policy" ? ", by its escalation policy"
                             : by == "level"  ? ", by the level"
                                              : "";
  return (boolOf(effective, "auto_approve_safe") ? "what is safe" : "nothing") + origin;
}

// "1: file_write /workspace/a (ESC-2026-001, until 2026-…)".
std::string temporaryText(const json::array& permissions) {
  std::string text;
  for (const json::value& item : permissions) {
    if (!item.is_object()) continue;
    const json::object& one = item.get_object();
    text += (text.empty() ? ": " : ", ") + printable(textOf(one, "operation")) + " " +
            printable(textOf(one, "pattern")) + " (" + printable(textOf(one, "escalation_id")) +
            ", until " + textOf(one, "expires_at") + ")";
  }
  return std::to_string(permissions.size()) + text;
}

std::string sandboxText(const json::object& sandbox) {
  const json::object& effective = objectOf(sandbox, "effective");
  std::string paths;
  for (const json::value& item : arrayOf(effective, "forbidden_paths")) {
    if (!item.is_object()) continue;
    const json::object& rule = item.get_object();
    paths += (paths.empty() ? "" : ", ") + printable(textOf(rule, "path")) +
             (textOf(rule, "access") == "write" ? " (write)" : "");
  }
  std::string text = "Agent " + printable(textOf(sandbox, "agent")) + " of tenant " +
                     printable(textOf(sandbox, "tenant")) + "\n";
  const std::pair<std::string_view, std::string> rows[] = {
      {"Level", printable(textOf(sandbox, "level")) + " (" +
                    printable(textOf(effective, "description")) + ")"},
      {"Allowed commands", joined(arrayOf(effective, "allowed_commands"), "none")},
      {"Forbidden commands", joined(arrayOf(effective, "forbidden_commands"), "none")},
      {"Dangerous commands", joined(arrayOf(effective, "dangerous_patterns"), "none")},
      {"Held parameters", restrictionsText(arrayOf(effective, "parameter_restrictions"))},
      {"Forbidden paths", paths.empty() ? "none" : paths},
      {"File operations", joined(arrayOf(effective, "file_operations"), "none")},
      {"Network", printable(textOf(effective, "network_access"))},
      {"Granted", joined(arrayOf(sandbox, "granted_operations"), "nothing")},
      {"Revoked", joined(arrayOf(sandbox, "revoked_operations"), "nothing")},
      {"Limits", limitText(objectOf(effective, "limits"))},
      {"Sessions", boolOf(sandbox, "nested") ? "nested" : "as asked for"},
      {"Approved by rule", byRuleText(effective)},
      {"Only by a person", joined(arrayOf(effective, "require_human_approval"), "nothing")},
      {"Without an answer", printable(textOf(effective, "fallback_action"))},
      {"Approved for a time", temporaryText(arrayOf(sandbox, "temporary_permissions"))},
      {"Violations", textOf(sandbox, "violation_count")},
      {"Created",
       textOf(sandbox, "created_at") + " by " + printable(textOf(sandbox, "created_by"))},
      {"Changed", textOf(sandbox, "last_modified")}};
  for (const auto& [name, value] : rows)
    text += "   " + std::string(name) + ": " + value + "\n";
  for (const json::value& warning : arrayOf(effective, "warnings")) {
    if (warning.is_string()) {
      text += "   ⚠️  " + printable(std::string(warning.get_string())) + "\n";
    }
  }
  return text;
}

Result<std::string> levelFlag(const Flags& flags) {
  if (auto level = flags.text("level")) return *level;
  return fail(Code::kInvalid,
              "which level: give --level unrestricted, standard, restricted, isolated or training");
}

Result<json::object> createBody(const Flags& flags) {
  return json::object{{"level", TRY(levelFlag(flags))}, {"nested", flags.has("nested")}};
}

Result<json::object> levelBody(const Flags& flags) {
  return json::object{{"level", TRY(levelFlag(flags))}};
}

struct List {
  std::string_view flag;
  std::string_view member;
};

// Adds the flags' values to the agent's own lists, or removes the values with --undo.
Result<int> changeLists(const Invocation& invocation, std::span<const List> lists,
                        std::string_view done, std::string_view undone) {
  const std::string target = TRY(requestTarget(
      {.path = kChange, .missing = kWhichAgent, .query = "tenant"}, invocation.flags));
  const Flags& flags = invocation.flags;
  const bool undo = flags.has("undo");
  std::string said = "✓ " + std::string(undo ? undone : done) + " for agent " +
                     printable(*flags.text("agent")) + ":";
  json::object changed;
  for (const auto& [flag, member] : lists) {
    const std::vector<std::string> all = flags.all(flag);
    if (all.empty()) continue;
    for (const std::string& one : all) {
      said += said.ends_with(':') && changed.empty() ? " " : ", ";
      said += std::string(flag) + " \"" + printable(one) + "\"";
    }
    changed[member] = json::array(all.begin(), all.end());
  }
  if (changed.empty()) {
    return fail(Code::kInvalid, "what: give --" + std::string(lists[0].flag) + " TEXT");
  }
  json::object body{{undo ? "remove" : "add", std::move(changed)}};
  if (flags.has("dry-run")) return tryChange(invocation, body);
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object answer = TRY(call(client, "POST", target, body));
  if (invocation.globals.json) {
    printJson(answer);
  } else {
    writeTo(STDOUT_FILENO, said + "\n");
  }
  return 0;
}

Result<int> allow(const Invocation& invocation) {
  constexpr List kLists[] = {{"command", "allowed_commands"}};
  return changeLists(invocation, kLists, "Allowed", "No longer allowed");
}

Result<int> forbid(const Invocation& invocation) {
  constexpr List kLists[] = {{"path", "forbidden_paths"}, {"command", "forbidden_commands"}};
  return changeLists(invocation, kLists, "Forbidden", "No longer forbidden");
}

Result<json::object> filterBody(const Flags& flags) {
  json::object body;
  if (const auto mode = flags.text("whitelist")) {
    body["whitelist_mode"] = *mode == "on";
  }
  const bool undo = flags.has("undo");
  json::object lists;
  if (const auto all = flags.all("dangerous"); !all.empty())
    lists["dangerous_patterns"] = json::array(all.begin(), all.end());
  if (const auto program = flags.text("program")) {
    json::object held = {{"command", *program}};
    for (const auto& [flag, member] : {std::pair("allow-flag", "allowed_flags"),
                                       {"forbid-flag", "forbidden_flags"},
                                       {"allow-path", "allowed_paths"}}) {
      if (const auto all = flags.all(flag); !all.empty())
        held[member] = json::array(all.begin(), all.end());
    }
    json::array one;
    one.push_back(undo ? json::value(*program) : json::value(std::move(held)));
    lists["parameter_restrictions"] = std::move(one);
  } else if (flags.has("allow-flag") || flags.has("forbid-flag") || flags.has("allow-path")) {
    return fail(Code::kInvalid, "of which program: give --program NAME");
  }
  if (!lists.empty()) body[undo ? "remove" : "add"] = std::move(lists);
  if (body.empty()) {
    return fail(Code::kInvalid, "what: give --whitelist, --dangerous or --program");
  }
  return body;
}

std::string filterText(const json::object& answer) {
  const json::object& effective = objectOf(answer, "effective");
  return (boolOf(answer, "whitelist_mode") ? "only its own commands; " : "") +
         ("dangerous: " + joined(arrayOf(effective, "dangerous_patterns"), "none")) +
         "; parameters: " + restrictionsText(arrayOf(effective, "parameter_restrictions")) + "\n";
}

Result<json::object> operationsBody(const Flags& flags, std::string_view member) {
  const std::vector<std::string> operations = flags.all("operation");
  if (operations.empty()) return fail(Code::kInvalid, "what: give --operation NAME");
  return json::object{{member, json::array(operations.begin(), operations.end())}};
}

Result<json::object> grantBody(const Flags& flags) {
  return operationsBody(flags, "grant");
}

Result<json::object> revokeBody(const Flags& flags) {
  return operationsBody(flags, "revoke");
}

Result<json::object> limitBody(const Flags& flags) {
  json::object limits;
  for (const auto& [flag, member] :
       {std::pair("memory", "memory_mb"), {"disk", "disk_mb"}, {"file-size", "file_mb"}}) {
    if (const auto mib = TRY(memoryFlag(flags, flag))) limits[member] = *mib;
  }
  if (const auto text = flags.text("cpu")) limits["cpu_percent"] = TRY(parsePercent(*text, "cpu"));
  if (const auto seconds = TRY(secondsFlag(flags, "time"))) limits["time_seconds"] = *seconds;
  constexpr int64_t kAny = 1'000'000'000;
  for (const auto& [flag, member] :
       {std::pair("at-once", "concurrent"), {"requests", "requests_per_minute"}}) {
    if (const auto n = TRY(flags.integer(flag, 1, kAny))) limits[member] = *n;
  }
  if (limits.empty()) {
    return fail(Code::kInvalid,
                "which limit: give --memory, --cpu, --time, --disk, --file-size, --at-once or "
                "--requests");
  }
  return json::object{{"limits", std::move(limits)}};
}

std::string limitsText(const json::object& answer) {
  return limitText(objectOf(objectOf(answer, "effective"), "limits")) + "\n";
}

constexpr Verb kCreate = {.method = "POST",
                          .path = kAgentSandbox,
                          .missing = kWhichAgent,
                          .query = "tenant",
                          .body = createBody,
                          .said = "✓ Sandbox created for agent {--agent} (level: {--level})\n"};
// A note if no key makes runs of the agent, as after a typing error in its name. It is no error:
// users of the identity provider have no key, and a key may come later.
Result<> noteWithoutKey(const Invocation& invocation) {
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object caller = TRY(call(client, "GET", "/v1/whoami"));
  const std::string tenant = invocation.flags.text("tenant").value_or(textOf(caller, "tenant"));
  const std::string agent = TRY(agentFlag(invocation));
  const json::object answer = TRY(call(client, "GET", "/v1/keys"));
  for (const json::value& item : arrayOf(answer, "keys")) {
    const json::object* key = item.if_object();
    const bool same = key != nullptr && textOf(*key, "tenant") == tenant &&
                      textOf(*key, "agent") == agent && textOf(*key, "revoked_at").empty();
    if (same) return {};
  }
  writeTo(STDERR_FILENO, "note: no key of tenant " + printable(tenant) + " has the agent " +
                             printable(agent) + " (see `cloister key create --agent`)\n");
  return {};
}

Result<int> create(const Invocation& invocation) {
  const int status = TRY(carryOut(kCreate, invocation));
  // Who may not list keys gets no note.
  if (!invocation.globals.json && !invocation.globals.quiet) {
    std::ignore = noteWithoutKey(invocation);
  }
  return status;
}

constexpr Verb kShow = {
    .path = kAgentSandbox, .missing = kWhichAgent, .query = "tenant", .text = sandboxText};
constexpr Verb kDelete = {.method = "DELETE",
                          .path = kAgentSandbox,
                          .missing = kWhichAgent,
                          .query = "tenant",
                          .said = "✓ Sandbox of agent {--agent} deleted\n",
                          .done = "deleted"};

constexpr Verb change(Result<json::object> (*body)(const Flags&), std::string_view said,
                      std::string (*text)(const json::object&) = nullptr) {
  return {.method = "POST",
          .path = kChange,
          .missing = kWhichAgent,
          .query = "tenant",
          .body = body,
          .said = said,
          .text = text};
}
constexpr Verb kUpdate =
    change(levelBody, "✓ Sandbox of agent {--agent} is at level {--level} now\n");
constexpr Verb kFilter = change(filterBody, "✓ Command filter of agent {--agent}: ", filterText);
constexpr Verb kGrant = change(grantBody, "✓ Granted to agent {--agent}: {--operation}\n");
constexpr Verb kRevoke = change(revokeBody, "✓ Revoked from agent {--agent}: {--operation}\n");
constexpr Verb kLimit = change(limitBody, "✓ Limits of agent {--agent}: ", limitsText);

// With --dry-run the change is only tried.
template <const Verb& verb>
Result<int> changeOrTry(const Invocation& invocation) {
  if (!invocation.flags.has("dry-run")) return carryOut<verb>(invocation);
  return tryChange(invocation, TRY(verb.body(invocation.flags)));
}

constexpr Flag kDryRunFlag = {
    .name = "dry-run",
    .value = "",
    .help = "change nothing; say which stored requests would be decided otherwise"};
constexpr Flag kLevelFlags[] = {
    kAgentFlag,
    {.name = "level",
     .value = "LEVEL",
     .help = "unrestricted, standard, restricted, isolated or training"},
    kDryRunFlag,
    kTenantFlag};
constexpr Flag kCreateFlags[] = {
    kAgentFlag,
    kLevelFlags[1],
    {.name = "nested", .value = "", .help = "its sessions have sandboxes for tools within them"},
    kTenantFlag};
constexpr Flag kWhoFlags[] = {kAgentFlag, kTenantFlag};
constexpr Flag kUndoFlag = {.name = "undo", .value = "", .help = "take it back"};
constexpr Flag kAllowFlags[] = {
    kAgentFlag,
    {.name = "command", .value = "PATTERN", .help = "words; a last * is any words", .many = true},
    kUndoFlag,
    kDryRunFlag,
    kTenantFlag};
constexpr Flag kForbidFlags[] = {
    kAgentFlag,
    {.name = "path", .value = "GLOB", .help = "as /etc/*", .many = true},
    {.name = "command", .value = "PATTERN", .help = "words; a last * is any words", .many = true},
    kUndoFlag,
    kDryRunFlag,
    kTenantFlag};
constexpr Flag kFilterFlags[] = {
    kAgentFlag,
    {.name = "whitelist",
     .value = "on|off",
     .help = "ignore the level's allowed commands; count the agent's own",
     .choices = "on off"},
    {.name = "dangerous", .value = "PATTERN", .help = "a command that is denied", .many = true},
    {.name = "program", .value = "NAME", .help = "whose options or paths the next flags hold"},
    {.name = "allow-flag", .value = "FLAG", .help = "only these options", .many = true},
    {.name = "forbid-flag", .value = "FLAG", .help = "not these options", .many = true},
    {.name = "allow-path", .value = "GLOB", .help = "only these paths", .many = true},
    kUndoFlag,
    kDryRunFlag,
    kTenantFlag};
constexpr Flag kOperationFlags[] = {
    kAgentFlag,
    {.name = "operation",
     .value = "NAME",
     .help = "file_read, file_write, file_create, file_delete, network, command_execution, "
             "quality_gate or workflow",
     .many = true},
    kDryRunFlag,
    kTenantFlag};
constexpr Flag kLimitFlags[] = {
    kAgentFlag,
    {.name = "memory", .value = "SIZE", .help = "of all that it runs at once, as 2GB"},
    {.name = "cpu", .value = "PERCENT", .help = "of one processor, for all of it, as 50%"},
    {.name = "time", .value = "TIME", .help = "of one run, as 30min"},
    {.name = "disk", .value = "SIZE", .help = "of one run, as 1GB"},
    {.name = "file-size", .value = "SIZE", .help = "of one file, as 100MB"},
    {.name = "at-once", .value = "N", .help = "runs and sessions"},
    {.name = "requests", .value = "N", .help = "over the network, in a minute"},
    kDryRunFlag,
    kTenantFlag};

}  // namespace

const Command kSandboxCreate = {
    .name = "agent create",
    .summary = "give an agent a sandbox",
    .details = "From then on all it runs is held to the level: see docs/AGENTS.md.",
    .flags = kCreateFlags,
    .examples = "cloister agent create --agent alice --level restricted",
    .run = create};
const Command kSandboxUpdate = {
    .name = "agent update",
    .summary = "change an agent's level",
    .flags = kLevelFlags,
    .examples =
        "cloister agent update --agent alice --level standard\n"
        "cloister agent update --agent alice --level isolated --dry-run",
    .run = changeOrTry<kUpdate>};
const Command kSandboxShow = {.name = "agent show",
                              .summary = "show what an agent may do",
                              .flags = kWhoFlags,
                              .examples = "cloister agent show --agent alice",
                              .run = carryOut<kShow>};
const Command kSandboxDelete = {
    .name = "agent delete",
    .summary = "take an agent's sandbox away",
    .details =
        "From then on it is held to agents.default_level, or to nothing where there is none.",
    .flags = kWhoFlags,
    .examples = "cloister agent delete --agent alice",
    .run = carryOut<kDelete>};
const Command kSandboxAllow = {
    .name = "agent allow",
    .summary = "allow an agent a command beyond its level",
    .details = "What its level forbids by name stays forbidden.",
    .flags = kAllowFlags,
    .examples = "cloister agent allow --agent alice --command \"cargo build\"",
    .run = allow};
const Command kSandboxFilter = {
    .name = "agent filter",
    .summary = "set an agent's own command filter",
    .details =
        "Denies more than the level does. --program replaces the agent's earlier restriction of\n"
        "that program: give all of its flags and paths at once. --undo removes the patterns of\n"
        "--dangerous and the restriction of --program; --whitelist off ends the whitelist.",
    .flags = kFilterFlags,
    .examples =
        "cloister agent filter --agent alice --whitelist on\n"
        "cloister agent filter --agent alice --dangerous \"git push *\"\n"
        "cloister agent filter --agent alice --program git --forbid-flag=--force",
    .run = changeOrTry<kFilter>};
const Command kSandboxForbid = {.name = "agent forbid",
                                .summary = "forbid an agent a path or a command",
                                .flags = kForbidFlags,
                                .examples = "cloister agent forbid --agent alice --path \"/etc/*\"",
                                .run = forbid};
const Command kSandboxGrant = {
    .name = "agent grant",
    .summary = "grant an agent a kind of operation",
    .flags = kOperationFlags,
    .examples = "cloister agent grant --agent alice --operation file_write",
    .run = changeOrTry<kGrant>};
const Command kSandboxRevoke = {
    .name = "agent revoke",
    .summary = "revoke a kind of operation",
    .flags = kOperationFlags,
    .examples = "cloister agent revoke --agent alice --operation network",
    .run = changeOrTry<kRevoke>};
const Command kSandboxLimit = {.name = "agent limit",
                               .summary = "set what an agent may use",
                               .flags = kLimitFlags,
                               .examples =
                                   "cloister agent limit --agent alice --memory 2GB\n"
                                   "cloister agent limit --agent alice --cpu 50%\n"
                                   "cloister agent limit --agent alice --time 30min",
                               .run = changeOrTry<kLimit>};

}  // namespace cloister::cli
