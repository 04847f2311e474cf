// SPDX-License-Identifier: Apache-2.0
// `cloister session files`: what is in a session's workspace.
#include <unistd.h>

#include "cli/api.h"
#include "cli/command.h"
#include "cli/commands/copy_place.h"
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
    return fail(Code::kInvalid, "which session: give its id (see `cloister session list`)");
  }
  const std::string path = TRY(workspacePath(operands.size() > 1 ? operands[1] : ""));
  std::string target =
      "/v1/sessions/" + percentEncode(operands[0]) + "/files?path=" + percentEncode(path);
  if (const auto depth = TRY(invocation.flags.integer("depth", 0, kMostDepth))) {
    target += "&depth=" + std::to_string(*depth);
  }
  if (const auto limit = TRY(invocation.flags.integer("limit", 1, kMostEntries))) {
    target += "&limit=" + std::to_string(*limit);
  }
  return target;
}

Result<int> files(const Invocation& invocation) {
  const std::string target = TRY(targetOf(invocation));
  HttpClient client = TRY(connect(invocation.globals));
  const json::object listed = TRY(call(client, "GET", target));
  if (invocation.globals.json) {
    printJson(listed);
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {{"TYPE", "MODE", "SIZE", "MODIFIED", "PATH"}};
  for (const json::value& item : arrayOf(listed, "entries")) {
    if (!item.is_object()) continue;
    const json::object& entry = item.get_object();
    const std::string path = textOf(entry, "path");
    rows.push_back({textOf(entry, "type"), textOf(entry, "mode"),
                    humanBytes(static_cast<uint64_t>(integerOf(entry, "size"))),
                    textOf(entry, "modified_at"), path.empty() ? "." : path});
  }
  writeTo(STDOUT_FILENO, table(rows));
  if (const int64_t more = integerOf(listed, "left_out"); more > 0) {
    writeTo(STDERR_FILENO, "cloister: " + std::to_string(more) +
                               " more were left out; raise --limit, or give a PATH\n");
  }
  return 0;
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
