// SPDX-License-Identifier: Apache-2.0
// `cloister quota …`: quotas of tenants and agents, and their use.
#include <unistd.h>

#include <charconv>

#include "cli/commands/resources.h"
#include "cli/commands/sandbox.h"
#include "cli/render/amounts.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

Result<int64_t> parseCount(std::string_view text, std::string_view flag) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value > 0) return value;
  return fail(Code::kInvalid, "--" + std::string(flag) + ": give a whole number, at least 1");
}

// A flag of `quota set`, and its member.
struct Dimension {
  std::string_view flag;
  std::string_view member;
  std::string_view unit;
  Result<int64_t> (*read)(std::string_view text, std::string_view flag) = parseCount;
};
constexpr Dimension kDimensions[] = {
    {"concurrent", "concurrent", "runs at once"},
    {"sessions", "sessions", "sessions at once"},
    {"runs-per-minute", "runs_per_minute", "runs a minute"},
    {"cpu-seconds-per-hour", "cpu_seconds_per_hour", "processor seconds this hour"},
    {"memory", "memory_mb", "MiB of limits at once", parseMemoryMb},
    {"storage", "storage_mb", "MiB kept", parseMemoryMb},
};

std::string tenantQuery(const Invocation& invocation) {
  const auto tenant = invocation.flags.text("tenant");
  return tenant ? "tenant=" + net::percentEncode(*tenant) : "";
}

// The named tenant, or the caller's own.
Result<std::string> tenantOf(net::BlockingClient& client, const Invocation& invocation) {
  if (const auto tenant = invocation.flags.text("tenant")) return *tenant;
  return textOf(TRY(call(client, "GET", "/v1/whoami")), "tenant");
}

std::string quotaText(const json::object& quota) {
  const std::string agent = printable(textOf(quota, "agent"));
  const std::string tenant = printable(textOf(quota, "tenant"));
  const bool of_agent = quota.at("agent").is_string();
  std::string text = of_agent ? "Agent " + agent + " of tenant " + tenant : "Tenant " + tenant;
  text += "\n";
  const json::object& bounds = objectOf(quota, "effective");
  const json::object& use = objectOf(quota, "use");
  for (const Dimension& each : kDimensions) {
    const json::value* bound = bounds.if_contains(each.member);
    const bool bounded = bound != nullptr && bound->is_number();
    const bool known = use.if_contains(each.member) != nullptr;
    if (!bounded && !known) continue;
    text += "   " + (known ? std::to_string(integerOf(use, each.member)) : std::string("…")) +
            " of " + (bounded ? std::to_string(integerOf(bounds, each.member)) : "any number of") +
            " " + std::string(each.unit) + "\n";
  }
  return text;
}

std::string quotasText(const json::object& answer) {
  std::string text;
  for (const json::value& quota : arrayOf(answer, "quotas")) {
    if (quota.is_object()) text += quotaText(quota.get_object());
  }
  return text;
}

constexpr Verb kShow = {.path = "/v1/quotas", .query = "tenant agent", .text = quotasText};

// The path of the agent's or the tenant's quota.
Result<std::string> pathOf(net::BlockingClient& client, const Invocation& invocation) {
  const std::string query = tenantQuery(invocation);
  if (const auto agent = invocation.flags.text("agent")) {
    return "/v1/quotas/agents/" + net::percentEncode(*agent) + (query.empty() ? "" : "?" + query);
  }
  return "/v1/quotas/tenants/" + net::percentEncode(TRY(tenantOf(client, invocation)));
}

// The present quota record of the tenant or agent itself.
Result<json::object> ownOf(net::BlockingClient& client, const Invocation& invocation) {
  const std::string tenant = TRY(tenantOf(client, invocation));
  std::string query = "?tenant=" + net::percentEncode(tenant);
  const std::string agent = invocation.flags.text("agent").value_or("");
  if (!agent.empty()) query += "&agent=" + net::percentEncode(agent);
  const json::object answer = TRY(call(client, "GET", "/v1/quotas" + query));
  for (const json::value& quota : arrayOf(answer, "quotas")) {
    if (!quota.is_object()) continue;
    const json::object& each = quota.get_object();
    const bool same = agent.empty() ? each.at("agent").is_null() : textOf(each, "agent") == agent;
    if (same) return objectOf(each, "own");
  }
  return json::object{};
}

Result<int> set(const Invocation& invocation) {
  net::BlockingClient client = TRY(connect(invocation.globals));
  json::object quota = TRY(ownOf(client, invocation));
  bool given = false;
  for (const Dimension& each : kDimensions) {
    const auto text = invocation.flags.text(each.flag);
    if (!text) continue;
    quota[each.member] = TRY(each.read(*text, each.flag));
    given = true;
  }
  if (!given) return fail(Code::kInvalid, "which: give --concurrent N, or another of the quotas");
  const std::string path = TRY(pathOf(client, invocation));
  return showAnswer({.text = quotaText}, invocation, TRY(call(client, "PUT", path, quota)));
}

Result<int> unset(const Invocation& invocation) {
  net::BlockingClient client = TRY(connect(invocation.globals));
  const std::string path = TRY(pathOf(client, invocation));
  return showAnswer({.text = quotaText}, invocation, TRY(call(client, "PUT", path)));
}

constexpr Flag kOptionalAgent = {
    .name = "agent", .value = "NAME", .help = "of this agent; without it, of the tenant"};
constexpr Flag kWhoFlags[] = {kOptionalAgent, kTenantFlag};
constexpr Flag kSetFlags[] = {
    kOptionalAgent,
    {.name = "concurrent", .value = "N", .help = "runs at once; more wait"},
    {.name = "sessions", .value = "N", .help = "sessions at once"},
    {.name = "runs-per-minute", .value = "N", .help = "runs, cells and programs accepted"},
    {.name = "cpu-seconds-per-hour", .value = "N", .help = "of a processor, in an hour"},
    {.name = "memory", .value = "SIZE", .help = "limits of what runs at once, as 8g"},
    {.name = "storage", .value = "SIZE", .help = "artifacts and snapshots, of a tenant"},
    kTenantFlag};

}  // namespace

const Command kQuotaShow = {.name = "quota show",
                            .summary = "show what may be used, and is",
                            .flags = kWhoFlags,
                            .examples = "cloister quota show --agent alice",
                            .run = carryOut<kShow>};
const Command kQuotaSet = {
    .name = "quota set",
    .summary = "bound what an agent or tenant may use",
    .details = "What is not named stays as it was. See docs/QUOTAS.md.",
    .flags = kSetFlags,
    .examples = "cloister quota set --agent alice --concurrent 2 --runs-per-minute 60",
    .run = set};
const Command kQuotaUnset = {.name = "quota unset",
                             .summary = "take an agent's or tenant's own quota away",
                             .details = "From then on the configuration's holds.",
                             .flags = kWhoFlags,
                             .examples = "cloister quota unset --agent alice",
                             .run = unset};

}  // namespace cloister::cli
