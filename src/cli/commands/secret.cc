// SPDX-License-Identifier: Apache-2.0
// `cloister secret …`: secrets of the tenant. A value comes from standard input alone, since others
// of the machine can read the arguments of a command.
#include <unistd.h>

#include <csignal>

#include "base/clock.h"
#include "cli/commands/resources.h"
#include "cli/relay.h"
#include "cli/render/amounts.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr std::string_view kWhich = "which secret: give its name (see `cloister secret list`)";

Result<std::string> readSecret() {
  if (isTerminal(STDIN_FILENO)) {
    return fail(Code::kInvalid,
                "reading the value: standard input is a terminal, which would show it; use a pipe "
                "or a file, such as `cloister secret set NAME < FILE`");
  }
  const supervisor::Signals signals = TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP}));
  std::string value = TRY(readStdin(signals));
  if (value.ends_with('\n')) value.pop_back();
  if (base::isUtf8(value)) return value;
  return fail(Code::kInvalid, "reading the value: it is not UTF-8; encode it, as with base64");
}

// A time stays a time; a duration counts from now.
Result<std::string> endOf(const std::string& text) {
  if (base::parseTime(text)) return text;
  constexpr int64_t kSecond = 1'000'000;
  const auto seconds = parseSeconds(text, "expires");
  if (seconds) return base::formatTime(base::wallMicros() + *seconds * kSecond);
  return fail(Code::kInvalid,
              "--expires: \"" + printable(text) +
                  "\" is neither a time, as 2030-01-31T00:00:00Z, nor a duration, as 30d",
              "--expires");
}

Result<int> set(const Invocation& invocation) {
  const std::string target =
      TRY(requestTarget({.path = "/v1/secrets/{}", .missing = kWhich}, invocation.flags));
  json::object body;
  body["value"] = TRY(readSecret());
  if (const auto time = invocation.flags.text("expires")) body["expires_at"] = TRY(endOf(*time));
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object answer = TRY(call(client, "PUT", target, body));
  if (invocation.globals.json) {
    printJson(answer);
  } else {
    writeTo(STDOUT_FILENO, printable(textOf(answer, "name")) + ": version " +
                               std::to_string(integerOf(answer, "version")) + "\n");
  }
  return 0;
}

constexpr Column kSecretColumns[] = {
    {"NAME", "name"},     {"VERSION", "version"},           {"UPDATED", "updated_at", ageOf},
    {"BY", "updated_by"}, {"EXPIRES", "expires_at", dueOf}, {"USED", "last_used_at", ageOf}};
constexpr Verb kList = {
    .path = "/v1/secrets", .items = "secrets", .columns = kSecretColumns, .empty = "no secrets\n"};
constexpr Verb kRemove = {
    .method = "DELETE", .path = "/v1/secrets/{}", .missing = kWhich, .each = "deleted"};

constexpr Flag kSetFlags[] = {
    {.name = "expires",
     .value = "TIME",
     .help = "how long it may be used, as 30d, or until when, as 2030-01-31 (default: for ever)"}};

}  // namespace

const Command kSecretSet = {
    .name = "secret set",
    .operands = "NAME",
    .max_operands = 1,
    .summary = "set a secret from standard input",
    .details =
        "One line feed at the end is left out. The value is never shown again; see\n"
        "docs/SECRETS.md.",
    .flags = kSetFlags,
    .examples = "printf %s \"$TOKEN\" | cloister secret set GITHUB_TOKEN",
    .run = set};
const Command kSecretList = {.name = "secret list",
                             .summary = "list secrets, without their values",
                             .examples = "cloister secret list",
                             .run = carryOut<kList>};
const Command kSecretRemove = {.name = "secret rm",
                               .operands = "NAME...",
                               .max_operands = 1000,
                               .summary = "delete secrets",
                               .examples = "cloister secret rm GITHUB_TOKEN",
                               .run = carryOut<kRemove>};

}  // namespace cloister::cli
