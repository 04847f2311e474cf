// SPDX-License-Identifier: Apache-2.0
// `cloister sandbox …`: what an agent may do. How it fares is in sandbox_watch.cc.
#include "cli/commands/sandbox.h"

#include <unistd.h>

#include "cli/render/outline.h"
#include "cli/render/sandbox_units.h"
#include "cli/render/terminal.h"

namespace cloister::cli {

Result<std::string> agentFlag(const Invocation& invocation) {
  if (auto agent = invocation.flags.text("agent"); agent && !agent->empty()) return *agent;
  return fail(Code::kInvalid, "which agent: give --agent NAME");
}

std::string sandboxPath(const Invocation& invocation, const std::string& agent,
                        std::string_view rest, std::string query) {
  if (const auto tenant = invocation.flags.text("tenant")) {
    query += (query.empty() ? "tenant=" : "&tenant=") + percentEncode(*tenant);
  }
  return "/v1/agents/" + percentEncode(agent) + "/sandbox" + std::string(rest) +
         (query.empty() ? "" : "?" + query);
}

namespace {

using base::Flag;

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
      {"Approved by rule", boolOf(effective, "auto_approve_safe") ? "what is safe" : "nothing"},
      {"Only by a person", joined(arrayOf(effective, "require_human_approval"), "nothing")},
      {"Without an answer", printable(textOf(effective, "fallback_action"))},
      {"Approved for a time", std::to_string(arrayOf(sandbox, "temporary_permissions").size())},
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

// What was done, in one line; or all of it as JSON.
int tell(const Invocation& invocation, const json::object& answer, const std::string& line) {
  if (invocation.globals.json) {
    printJson(answer);
  } else {
    writeTo(STDOUT_FILENO, "✓ " + line + "\n");
  }
  return 0;
}

Result<std::string> levelFlag(const Invocation& invocation) {
  if (auto level = invocation.flags.text("level")) return *level;
  return fail(Code::kInvalid,
              "which level: give --level unrestricted, standard, restricted, isolated or training");
}

Result<int> create(const Invocation& invocation) {
  const std::string agent = TRY(agentFlag(invocation));
  const std::string level = TRY(levelFlag(invocation));
  HttpClient client = TRY(connect(invocation.globals));
  const json::object answer =
      TRY(call(client, "POST", sandboxPath(invocation, agent),
               {{"level", level}, {"nested", invocation.flags.has("nested")}}));
  return tell(
      invocation, answer,
      "Sandbox created for agent " + printable(agent) + " (level: " + printable(level) + ")");
}

Result<json::object> change(const Invocation& invocation, const std::string& agent,
                            const json::object& body) {
  HttpClient client = TRY(connect(invocation.globals));
  return call(client, "POST", sandboxPath(invocation, agent, ":update"), body);
}

Result<int> update(const Invocation& invocation) {
  const std::string agent = TRY(agentFlag(invocation));
  const std::string level = TRY(levelFlag(invocation));
  const json::object answer = TRY(change(invocation, agent, {{"level", level}}));
  return tell(invocation, answer,
              "Sandbox of agent " + printable(agent) + " is at level " + printable(level) + " now");
}

Result<int> show(const Invocation& invocation) {
  const std::string agent = TRY(agentFlag(invocation));
  HttpClient client = TRY(connect(invocation.globals));
  const json::object sandbox = TRY(call(client, "GET", sandboxPath(invocation, agent)));
  if (invocation.globals.json) {
    printJson(sandbox);
  } else {
    writeTo(STDOUT_FILENO, sandboxText(sandbox));
  }
  return 0;
}

Result<int> remove(const Invocation& invocation) {
  const std::string agent = TRY(agentFlag(invocation));
  HttpClient client = TRY(connect(invocation.globals));
  TRY(call(client, "DELETE", sandboxPath(invocation, agent)));
  return tell(invocation, {{"agent", agent}, {"deleted", true}},
              "Sandbox of agent " + printable(agent) + " deleted");
}

// --command and --path, added to a list of the agent's own, or with --undo removed from it.
Result<int> changeLists(const Invocation& invocation,
                        std::initializer_list<std::pair<std::string_view, std::string_view>> flags,
                        std::string_view verb) {
  const std::string agent = TRY(agentFlag(invocation));
  json::object lists;
  std::string told;
  for (const auto& [flag, list] : flags) {
    const std::vector<std::string> all = invocation.flags.all(flag);
    if (all.empty()) continue;
    lists[list] = json::array(all.begin(), all.end());
    for (const std::string& one : all)
      told += (told.empty() ? "" : ", ") + std::string(flag) + " \"" + printable(one) + "\"";
  }
  if (lists.empty()) {
    return fail(Code::kInvalid, "what: give --" + std::string(flags.begin()->first) + " TEXT");
  }
  const bool undo = invocation.flags.has("undo");
  json::object body;
  body[undo ? "remove" : "add"] = std::move(lists);
  const json::object answer = TRY(change(invocation, agent, body));
  return tell(invocation, answer,
              std::string(undo ? "No longer " : "") + std::string(verb) + " for agent " +
                  printable(agent) + ": " + told);
}

Result<int> allow(const Invocation& invocation) {
  return changeLists(invocation, {{"command", "allowed_commands"}},
                     invocation.flags.has("undo") ? "allowed" : "Allowed");
}

Result<int> forbid(const Invocation& invocation) {
  return changeLists(invocation, {{"path", "forbidden_paths"}, {"command", "forbidden_commands"}},
                     invocation.flags.has("undo") ? "forbidden" : "Forbidden");
}

Result<int> filter(const Invocation& invocation) {
  const std::string agent = TRY(agentFlag(invocation));
  const base::Flags& flags = invocation.flags;
  json::object body;
  if (const auto mode = flags.text("whitelist")) {
    if (*mode != "on" && *mode != "off") {
      return fail(Code::kInvalid, "--whitelist: must be on or off");
    }
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
  const json::object answer = TRY(change(invocation, agent, body));
  const json::object& effective = objectOf(answer, "effective");
  return tell(
      invocation, answer,
      "Command filter of agent " + printable(agent) + ": " +
          (boolOf(answer, "whitelist_mode") ? "only its own commands; " : "") +
          "dangerous: " + joined(arrayOf(effective, "dangerous_patterns"), "none") +
          "; parameters: " + restrictionsText(arrayOf(effective, "parameter_restrictions")));
}

Result<int> changeOperations(const Invocation& invocation, std::string_view member,
                             std::string_view told) {
  const std::string agent = TRY(agentFlag(invocation));
  const std::vector<std::string> operations = invocation.flags.all("operation");
  if (operations.empty()) return fail(Code::kInvalid, "what: give --operation NAME");
  json::object body;
  body[member] = json::array(operations.begin(), operations.end());
  const json::object answer = TRY(change(invocation, agent, body));
  std::string names;
  for (const std::string& one : operations)
    names += (names.empty() ? "" : ", ") + printable(one);
  return tell(invocation, answer, std::string(told) + " agent " + printable(agent) + ": " + names);
}

Result<int> grant(const Invocation& invocation) {
  return changeOperations(invocation, "grant", "Granted to");
}

Result<int> revoke(const Invocation& invocation) {
  return changeOperations(invocation, "revoke", "Revoked from");
}

Result<int> limit(const Invocation& invocation) {
  const std::string agent = TRY(agentFlag(invocation));
  json::object limits;
  if (const auto text = invocation.flags.text("memory"))
    limits["memory_mb"] = TRY(parseMemoryMb(*text));
  if (const auto text = invocation.flags.text("cpu"))
    limits["cpu_percent"] = TRY(parsePercent(*text));
  if (const auto text = invocation.flags.text("time"))
    limits["time_seconds"] = TRY(parseSeconds(*text, "time"));
  for (const auto& [flag, member] : {std::pair("disk", "disk_mb"), {"file-size", "file_mb"}}) {
    if (const auto text = invocation.flags.text(flag)) limits[member] = TRY(parseMemoryMb(*text));
  }
  constexpr int64_t kAny = 1'000'000'000;
  for (const auto& [flag, member] :
       {std::pair("at-once", "concurrent"), {"requests", "requests_per_minute"}}) {
    if (const auto n = TRY(invocation.flags.integer(flag, 1, kAny))) limits[member] = *n;
  }
  if (limits.empty()) {
    return fail(Code::kInvalid,
                "which limit: give --memory, --cpu, --time, --disk, --file-size, --at-once or "
                "--requests");
  }
  const json::object answer = TRY(change(invocation, agent, {{"limits", limits}}));
  return tell(invocation, answer,
              "Limits of agent " + printable(agent) + ": " +
                  limitText(objectOf(objectOf(answer, "effective"), "limits")));
}

constexpr Flag kLevelFlags[] = {
    kAgentFlag,
    {.name = "level",
     .value = "LEVEL",
     .help = "unrestricted, standard, restricted, isolated or training"},
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
    kTenantFlag};
constexpr Flag kForbidFlags[] = {
    kAgentFlag,
    {.name = "path", .value = "GLOB", .help = "as /etc/*", .many = true},
    {.name = "command", .value = "PATTERN", .help = "words; a last * is any words", .many = true},
    kUndoFlag,
    kTenantFlag};
constexpr Flag kFilterFlags[] = {
    kAgentFlag,
    {.name = "whitelist",
     .value = "on|off",
     .help = "ignore the level's allowed commands; count the agent's own"},
    {.name = "dangerous", .value = "PATTERN", .help = "a command that is denied", .many = true},
    {.name = "program", .value = "NAME", .help = "whose options or paths the next flags hold"},
    {.name = "allow-flag", .value = "FLAG", .help = "only these options", .many = true},
    {.name = "forbid-flag", .value = "FLAG", .help = "not these options", .many = true},
    {.name = "allow-path", .value = "GLOB", .help = "only these paths", .many = true},
    kUndoFlag,
    kTenantFlag};
constexpr Flag kOperationFlags[] = {
    kAgentFlag,
    {.name = "operation",
     .value = "NAME",
     .help = "file_read, file_write, file_create, file_delete, network, command_execution, "
             "quality_gate or workflow",
     .many = true},
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
    kTenantFlag};

}  // namespace

const Command kSandboxCreate = {
    .name = "sandbox create",
    .summary = "give an agent a sandbox",
    .details = "From then on all it runs is held to the level: see docs/AGENTS.md.",
    .flags = kCreateFlags,
    .examples = "cloister sandbox create --agent alice --level restricted",
    .run = create};
const Command kSandboxUpdate = {
    .name = "sandbox update",
    .summary = "change an agent's level",
    .flags = kLevelFlags,
    .examples = "cloister sandbox update --agent alice --level standard",
    .run = update};
const Command kSandboxShow = {.name = "sandbox show",
                              .summary = "show what an agent may do",
                              .flags = kWhoFlags,
                              .examples = "cloister sandbox show --agent alice",
                              .run = show};
const Command kSandboxDelete = {
    .name = "sandbox delete",
    .summary = "take an agent's sandbox away",
    .details =
        "From then on it is held to agents.default_level, or to nothing where there is none.",
    .flags = kWhoFlags,
    .examples = "cloister sandbox delete --agent alice",
    .run = remove};
const Command kSandboxAllow = {
    .name = "sandbox allow",
    .summary = "allow an agent a command beyond its level",
    .details = "What its level forbids by name stays forbidden.",
    .flags = kAllowFlags,
    .examples = "cloister sandbox allow --agent alice --command \"cargo build\"",
    .run = allow};
const Command kSandboxFilter = {
    .name = "sandbox filter",
    .summary = "set an agent's own command filter",
    .details =
        "Denies more than the level does. --program replaces the agent's earlier restriction of\n"
        "that program: give all of its flags and paths at once. --undo removes the patterns of\n"
        "--dangerous and the restriction of --program; --whitelist off ends the whitelist.",
    .flags = kFilterFlags,
    .examples =
        "cloister sandbox filter --agent alice --whitelist on\n"
        "cloister sandbox filter --agent alice --dangerous \"git push *\"\n"
        "cloister sandbox filter --agent alice --program git --forbid-flag=--force",
    .run = filter};
const Command kSandboxForbid = {
    .name = "sandbox forbid",
    .summary = "forbid an agent a path or a command",
    .flags = kForbidFlags,
    .examples = "cloister sandbox forbid --agent alice --path \"/etc/*\"",
    .run = forbid};
const Command kSandboxGrant = {
    .name = "sandbox grant",
    .summary = "grant an agent a kind of operation",
    .flags = kOperationFlags,
    .examples = "cloister sandbox grant --agent alice --operation file_write",
    .run = grant};
const Command kSandboxRevoke = {
    .name = "sandbox revoke",
    .summary = "revoke a kind of operation",
    .flags = kOperationFlags,
    .examples = "cloister sandbox revoke --agent alice --operation network",
    .run = revoke};
const Command kSandboxLimit = {.name = "sandbox limit",
                               .summary = "set what an agent may use",
                               .flags = kLimitFlags,
                               .examples =
                                   "cloister sandbox limit --agent alice --memory 2GB\n"
                                   "cloister sandbox limit --agent alice --cpu 50%\n"
                                   "cloister sandbox limit --agent alice --time 30min",
                               .run = limit};

}  // namespace cloister::cli
