// SPDX-License-Identifier: Apache-2.0
// `cloister key …`: the API keys of tenants. `cloister whoami`: one's own.
#include <unistd.h>

#include "cli/api.h"
#include "cli/command.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int64_t kDay = 86'400;
constexpr int64_t kMostDays = 3650;
constexpr int64_t kMostOverlapHours = 720;

Result<std::string> operand(const Invocation& invocation) {
  if (!invocation.flags.operands().empty()) return invocation.flags.operands()[0];
  return fail(Code::kInvalid, "which key: give its id (see `cloister key list`)");
}

// "agent, viewer"
std::string joined(const json::object& from, std::string_view name) {
  std::string text;
  for (const json::value& item : arrayOf(from, name)) {
    if (item.is_string()) text += (text.empty() ? "" : ", ") + std::string(item.get_string());
  }
  return text;
}

// The secret alone on stdout, for a pipe; it is shown this once.
int printNew(const Invocation& invocation, const json::object& key) {
  if (invocation.globals.json) {
    printJson(key);
    return 0;
  }
  writeTo(STDERR_FILENO, "key " + printable(textOf(key, "id")) + " for tenant " +
                             printable(textOf(key, "tenant")) +
                             "; its secret is not shown again:\n");
  writeTo(STDOUT_FILENO, printable(textOf(key, "secret")) + "\n");
  return 0;
}

Result<int> create(const Invocation& invocation) {
  json::object body;
  for (const std::string_view name : {"tenant", "name", "app", "agent", "user"}) {
    if (const auto text = invocation.flags.text(name)) body[name] = *text;
  }
  for (const auto& [flag, member] : {std::pair("role", "roles"), std::pair("from", "networks")}) {
    const std::vector<std::string> all = invocation.flags.all(flag);
    if (!all.empty()) body[member] = json::array(all.begin(), all.end());
  }
  const auto days = TRY(invocation.flags.integer("expires-in-days", 1, kMostDays));
  if (days) body["expires_in_seconds"] = *days * kDay;
  HttpClient client = TRY(connect(invocation.globals));
  return printNew(invocation, TRY(call(client, "POST", "/v1/keys", body)));
}

Result<int> rotate(const Invocation& invocation) {
  constexpr int64_t kHour = 3600;
  const std::string id = TRY(operand(invocation));
  json::object body;
  const auto hours = TRY(invocation.flags.integer("overlap-hours", 0, kMostOverlapHours));
  if (hours) body["overlap_seconds"] = *hours * kHour;
  const auto days = TRY(invocation.flags.integer("expires-in-days", 1, kMostDays));
  if (days) body["expires_in_seconds"] = *days * kDay;
  HttpClient client = TRY(connect(invocation.globals));
  const std::string path = "/v1/keys/" + percentEncode(id) + ":rotate";
  return printNew(invocation, TRY(call(client, "POST", path, body)));
}

Result<int> show(const Invocation& invocation) {
  const std::string id = TRY(operand(invocation));
  HttpClient client = TRY(connect(invocation.globals));
  const json::object key = TRY(call(client, "GET", "/v1/keys/" + percentEncode(id)));
  if (invocation.globals.json) {
    printJson(key);
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::string_view name : {"id", "name", "tenant", "app", "agent", "user", "created_at",
                                      "expires_at", "last_used_at", "revoked_at", "replaces"}) {
    rows.push_back({std::string(name), textOf(key, name)});
  }
  for (const std::string_view name : {"replaced_by", "roles", "networks"})
    rows.push_back({std::string(name), joined(key, name)});
  writeTo(STDOUT_FILENO, table(rows));
  return 0;
}

Result<int> whoami(const Invocation& invocation) {
  HttpClient client = TRY(connect(invocation.globals));
  const json::object who = TRY(call(client, "GET", "/v1/whoami"));
  if (invocation.globals.json) {
    printJson(who);
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::string_view name :
       {"tenant", "app", "agent", "user", "credential", "expires_at"}) {
    rows.push_back({std::string(name), textOf(who, name)});
  }
  for (const std::string_view name : {"networks", "roles", "permissions"})
    rows.push_back({std::string(name), joined(who, name)});
  writeTo(STDOUT_FILENO, table(rows));
  return 0;
}

