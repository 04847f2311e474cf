// SPDX-License-Identifier: Apache-2.0
// `cloister agent monitor, violations, audit, stats, health-check`: how agents fare.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/file.h"
#include "cli/commands/sandbox.h"
#include "cli/render/amounts.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int kUnhealthy = 1;

struct Gauge {
  std::string_view name;
  std::string_view title;
  std::string (*shown)(int64_t);
};

std::string percentText(int64_t value) {
  return std::to_string(value) + "%";
}
std::string plain(int64_t value) {
  return std::to_string(value);
}

constexpr Gauge kGauges[] = {{"memory_mb", "Memory", shownMemory},
                             {"cpu_percent", "CPU", percentText},
                             {"time_seconds", "Runtime", shownSeconds},
                             {"running", "Running", plain}};

std::string usageText(const json::object& usage) {
  std::string text = "→ Agent " + printable(textOf(usage, "agent")) + " resource usage:\n";
  std::string warnings;
  for (const Gauge& gauge : kGauges) {
    const json::object& value = objectOf(usage, gauge.name);
    const bool bounded = value.if_contains("limit") != nullptr && !value.at("limit").is_null();
    text += "   " + std::string(gauge.title) + ": " + gauge.shown(integerOf(value, "used"));
    if (bounded) text += " / " + gauge.shown(integerOf(value, "limit"));
    const int64_t reserved = integerOf(value, "reserved");
    if (reserved > 0) text += ", " + gauge.shown(reserved) + " reserved";
    if (boolOf(value, "warning")) {
      text += " (" + std::to_string(integerOf(value, "percent")) + "% - Warning)";
      warnings += "\n⚠️  WARNING: " + std::string(gauge.title) + " usage approaching limit\n";
    }
    text += "\n";
  }
  return text + warnings;
}

Result<int> monitor(const Invocation& invocation) {
  const std::string agent = TRY(agentFlag(invocation));
  const int64_t every = TRY(secondsFlag(invocation.flags, "interval")).value_or(1);
  net::BlockingClient client = TRY(connect(invocation.globals));
  for (;;) {
    const json::object usage = TRY(call(client, "GET", sandboxPath(invocation, agent, "/usage")));
    if (invocation.globals.json) {
      writeTo(STDOUT_FILENO, streamed(usage));
    } else {
      writeTo(STDOUT_FILENO, usageText(usage));
    }
    if (!invocation.flags.has("watch")) return 0;
    std::this_thread::sleep_for(std::chrono::seconds(std::max<int64_t>(every, 1)));
  }
}

constexpr Column kViolations[] = {
    {"AGE", "at", ageOf},       {"LEVEL", "level"}, {"OUTCOME", "outcome"},
    {"OPERATION", "operation"}, {"RULE", "rule"},   {"WHAT", "what"},
};
constexpr Verb kShowViolations = {.path = "/v1/agents/{--agent}/sandbox/violations",
                                  .missing = kWhichAgent,
                                  .query = "tenant",
                                  .items = "violations",
                                  .paged = true,
                                  .columns = kViolations,
                                  .empty = "✓ No violations of agent {--agent}\n"};

std::string whoDid(const json::object& entry, std::string_view name) {
  const json::object& by = objectOf(entry, name);
  for (const std::string_view member : {"agent", "user"}) {
    if (std::string who = textOf(by, member); !who.empty()) return who;
  }
  return textOf(entry, "by_credential");
}

Result<int> audit(const Invocation& invocation) {
  const std::string agent = TRY(agentFlag(invocation));
  std::string filter;
  if (const auto seconds = TRY(secondsFlag(invocation.flags, "period")))
    filter = "period_seconds=" + std::to_string(*seconds);
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::array all = TRY(newest(client, sandboxPath(invocation, agent, "/audit", filter),
                                     "entries", invocation.flags));
  // Administrators get the position in the whole log, for `audit redact`.
  const bool whole = !all.empty() && all[0].is_object() && all[0].get_object().contains("position");
  const Column columns[] = {
      {whole ? "POSITION" : "SEQ", whole ? "position" : "seq"},
      {"AGE", "at", ageOf},
      {"ACTION", "action"},
      {"BY", "by", whoDid},
      {"SUBJECT", "subject"},
  };
  return showAnswer({.items = "entries", .columns = columns}, invocation, {{"entries", all}});
}

