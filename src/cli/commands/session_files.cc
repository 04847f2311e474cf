// SPDX-License-Identifier: Apache-2.0
// `cloister session files`: lists a session's workspace.
#include <unistd.h>

#include "cli/commands/copy_place.h"
#include "cli/commands/resources.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int64_t kMostDepth = 128;
constexpr int64_t kMostEntries = 10'000;

Result<std::string> targetOf(const Invocation& invocation) {
  const auto& operands = invocation.flags.operands();
  if (operands.empty()) {
    return fail(Code::kInvalid, std::string(kWhichSession));
  }
  const std::string path = TRY(workspacePath(operands.size() > 1 ? operands[1] : ""));
  std::string target =
      "/v1/sessions/" + net::percentEncode(operands[0]) + "/files?path=" + net::percentEncode(path);
  if (const auto depth = TRY(invocation.flags.integer("depth", 0, kMostDepth))) {
    target += "&depth=" + std::to_string(*depth);
  }
  if (const auto limit = TRY(invocation.flags.integer("limit", 1, kMostEntries))) {
    target += "&limit=" + std::to_string(*limit);
  }
  return target;
}

std::string pathShown(const json::object& entry, std::string_view name) {
  const std::string path = textOf(entry, name);
  return path.empty() ? "." : path;
}

constexpr Column kEntries[] = {
    {"TYPE", "type"},
    {"MODE", "mode"},
    {"SIZE", "size", bytesOf},
    {"AGE", "modified_at", ageOf},
    {"PATH", "path", pathShown, Fit::kWhole},
};

Result<int> files(const Invocation& invocation) {
  const std::string target = TRY(targetOf(invocation));
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object listed = TRY(call(client, "GET", target));
  const int status = showAnswer({.items = "entries", .columns = kEntries}, invocation, listed);
  const int64_t more = integerOf(listed, "left_out");
  if (more > 0 && !invocation.globals.json) {
    writeTo(STDERR_FILENO, "cloister: " + std::to_string(more) +
                               " more were left out; raise --limit, or give a PATH\n");
  }
  return status;
}

constexpr Flag kFlags[] = {
    {.name = "depth",
     .value = "N",
     .help = "directories within each other to look into (default 1; 0: PATH itself)"},
    {.name = "limit", .value = "N", .help = "how many at most (default 1000)"},
};

}  // namespace

const Command kSessionFiles = {.name = "session files",
                               .operands = "ID [PATH]",
                               .max_operands = 2,
                               .summary = "list what is in a session's workspace",
                               .flags = kFlags,
                               .examples =
                                   "cloister session files ID\n"
                                   "cloister session files ID project/src --depth 3",
                               .run = files};

}  // namespace cloister::cli