Result<int> list(const Invocation& invocation) {
  HttpClient client = TRY(connect(invocation.globals));
  const json::object answer = TRY(call(client, "GET", "/v1/keys"));
  if (invocation.globals.json) {
    printJson(answer);
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {
      {"ID", "TENANT", "ROLES", "NAME", "EXPIRES", "LAST USED", "REVOKED"}};
  for (const json::value& item : arrayOf(answer, "keys")) {
    if (!item.is_object()) continue;
    const json::object& key = item.get_object();
    rows.push_back({textOf(key, "id"), textOf(key, "tenant"), joined(key, "roles"),
                    textOf(key, "name"), textOf(key, "expires_at"), textOf(key, "last_used_at"),
                    textOf(key, "revoked_at")});
  }
  writeTo(STDOUT_FILENO, table(rows));
  return 0;
}

Result<int> revoke(const Invocation& invocation) {
  const std::string id = TRY(operand(invocation));
  HttpClient client = TRY(connect(invocation.globals));
  TRY(call(client, "DELETE", "/v1/keys/" + percentEncode(id)));
  if (invocation.globals.json) {
    printJson(json::object{{"id", id}, {"revoked", true}});
  } else {
    writeTo(STDOUT_FILENO, printable(id) +
                               ": revoked; its connections, links and votes end within "
                               "a second (see `cloister key revoke --help`)\n");
  }
  return 0;
}

constexpr Flag kRotateFlags[] = {
    {.name = "overlap-hours", .value = "N", .help = "both are good for so long (default: 24)"},
    {.name = "expires-in-days", .value = "N", .help = "default: as long as the old one was given"},
};

constexpr Flag kCreateFlags[] = {
    {.name = "tenant", .value = "NAME", .help = "whose key it is (an administrator must say)"},
    {.name = "name", .value = "TEXT", .help = "what it is for"},
    {.name = "role",
     .value = "ROLE",
     .help = "viewer, agent (default), operator, approver, tenant-admin, admin or metrics",
     .many = true},
    {.name = "from",
     .value = "RANGE",
     .help = "addresses it is good from, as 10.0.0.0/8; default: any",
     .many = true},
    {.name = "app", .value = "NAME", .help = "recorded with every run"},
    {.name = "agent",
     .value = "NAME",
     .help = "whose all is that it makes: keys of the same agent see it, those of others do not"},
    {.name = "user", .value = "NAME", .help = "recorded with every run"},
    {.name = "expires-in-days", .value = "N", .help = "default: never"},
};

}  // namespace

const Command kKeyCreate = {.name = "key create",
                            .summary = "make an API key for a tenant, and print its secret once",
                            .flags = kCreateFlags,
                            .examples =
                                "cloister key create --tenant acme --name ci > acme.key\n"
                                "cloister key create --role viewer --from 10.0.0.0/8",
                            .run = create};
const Command kKeyList = {
    .name = "key list", .summary = "list API keys (never their secrets)", .run = list};
const Command kKeyShow = {.name = "key show",
                          .operands = "ID",
                          .max_operands = 1,
                          .summary = "show an API key (never its secret)",
                          .run = show};
const Command kKeyRotate = {.name = "key rotate",
                            .operands = "ID",
                            .max_operands = 1,
                            .summary = "give a key a successor, and print its secret once",
                            .flags = kRotateFlags,
                            .examples = "cloister key rotate --overlap-hours 1 key_… > new.key",
                            .run = rotate};
const Command kWhoami = {
    .name = "whoami", .summary = "what your credential is, and what it may do", .run = whoami};
const Command kKeyRevoke = {
    .name = "key revoke",
    .operands = "ID",
    .max_operands = 1,
    .summary = "end an API key",
    .details =
        "Within a second its connections end, and so do links, programs on a\n"
        "terminal, MCP calls and votes on approvals that nothing has used.\n"
        "Other programs and sessions go on, unless auth.on_revoke is end. Keys\n"
        "that it made or was rotated to stay good: revoke them, too.",
    .run = revoke};

}  // namespace cloister::cli
