// SPDX-License-Identifier: Apache-2.0
// `cloister key …`: the API keys of tenants. `cloister whoami`: one's own.
#include <unistd.h>

#include "cli/commands/resources.h"
#include "cli/render/amounts.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr std::string_view kWhich = "which key: give its id (see `cloister key list`)";

// Prints only the secret on stdout, for a pipe; the secret is shown only once.
int printNew(const Invocation& invocation, const json::object& key) {
  if (invocation.globals.json) {
    printJson(key);
    return 0;
  }
  const std::string expires = textOf(key, "expires_at");
  writeTo(STDERR_FILENO,
          "key " + printable(textOf(key, "id")) + " for tenant " +
              printable(textOf(key, "tenant")) + ", which " +
              (expires.empty() ? "never expires" : "expires at " + printable(expires)) +
              "; its secret is not shown again:\n");
  writeTo(STDOUT_FILENO, printable(textOf(key, "secret")) + "\n");
  return 0;
}

Result<int> create(const Invocation& invocation) {
  json::object body;
  for (const std::string_view name : {"tenant", "name", "app", "agent", "user", "format"}) {
    if (const auto text = invocation.flags.text(name)) body[name] = *text;
  }
  for (const auto& [flag, member] : {std::pair("role", "roles"), std::pair("from", "networks")}) {
    const std::vector<std::string> all = invocation.flags.all(flag);
    if (!all.empty()) body[member] = json::array(all.begin(), all.end());
  }
  if (const auto seconds = TRY(secondsFlag(invocation.flags, "expires")))
    body["expires_in_seconds"] = *seconds;
  net::BlockingClient client = TRY(connect(invocation.globals));
  return printNew(invocation, TRY(call(client, "POST", "/v1/keys", body)));
}

Result<int> rotate(const Invocation& invocation) {
  const std::string target =
      TRY(requestTarget({.path = "/v1/keys/{}:rotate", .missing = kWhich}, invocation.flags));
  json::object body;
  if (const auto seconds = TRY(secondsFlag(invocation.flags, "overlap")))
    body["overlap_seconds"] = *seconds;
  if (const auto seconds = TRY(secondsFlag(invocation.flags, "expires")))
    body["expires_in_seconds"] = *seconds;
  if (const auto format = invocation.flags.text("format")) body["format"] = *format;
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
std::string endOf(const json::object& key, std::string_view) {
  return textOf(key, "revoked_at").empty() ? dueOf(key, "expires_at") : "revoked";
}

constexpr Column kKeys[] = {
    {"ID", "id"},
    {"NAME", "name"},
    {"TENANT", "tenant"},
    {"ROLES", "roles", joinedOf},
    {"USED", "last_used_at", ageOf},
    {"EXPIRES", "", endOf},
    {.heading = "REVOKED", .member = "revoked_at", .fit = Fit::kWide},
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

constexpr Column kSignInColumns[] = {
    {"ID", "id"},         {"USER", "user"},  {"AGENT", "agent"},
    {"TENANT", "tenant"}, {"KEY", "key_id"}, {"LAST USE", "last_used_at", ageOf},
};
constexpr Verb kSignIns = {.path = "/v1/sign-ins", .items = "sign_ins", .columns = kSignInColumns};
constexpr Verb kEndSignIn = {.method = "DELETE",
                             .path = "/v1/sign-ins/{}",
                             .missing = "which sign-in: give its id (see `cloister sign-in list`)",
                             .said = "{}: signed out\n",
                             .done = "ended"};

constexpr Flag kRotateFlags[] = {
    {.name = "overlap", .value = "TIME", .help = "both are good for so long (default: 24h)"},
    {.name = "expires",
     .value = "TIME",
     .help = "how long it is good, as 90d (default: as long as the old one was given)"},
    {.name = "format", .value = "FORMAT", .help = "cloister (default) or e2b, as of key create"},
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
    {.name = "expires", .value = "TIME", .help = "how long it is good, as 90d (default: for ever)"},
    {.name = "format",
     .value = "FORMAT",
     .help = "cloister (default), or e2b: a secret that begins with e2b_, for E2B's clients"},
};

}  // namespace

const Command kKeyCreate = {.name = "key create",
                            .summary = "make an API key for a tenant, and print its secret once",
                            .flags = kCreateFlags,
                            .examples =
                                "cloister key create --tenant acme --name ci > acme.key\n"
                                "cloister key create --tenant acme --role viewer --from "
                                "10.0.0.0/8\n"
                                "export E2B_API_KEY=$(cloister key create --tenant acme --format "
                                "e2b)",
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
                            .examples = "cloister key rotate --overlap 1h key_… > new.key",
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

const Command kSignInList = {.name = "sign-in list",
                             .summary = "list who is signed in to the web interface",
                             .run = carryOut<kSignIns>};
const Command kSignInEnd = {
    .name = "sign-in end",
    .operands = "ID",
    .max_operands = 1,
    .summary = "sign a person out of the web interface",
    .details =
        "The page's connections end within a second. The key, or the user of the\n"
        "identity provider, can sign in again: revoke the key, or disable the user, too.",
    .run = carryOut<kEndSignIn>};

}  // namespace cloister::cli