std::string deniedOf(const json::object& agent, std::string_view name) {
  return std::to_string(integerOf(objectOf(agent, name), "denied"));
}
std::string memoryOf(const json::object& agent, std::string_view name) {
  return shownMemory(integerOf(agent, name));
}
std::string percentOf(const json::object& agent, std::string_view name) {
  return percentText(integerOf(agent, name));
}

constexpr Column kStats[] = {
    {"AGENT", "agent"},
    {.heading = "TENANT", .member = "tenant", .fit = Fit::kWide},
    {"LEVEL", "level"},
    {"RUNS", "executions_total"},
    {"DENIED", "executions", deniedOf},
    {"SESSIONS", "sessions"},
    {"RUNNING", "running"},
    {"MEMORY", "memory_mb", memoryOf},
    {"CPU", "cpu_percent", percentOf},
    {"VIOLATIONS", "violations"},
    {"LAST", "last_violation_at", ageOf},
};

Result<json::array> statsOfAll(const Invocation& invocation, net::BlockingClient& client) {
  json::array all;
  std::string cursor;
  do {
    std::string target = "/v1/agents?limit=200";
    if (const auto tenant = invocation.flags.text("tenant"))
      target += "&tenant=" + net::percentEncode(*tenant);
    if (!cursor.empty()) target += "&cursor=" + net::percentEncode(cursor);
    const json::object page = TRY(call(client, "GET", target));
    for (const json::value& item : arrayOf(page, "agents")) {
      if (!item.is_object()) continue;
      const json::object& sandbox = item.get_object();
      all.push_back(
          TRY(call(client, "GET",
                   "/v1/agents/" + net::percentEncode(textOf(sandbox, "agent")) +
                       "/sandbox/stats?tenant=" + net::percentEncode(textOf(sandbox, "tenant")))));
    }
    cursor = textOf(page, "next_cursor");
  } while (!cursor.empty());
  return all;
}

Result<int> stats(const Invocation& invocation) {
  const bool every = invocation.flags.has("all-agents");
  if (every == invocation.flags.has("agent")) {
    return fail(Code::kInvalid, "of whom: give either --agent NAME or --all-agents");
  }
  net::BlockingClient client = TRY(connect(invocation.globals));
  json::array all;
  if (every) {
    all = TRY(statsOfAll(invocation, client));
  } else {
    const std::string agent = TRY(agentFlag(invocation));
    all.push_back(TRY(call(client, "GET", sandboxPath(invocation, agent, "/stats"))));
  }
  return showAnswer({.items = "agents", .columns = kStats}, invocation,
                    {{"agents", std::move(all)}});
}

std::string healthText(const json::object& health) {
  const auto line = [&](std::string_view member, std::string_view good, std::string_view bad) {
    const bool fine = boolOf(health, member);
    return std::string(fine ? "✓ " : "❌ ") + std::string(fine ? good : bad) + "\n";
  };
  std::string text = line("ledger_ok", "The ledger accepts records", "The ledger refuses records");
  text += line("node_ok", "A node is connected", "No node is connected: nothing can run");
  text += line("sandboxes_ok",
               "All " + textOf(health, "agents") + " sandboxes can be held to their level",
               "Sandboxes that cannot be held, so that all their agents ask is refused:");
  for (const json::value& item : arrayOf(health, "broken")) {
    if (!item.is_object()) continue;
    const json::object& one = item.get_object();
    text += "   " + printable(textOf(one, "agent")) + " of " + printable(textOf(one, "tenant")) +
            ": " + printable(textOf(one, "problem")) + "\n";
  }
  return text;
}

int healthStatus(const json::object& health) {
  return boolOf(health, "ok") ? 0 : kUnhealthy;
}

constexpr Verb kHealth = {.path = "/v1/agents:health", .text = healthText, .status = healthStatus};

std::string checkText(const json::object& verdict) {
  std::string text;
  for (const json::value& item : arrayOf(verdict, "results")) {
    if (!item.is_object()) continue;
    const json::object& one = item.get_object();
    const bool fine = textOf(one, "outcome") == "approved";
    text += std::string(fine ? "✓ " : "❌ ") + printable(textOf(one, "operation")) + " " +
            printable(textOf(one, "target"));
    if (!fine) text += ": " + printable(textOf(one, "reason"));
    text += "\n";
  }
  for (const json::value& item : arrayOf(objectOf(verdict, "total"), "exceeded_limits")) {
    if (!item.is_object()) continue;
    const json::object& one = item.get_object();
    text += "❌ all of it together: " + printable(textOf(one, "limit")) + " " +
            textOf(one, "wanted") + ", and the agent may have " + textOf(one, "value") +
            (integerOf(one, "used") > 0 ? " less " + textOf(one, "used") + " in use" : "") + "\n";
  }
  return text;
}

