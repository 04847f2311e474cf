// SPDX-License-Identifier: Apache-2.0
// `cloister snapshot …`, `cloister session snapshot` and `cloister session fork`: workspaces kept.
#include <unistd.h>

#include "cli/commands/resources.h"
#include "cli/render/amounts.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/run_body.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int64_t kMaxForks = 200;

constexpr std::string_view kWhich = "which snapshot: give its id (see `cloister snapshot list`)";

Result<json::object> takeBody(const base::Flags& flags) {
  json::object body;
  if (const auto name = flags.text("name")) body["name"] = *name;
  TRY(putPairs(flags, "metadata", body));
  if (const auto ttl = TRY(secondsFlag(flags, "ttl"))) body["ttl_seconds"] = *ttl;
  if (flags.has("memory")) body["memory"] = true;
  return body;
}

// A request for a session like `session`, with the files of `snapshot`.
json::object bodyLike(const json::object& session, const std::string& snapshot) {
  json::object body = objectOf(session, "limits");
  for (const char* member : {"language", "env", "cwd", "network_policy", "deps", "metadata",
                             "capabilities", "ttl_seconds", "idle_ttl_seconds"}) {
    const json::value* value = session.if_contains(member);
    if (value != nullptr && !value->is_null()) body[member] = *value;
  }
  if (boolOf(session, "nested")) body["nested"] = true;
  // A fork never has weaker isolation than the session, and never joins other programs. The weakest
  // runtime and image are left to policy, which may now require more.
  const json::object& provenance = objectOf(session, "provenance");
  const std::string runtime = textOf(provenance, "runtime");
  const std::string image = textOf(provenance, "image");
  if (runtime != "process") body["runtime"] = runtime;
  if (!image.empty() && image != "host") body["image"] = image;
  body["from_snapshot"] = snapshot;
  return body;
}

Result<json::array> makeForks(const Invocation& invocation, net::BlockingClient& client,
                              const json::object& body, int64_t count) {
  json::array made;
  for (int64_t i = 0; i < count; ++i) {
    json::object session = TRY(call(client, "POST", "/v1/sessions", body));
    if (!invocation.globals.json) {
      writeTo(STDOUT_FILENO, printable(textOf(session, "id")) + "\n");
    }
    made.push_back(std::move(session));
  }
  return made;
}

Result<int> fork(const Invocation& invocation) {
  const std::string target =
      TRY(requestTarget({.path = "/v1/sessions/{}", .missing = kWhichSession}, invocation.flags));
  const int64_t count = TRY(invocation.flags.integer("count", 1, kMaxForks)).value_or(1);
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object session = TRY(call(client, "GET", target));
  json::object asked;
  if (invocation.flags.has("memory")) asked["memory"] = true;
  const json::object snapshot = TRY(call(client, "POST", target + "/snapshots", asked));
  const std::string id = textOf(snapshot, "id");
  auto made = makeForks(invocation, client, bodyLike(session, id), count);
  if (!invocation.flags.has("keep")) {
    TRY(call(client, "DELETE", "/v1/snapshots/" + net::percentEncode(id)));
  }
  json::array sessions = TRY(std::move(made));
  if (invocation.globals.json) {
    printJson(json::object{{"snapshot", snapshot}, {"sessions", std::move(sessions)}});
  }
  return 0;
}

constexpr Column kSnapshots[] = {
    {"ID", "id"},
    {"NAME", "name"},
    {"SIZE", "size", bytesOf},
    {.heading = "ADDED", .member = "added_bytes", .shown = bytesOf, .fit = Fit::kWide},
    {.heading = "ENTRIES", .member = "entries", .fit = Fit::kWide},
    {.heading = "SESSION", .member = "session_id", .fit = Fit::kWide},
    {"AGE", "created_at", ageOf},
};
constexpr Verb kTake = {.method = "POST",
                        .path = "/v1/sessions/{}/snapshots",
                        .missing = kWhichSession,
                        .body = takeBody,
                        .said = "{id}\n"};
constexpr Verb kList = {
    .path = "/v1/snapshots", .items = "snapshots", .paged = true, .columns = kSnapshots};
constexpr Verb kShow = {.path = "/v1/snapshots/{}", .missing = kWhich, .text = outline};
constexpr Verb kRemove = {
    .method = "DELETE", .path = "/v1/snapshots/{}", .missing = kWhich, .each = "deleted"};
constexpr Flag kMemoryFlag = {
    .name = "memory", .value = "", .help = "all that runs in it, too (a session of gVisor's)"};
constexpr Flag kTakeFlags[] = {
    kMemoryFlag,
    {.name = "name", .value = "NAME", .help = "what it is called"},
    {.name = "metadata", .value = "NAME=VALUE", .help = "kept with its record", .many = true},
    {.name = "ttl",
     .value = "TIME",
     .help = "how long it is kept, as 7d (default: as long as may be)"},
};
constexpr Flag kListFlags[] = {
    {.name = "limit", .value = "N", .help = "how many (default 20)"},
};
constexpr Flag kForkFlags[] = {
    kMemoryFlag,
    {.name = "count", .value = "N", .help = "how many (default 1)", .letter = 'n'},
    {.name = "keep", .value = "", .help = "keep the snapshot that they were made from"},
};
constexpr size_t kManyIds = 1000;

}  // namespace

const Command kSessionSnapshot = {
    .name = "session snapshot",
    .operands = "SESSION",
    .max_operands = 1,
    .summary = "keep a session's files as they are now, and print the snapshot's id",
    .details =
        "What runs in the session is stopped while they are read, and then goes on. With "
        "--memory, a session that is made from the snapshot goes on with it, too.",
    .flags = kTakeFlags,
    .examples = "cloister session snapshot $S --name before-upgrade",
    .run = carryOut<kTake>};
const Command kSessionFork = {
    .name = "session fork",
    .operands = "SESSION",
    .max_operands = 1,
    .summary = "make sessions like one, with its files, and print their ids",
    .details =
        "The files are taken once, by a snapshot. What runs in the session is copied only with "
        "--memory, and says nothing to anybody then; interpreters keep their variables.",
    .flags = kForkFlags,
    .examples = "cloister session fork $S -n 3",
    .run = fork};
const Command kSnapshotList = {.name = "snapshot list",
                               .summary = "list snapshots, newest first",
                               .flags = kListFlags,
                               .run = carryOut<kList>};
const Command kSnapshotShow = {.name = "snapshot show",
                               .operands = "ID",
                               .max_operands = 1,
                               .summary = "show one snapshot's record",
                               .run = carryOut<kShow>};
const Command kSnapshotRm = {
    .name = "snapshot rm",
    .operands = "ID...",
    .max_operands = kManyIds,
    .summary = "delete snapshots, and what no other one has of their files",
    .run = carryOut<kRemove>};

}  // namespace cloister::cli
