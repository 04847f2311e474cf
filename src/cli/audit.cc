// SPDX-License-Identifier: Apache-2.0
// `cloister audit …`: the append-only log, to read, to take away, to prove.
#include <unistd.h>

#include "cli/api.h"
#include "cli/command.h"
#include "cli/outline.h"
#include "cli/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

Result<int> verify(const Invocation& invocation) {
  constexpr Millis kLongWalk{3'600'000};
  HttpClient client = TRY(connect(invocation.globals));
  const HttpResponse answer =
      TRY(client.exchange({.method = "GET", .target = "/v1/audit/verify"}, kLongWalk));
  if (answer.head.status >= 300) return std::unexpected(refusal(answer.head, answer.body));
  const json::object report = TRY(parseObject(answer.body));
  const bool ok = boolOf(report, "ok");
  if (invocation.globals.json) {
    printJson(report);
  } else if (ok) {
    writeTo(STDOUT_FILENO, "ok: " + textOf(report, "entries") + " entries, " +
                               textOf(report, "checkpoints") + " signed checkpoints, head " +
                               printable(textOf(report, "head")) + "\n");
  } else {
    writeTo(STDOUT_FILENO, "BROKEN: " + printable(textOf(report, "problem")) +
                               "\nfirst bad entry: " + textOf(report, "first_bad") + "\n");
  }
  return ok ? 0 : 1;
}

std::string startTarget(std::string_view path, int64_t after) {
  return std::string(path) + "?after=" + std::to_string(after);
}

Result<int64_t> afterFlag(const Invocation& invocation) {
  return TRY(invocation.flags.integer("after", 0, INT64_MAX)).value_or(0);
}

Result<int> exportAll(const Invocation& invocation) {
  constexpr Millis kSilence{60'000};
  const int64_t after = TRY(afterFlag(invocation));
  HttpClient client = TRY(connect(invocation.globals));
  const HttpHead head = TRY(client.open({.method = "GET",
                                         .target = startTarget("/v1/audit/export", after),
                                         .accept = "application/x-ndjson"}));
  std::string piece;
  for (;;) {
    piece.clear();
    const auto got = TRY(client.read(piece, kSilence));
    if (got == HttpClient::Piece::kTimeout) {
      return fail(Code::kUnavailable, "exporting the audit log: the server is silent");
    }
    if (head.status >= 300) return std::unexpected(refusal(head, piece));
    if (got == HttpClient::Piece::kEnd) return 0;
    if (!writeTo(STDOUT_FILENO, piece)) return failErrno("writing the audit log");
  }
}

Result<int> list(const Invocation& invocation) {
  constexpr int64_t kMost = 1000;
  const int64_t after = TRY(afterFlag(invocation));
  const int64_t limit = TRY(invocation.flags.integer("limit", 1, kMost)).value_or(50);
  HttpClient client = TRY(connect(invocation.globals));
  const std::string target = startTarget("/v1/audit", after) + "&limit=" + std::to_string(limit);
  const json::object answer = TRY(call(client, "GET", target));
  if (invocation.globals.json) {
    printJson(answer);
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {
      {"SEQ", "AT", "ACTION", "SUBJECT", "TENANT", "KEY"}};
  for (const json::value& item : arrayOf(answer, "entries")) {
    if (!item.is_object()) continue;
    const json::object& entry = item.get_object();
    rows.push_back({textOf(entry, "seq"), textOf(entry, "at"), textOf(entry, "action"),
                    textOf(entry, "subject"), textOf(entry, "tenant"), textOf(entry, "key")});
  }
  writeTo(STDOUT_FILENO, table(rows));
  return 0;
}

constexpr Flag kAfter = {.name = "after", .value = "SEQ", .help = "only entries after this number"};
constexpr Flag kExportFlags[] = {kAfter};
constexpr Flag kListFlags[] = {
    kAfter,
    {.name = "limit", .value = "N", .help = "at most so many (default 50)"},
};

}  // namespace

const Command kAuditList = {.name = "audit list",
                            .summary = "list audit entries, oldest first",
                            .flags = kListFlags,
                            .run = list};
const Command kAuditVerify = {
    .name = "audit verify",
    .summary = "prove that the audit log is whole",
    .details =
        "Checks every hash, link and signed checkpoint. Exits 1 and names the first bad entry\n"
        "if anything was changed, removed, reordered or cut off.",
    .run = verify};
const Command kAuditExport = {.name = "audit export",
                              .summary = "print the audit log as JSON lines",
                              .flags = kExportFlags,
                              .examples = "cloister audit export > audit.jsonl",
                              .run = exportAll};

}  // namespace cloister::cli