Result<json::object> planBody(const base::Flags& flags) {
  constexpr size_t kMost = size_t{8} << 20;
  if (flags.operands().empty())
    return fail(Code::kInvalid, "what to check: give a file with the plan, or - for stdin");
  const std::string& file = flags.operands()[0];
  const std::string text = TRY(base::readFile(file == "-" ? "/dev/stdin" : file, kMost));
  const json::value plan = TRY(base::parseJson(text));
  if (plan.is_array()) return json::object{{"operations", plan}};
  if (plan.is_object()) return plan.get_object();
  return fail(Code::kInvalid, file + ": must be a list of operations");
}

int checkStatus(const json::object& verdict) {
  return boolOf(verdict, "approved") ? 0 : kUnhealthy;
}

constexpr Verb kCheck = {.method = "POST",
                         .path = "/v1/agents/{--agent}/sandbox:validate",
                         .missing = kWhichAgent,
                         .query = "tenant",
                         .body = planBody,
                         .text = checkText,
                         .status = checkStatus};

constexpr Flag kCheckFlags[] = {kAgentFlag, kTenantFlag};
constexpr Flag kLimitFlag = {.name = "limit", .value = "N", .help = "at most (default: 20)"};
constexpr Flag kMonitorFlags[] = {
    kAgentFlag,
    {.name = "watch", .value = "", .help = "again and again, until it is interrupted"},
    {.name = "interval", .value = "TIME", .help = "between two (default: 1s)"},
    kTenantFlag};
constexpr Flag kViolationFlags[] = {kAgentFlag, kLimitFlag, kTenantFlag};
constexpr Flag kAuditFlags[] = {
    kAgentFlag,
    {.name = "period", .value = "TIME", .help = "how far back, as 7d (default: all)"},
    kLimitFlag,
    kTenantFlag};
constexpr Flag kStatsFlags[] = {
    kAgentFlag, {.name = "all-agents", .value = "", .help = "of every agent"}, kTenantFlag};

}  // namespace

const Command kSandboxMonitor = {
    .name = "agent monitor",
    .summary = "show what an agent uses of its limits",
    .details =
        "Memory and CPU are what all that it runs uses now. What is reserved are the limits of "
        "that; new work is admitted by the memory that is left of those.",
    .flags = kMonitorFlags,
    .examples =
        "cloister agent monitor --agent alice\n"
        "cloister agent monitor --agent alice --watch",
    .run = monitor};
const Command kSandboxViolations = {.name = "agent violations",
                                    .summary = "show what an agent tried beyond its sandbox",
                                    .flags = kViolationFlags,
                                    .examples = "cloister agent violations --agent alice",
                                    .run = carryOut<kShowViolations>};
const Command kSandboxAudit = {.name = "agent audit",
                               .summary = "show what was done to an agent, and by it",
                               .flags = kAuditFlags,
                               .examples = "cloister agent audit --agent alice --period 7d",
                               .run = audit};
const Command kSandboxStats = {.name = "agent stats",
                               .summary = "count what agents ran and tried",
                               .flags = kStatsFlags,
                               .examples = "cloister agent stats --all-agents",
                               .run = stats};
const Command kSandboxCheck = {
    .name = "agent check",
    .operands = "PLAN | -",
    .max_operands = 1,
    .summary = "ask whether an agent may do what a plan says",
    .details =
        "PLAN is JSON: a list of operations, as of POST /v1/agents/{agent}/sandbox:validate, each\n"
        "with the `resources` that it takes. Their sum is judged too. Nothing runs, "
        "and\n"
        "nothing is recorded. The exit status is 1 when something of it is refused.",
    .flags = kCheckFlags,
    .examples =
        "cloister agent check --agent alice plan.json\n"
        "echo '[{\"type\":\"command\",\"command\":\"cargo build\"}]' | cloister agent check "
        "--agent "
        "alice -",
    .run = carryOut<kCheck>};
const Command kSandboxHealthCheck = {.name = "agent health-check",
                                     .summary = "check that every sandbox can be held to its level",
                                     .details = "The exit status is 1 when something is wrong.",
                                     .examples = "cloister agent health-check",
                                     .run = carryOut<kHealth>};

}  // namespace cloister::cli
