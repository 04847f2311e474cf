// SPDX-License-Identifier: Apache-2.0
// `cloister snapshot …`, `cloister session snapshot` and `cloister session fork`: workspaces kept.
#include <unistd.h>

#include "cli/api.h"
#include "cli/command.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/run_body.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int64_t kMaxForks = 200;

Result<std::string> idOf(const Invocation& invocation, std::string_view what) {
  if (!invocation.flags.operands().empty()) {
    return percentEncode(invocation.flags.operands()[0]);
  }
  return fail(Code::kInvalid, "which " + std::string(what) + ": give its id (see `cloister " +
                                  std::string(what) + " list`)");
}

Result<int> take(const Invocation& invocation) {
  constexpr int64_t kMaxSeconds = int64_t{100} * 365 * 86'400;
  const std::string target = "/v1/sessions/" + TRY(idOf(invocation, "session")) + "/snapshots";
  const base::Flags& flags = invocation.flags;
  json::object body;
  if (const auto name = flags.text("name")) body["name"] = *name;
  TRY(putPairs(flags, "metadata", body));
  if (const auto ttl = TRY(flags.integer("ttl-seconds", 1, kMaxSeconds))) {
    body["ttl_seconds"] = *ttl;
  }
  if (flags.has("memory")) body["memory"] = true;
  HttpClient client = TRY(connect(invocation.globals));
  const json::object made = TRY(call(client, "POST", target, body));
  if (invocation.globals.json) {
    printJson(made);
  } else {
    writeTo(STDOUT_FILENO, printable(textOf(made, "id")) + "\n");
  }
  return 0;
}

std::string sizeOf(const json::object& snapshot, std::string_view member) {
  return humanBytes(static_cast<uint64_t>(integerOf(snapshot, member)));
}

Result<int> list(const Invocation& invocation) {
  HttpClient client = TRY(connect(invocation.globals));
  json::array all = TRY(newest(client, "/v1/snapshots", invocation.flags));
  if (invocation.globals.json) {
    printJson(json::object{{"snapshots", std::move(all)}});
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {
      {"ID", "NAME", "SIZE", "ADDED", "ENTRIES", "SESSION", "CREATED"}};
  for (const json::value& item : all) {
    const json::object& one = item.get_object();
    rows.push_back({textOf(one, "id"), textOf(one, "name"), sizeOf(one, "size"),
                    sizeOf(one, "added_bytes"), textOf(one, "entries"), textOf(one, "session_id"),
                    textOf(one, "created_at")});
  }
  writeTo(STDOUT_FILENO, table(rows));
  return 0;
}

Result<int> show(const Invocation& invocation) {
  const std::string target = "/v1/snapshots/" + TRY(idOf(invocation, "snapshot"));
  HttpClient client = TRY(connect(invocation.globals));
  const json::object snapshot = TRY(call(client, "GET", target));
  if (invocation.globals.json) {
    printJson(snapshot);
  } else {
    writeTo(STDOUT_FILENO, outline(snapshot));
  }
  return 0;
}

Result<int> rm(const Invocation& invocation) {
  TRY(idOf(invocation, "snapshot"));
  HttpClient client = TRY(connect(invocation.globals));
  const auto& ids = invocation.flags.operands();
  for (const std::string& id : ids) {
    TRY(call(client, "DELETE", "/v1/snapshots/" + percentEncode(id)));
    if (!invocation.globals.json) writeTo(STDOUT_FILENO, printable(id) + ": deleted\n");
  }
  if (invocation.globals.json) {
    printJson(json::object{{"deleted", json::array(ids.begin(), ids.end())}});
  }
  return 0;
}

// A request for a session like `session`, with the files of `snapshot`.
json::object bodyLike(const json::object& session, const std::string& snapshot) {
  json::object body = objectOf(session, "limits");
  for (const char* member : {"language", "env", "cwd", "network_policy", "metadata", "capabilities",
                             "ttl_seconds", "idle_ttl_seconds"}) {
    const json::value* value = session.if_contains(member);
    if (value != nullptr && !value->is_null()) body[member] = *value;
  }
  if (boolOf(session, "nested")) body["nested"] = true;
  // Never behind weaker walls than the session, nor among other programs; what is least of both is
  // left to policy, which may want more by now.
  const json::object& provenance = objectOf(session, "provenance");
  const std::string runtime = textOf(provenance, "runtime");
  const std::string image = textOf(provenance, "image");
  if (runtime != "process") body["runtime"] = runtime;
  if (!image.empty() && image != "host") body["image"] = image;
  body["from_snapshot"] = snapshot;
  return body;
}

Result<json::array> makeForks(const Invocation& invocation, HttpClient& client,
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
  const std::string target = "/v1/sessions/" + TRY(idOf(invocation, "session"));
  const int64_t count = TRY(invocation.flags.integer("count", 1, kMaxForks)).value_or(1);
  HttpClient client = TRY(connect(invocation.globals));
  const json::object session = TRY(call(client, "GET", target));
  json::object asked;
  if (invocation.flags.has("memory")) asked["memory"] = true;
  const json::object snapshot = TRY(call(client, "POST", target + "/snapshots", asked));
  const std::string id = textOf(snapshot, "id");
  auto made = makeForks(invocation, client, bodyLike(session, id), count);
  if (!invocation.flags.has("keep")) {
    TRY(call(client, "DELETE", "/v1/snapshots/" + percentEncode(id)));
  }
  json::array sessions = TRY(std::move(made));
  if (invocation.globals.json) {
    printJson(json::object{{"snapshot", snapshot}, {"sessions", std::move(sessions)}});
  }
  return 0;
}

constexpr Flag kMemoryFlag = {
    .name = "memory", .value = "", .help = "all that runs in it, too (a session of gVisor's)"};
constexpr Flag kTakeFlags[] = {
    kMemoryFlag,
    {.name = "name", .value = "NAME", .help = "what it is called"},
    {.name = "metadata", .value = "NAME=VALUE", .help = "kept with its record", .many = true},
    {.name = "ttl-seconds",
     .value = "N",
     .help = "how long it is kept (default: as long as may be)"},
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
    .run = take};
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
                               .run = list};
const Command kSnapshotShow = {.name = "snapshot show",
                               .operands = "ID",
                               .max_operands = 1,
                               .summary = "show one snapshot's record",
                               .run = show};
const Command kSnapshotRm = {
    .name = "snapshot rm",
    .operands = "ID...",
    .max_operands = kManyIds,
    .summary = "delete snapshots, and what no other one has of their files",
    .run = rm};

}  // namespace cloister::cli
