// SPDX-License-Identifier: Apache-2.0
// `cloister key …`: the API keys of tenants. `cloister whoami`: one's own.
#include <unistd.h>

#include "cli/commands/resources.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int64_t kDay = 86'400;
constexpr int64_t kMostDays = 3650;
constexpr int64_t kMostOverlapHours = 720;

constexpr std::string_view kWhich = "which key: give its id (see `cloister key list`)";

// Prints only the secret on stdout, for a pipe; the secret is shown only once.
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
  net::BlockingClient client = TRY(connect(invocation.globals));
  return printNew(invocation, TRY(call(client, "POST", "/v1/keys", body)));
}

Result<int> rotate(const Invocation& invocation) {
  constexpr int64_t kHour = 3600;
  const std::string target =
      TRY(requestTarget({.path = "/v1/keys/{}:rotate", .missing = kWhich}, invocation.flags));
  json::object body;
  const auto hours = TRY(invocation.flags.integer("overlap-hours", 0, kMostOverlapHours));
  if (hours) body["overlap_seconds"] = *hours * kHour;
  const auto days = TRY(invocation.flags.integer("expires-in-days", 1, kMostDays));
  if (days) body["expires_in_seconds"] = *days * kDay;
  net::BlockingClient client = TRY(connect(invocation.globals));
  return printNew(invocation, TRY(call(client, "POST", target, body)));
}

constexpr Column kKey[] = {
    {"id", "id"},
    {"name", "name"},
    {"tenant", "tenant"},
    {"app", "app"},
    {"agent", "agent"},
    {"user", "user"},
    {"created_at", "created_at"},
    {"expires_at", "expires_at"},
    {"last_used_at", "last_used_at"},
    {"revoked_at", "revoked_at"},
    {"replaces", "replaces"},
    {"replaced_by", "replaced_by", joinedOf},
    {"roles", "roles", joinedOf},
    {"networks", "networks", joinedOf},
};
constexpr Column kCaller[] = {
    {"tenant", "tenant"},
    {"app", "app"},
    {"agent", "agent"},
    {"user", "user"},
    {"credential", "credential"},
    {"expires_at", "expires_at"},
    {"networks", "networks", joinedOf},
    {"roles", "roles", joinedOf},
    {"permissions", "permissions", joinedOf},
};
constexpr Column kKeys[] = {
    {"ID", "id"},
    {"TENANT", "tenant"},
    {"ROLES", "roles", joinedOf},
    {"NAME", "name"},
    {"EXPIRES", "expires_at"},
    {"LAST USED", "last_used_at"},
    {"REVOKED", "revoked_at"},
};
constexpr Verb kList = {.path = "/v1/keys", .items = "keys", .columns = kKeys};
constexpr Verb kShow = {.path = "/v1/keys/{}", .missing = kWhich, .columns = kKey};
constexpr Verb kWho = {.path = "/v1/whoami", .columns = kCaller};
constexpr Verb kRevoke = {
    .method = "DELETE",
    .path = "/v1/keys/{}",
    .missing = kWhich,
    .said =
        "{}: revoked; its connections, links and votes end within a second (see `cloister key "
        "revoke --help`)\n",
    .done = "revoked"};

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
    .name = "key list", .summary = "list API keys (never their secrets)", .run = carryOut<kList>};
const Command kKeyShow = {.name = "key show",
                          .operands = "ID",
                          .max_operands = 1,
                          .summary = "show an API key (never its secret)",
                          .run = carryOut<kShow>};
const Command kKeyRotate = {.name = "key rotate",
                            .operands = "ID",
                            .max_operands = 1,
                            .summary = "give a key a successor, and print its secret once",
                            .flags = kRotateFlags,
                            .examples = "cloister key rotate --overlap-hours 1 key_… > new.key",
                            .run = rotate};
const Command kWhoami = {.name = "whoami",
                         .summary = "what your credential is, and what it may do",
                         .run = carryOut<kWho>};
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
    .run = carryOut<kRevoke>};

}  // namespace cloister::cli
