// SPDX-License-Identifier: Apache-2.0
// `cloister key …`: the API keys of tenants.
#include <unistd.h>

#include "cli/api.h"
#include "cli/command.h"
#include "cli/outline.h"
#include "cli/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

Result<int> create(const Invocation& invocation) {
  constexpr int64_t kDay = 86'400;
  constexpr int64_t kMostDays = 3650;
  json::object body;
  for (const std::string_view name : {"tenant", "name", "role", "app", "agent", "user"}) {
    if (const auto text = invocation.flags.text(name)) body[name] = *text;
  }
  if (!body.contains("tenant")) return fail(Code::kInvalid, "--tenant: required");
  const auto days = TRY(invocation.flags.integer("expires-in-days", 1, kMostDays));
  if (days) body["expires_in_seconds"] = *days * kDay;
  HttpClient client = TRY(connect(invocation.globals));
  const json::object key = TRY(call(client, "POST", "/v1/keys", body));
  if (invocation.globals.json) {
    printJson(key);
    return 0;
  }
  // The secret alone on stdout, for a pipe; it is shown this once.
  writeTo(STDERR_FILENO, "key " + printable(textOf(key, "id")) + " for tenant " +
                             printable(textOf(key, "tenant")) +
                             "; its secret is not shown again:\n");
  writeTo(STDOUT_FILENO, printable(textOf(key, "secret")) + "\n");
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
      {"ID", "TENANT", "ROLE", "NAME", "EXPIRES", "REVOKED"}};
  for (const json::value& item : arrayOf(answer, "keys")) {
    if (!item.is_object()) continue;
    const json::object& key = item.get_object();
    rows.push_back({textOf(key, "id"), textOf(key, "tenant"), textOf(key, "role"),
                    textOf(key, "name"), textOf(key, "expires_at"), textOf(key, "revoked_at")});
  }
  writeTo(STDOUT_FILENO, table(rows));
  return 0;
}

Result<int> revoke(const Invocation& invocation) {
  if (invocation.flags.operands().empty()) {
    return fail(Code::kInvalid, "which key: give its id (see `cloister key list`)");
  }
  const std::string& id = invocation.flags.operands()[0];
  HttpClient client = TRY(connect(invocation.globals));
  TRY(call(client, "DELETE", "/v1/keys/" + percentEncode(id)));
  if (invocation.globals.json) {
    printJson(json::object{{"id", id}, {"revoked", true}});
  } else {
    writeTo(STDOUT_FILENO, printable(id) + ": revoked\n");
  }
  return 0;
}

constexpr Flag kCreateFlags[] = {
    {.name = "tenant", .value = "NAME", .help = "whose key it is (required)"},
    {.name = "name", .value = "TEXT", .help = "what it is for"},
    {.name = "role", .value = "ROLE", .help = "agent (default) or admin"},
    {.name = "app", .value = "NAME", .help = "recorded with every run"},
    {.name = "agent", .value = "NAME", .help = "recorded with every run"},
    {.name = "user", .value = "NAME", .help = "recorded with every run"},
    {.name = "expires-in-days", .value = "N", .help = "default: never"},
};

}  // namespace

const Command kKeyCreate = {.name = "key create",
                            .summary = "make an API key for a tenant, and print its secret once",
                            .flags = kCreateFlags,
                            .examples = "cloister key create --tenant acme --name ci > acme.key",
                            .run = create};
const Command kKeyList = {
    .name = "key list", .summary = "list API keys (never their secrets)", .run = list};
const Command kKeyRevoke = {.name = "key revoke",
                            .operands = "ID",
                            .max_operands = 1,
                            .summary = "end an API key",
                            .run = revoke};

}  // namespace cloister::cli
