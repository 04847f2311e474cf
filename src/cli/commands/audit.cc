// SPDX-License-Identifier: Apache-2.0
// `cloister audit …`: the append-only log, to read, to take away, to prove.
#include <unistd.h>

#include <functional>
#include <set>

#include "base/clock.h"
#include "base/file.h"
#include "cli/api.h"
#include "cli/chain_walk.h"
#include "cli/command.h"
#include "cli/commands/audit_key.h"
#include "cli/render/amounts.h"
#include "cli/render/audit_text.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

std::string startTarget(std::string_view path, int64_t after) {
  return std::string(path) + "?after=" + std::to_string(after);
}

Result<int64_t> afterFlag(const Invocation& invocation) {
  return TRY(invocation.flags.integer("after", 0, INT64_MAX)).value_or(0);
}

// Gives the export piece by piece to `take`.
Result<> readExport(net::BlockingClient& client, int64_t after,
                    const std::function<Result<>(std::string_view)>& take) {
  constexpr Millis kSilence{60'000};
  const net::HttpHead head = TRY(client.open({.method = "GET",
                                              .target = startTarget("/v1/audit/export", after),
                                              .accept = "application/x-ndjson"}));
  std::string piece;
  for (;;) {
    piece.clear();
    const auto got = TRY(client.read(piece, kSilence));
    if (got == net::BlockingClient::Piece::kTimeout) {
      return fail(Code::kUnavailable, "exporting the audit log: the server is silent");
    }
    if (head.status >= 300) return std::unexpected(refusal(head, piece));
    if (got == net::BlockingClient::Piece::kEnd) return {};
    TRY(take(piece));
  }
}

Result<int> exportAll(const Invocation& invocation) {
  const int64_t after = TRY(afterFlag(invocation));
  net::BlockingClient client = TRY(connect(invocation.globals));
  TRY(readExport(client, after, [](std::string_view piece) -> Result<> {
    if (!writeTo(STDOUT_FILENO, piece)) return failErrno("writing the audit log");
    return {};
  }));
  return 0;
}

// The key of --key, or the server's key.
Result<base::VerifyKey> keyFor(const Invocation& invocation, net::BlockingClient& client) {
  if (const auto file = invocation.flags.text("key")) return readPublicKey(*file);
  const json::object answer = TRY(call(client, "GET", "/v1/audit/public-key"));
  return base::VerifyKey::fromBase64(textOf(answer, "public_key"));
}

// Checks the log by our own computation; the report has the server's format.
Result<json::object> holdAgainst(const Invocation& invocation, net::BlockingClient& client,
                                 const std::string& file) {
  constexpr size_t kMost = size_t{256} << 20;
  const base::VerifyKey key = TRY(keyFor(invocation, client));
  const std::string text = TRY(base::readFile(file, kMost));
  const auto published = TRY(model::parseCheckpoints(text, file));
  auto walk = ChainWalk::against(published, key);
  Result<> held = walk ? Result<>() : std::unexpected(walk.error());
  if (walk) {
    Result<> fed;
    TRY(readExport(client, 0, [&](std::string_view piece) -> Result<> {
      if (fed) fed = walk->feed(piece);  // the rest is read, to tell a bad log from a bad exchange
      return {};
    }));
    held = fed ? walk->finish() : fed;
  }
  json::object report = {{"ok", held.has_value()}, {"published", published.size()}};
  // Of an incomplete log nothing is known: it is neither whole nor broken.
  report["incomplete"] = !held && held.error().code == Code::kUnsupported;
  report["entries"] = walk ? walk->entries() : 0;
  report["checkpoints"] = walk ? walk->held() : 0;
  report["head"] = walk ? walk->head() : "";
  report["problem"] = held ? "" : held.error().message;
  return report;
}

Result<json::object> askServer(net::BlockingClient& client) {
  constexpr Millis kLongWalk{3'600'000};
  const net::HttpResponse answer =
      TRY(client.exchange({.method = "GET", .target = "/v1/audit/verify"}, kLongWalk));
  if (answer.head.status >= 300) return std::unexpected(refusal(answer.head, answer.body));
  return parseObject(answer.body);
}

void printReport(const json::object& report, bool published) {
  if (boolOf(report, "incomplete")) {
    writeTo(STDERR_FILENO,
            "cloister: nothing is verified: " + printable(textOf(report, "problem")) + "\n");
  } else {
    writeTo(STDOUT_FILENO, auditReport(report, published));
  }
}

Result<int> verify(const Invocation& invocation) {
  net::BlockingClient client = TRY(connect(invocation.globals));
  const auto file = invocation.flags.text("against");
  if (!file && invocation.flags.has("key")) {
    return fail(Code::kInvalid, "--key: is for --against, where the log is verified here");
  }
  const json::object report =
      file ? TRY(holdAgainst(invocation, client, *file)) : TRY(askServer(client));
  if (invocation.globals.json) {
    printJson(report);
  } else {
    printReport(report, file.has_value());
  }
  return boolOf(report, "ok") ? 0 : 1;
}

// The flags of a search, as the names of query parameters; "execution" is execution_id there.
constexpr std::string_view kSearchFlags[] = {"action", "by", "agent", "subject", "since", "until"};

// "2h" is the time two hours ago; any other text is the server's to read.
std::string timeOf(const std::string& text) {
  constexpr int64_t kSecond = 1'000'000;
  const auto ago = base::parseTime(text) ? fail(Code::kInvalid, "") : parseSeconds(text, "since");
  return ago ? base::formatTime(base::wallMicros() - *ago * kSecond) : text;
}

std::string searchTarget(const Invocation& invocation, bool oldest) {
  std::string target = std::string("/v1/audit?order=") + (oldest ? "oldest" : "newest");
  for (const std::string_view flag : kSearchFlags) {
    const auto value = invocation.flags.text(flag);
    if (!value) continue;
    const bool time = flag == "since" || flag == "until";
    target += "&" + std::string(flag) + "=" + net::percentEncode(time ? timeOf(*value) : *value);
  }
  if (const auto id = invocation.flags.text("execution")) {
    target += "&execution_id=" + net::percentEncode(*id);
  }
  return target;
}

// A page before the last page may have fewer entries than requested, or none.
Result<json::array> search(net::BlockingClient& client, const std::string& target, std::string from,
                           size_t limit) {
  json::array found;
  while (found.size() < limit) {
    const json::object answer =
        TRY(call(client, "GET", target + from + "&limit=" + std::to_string(limit - found.size())));
    for (const json::value& item : arrayOf(answer, "entries"))
      found.push_back(item);
    const std::string after = textOf(answer, "next_after");
    const std::string before = textOf(answer, "next_before");
    if (after.empty() && before.empty()) break;
    from = after.empty() ? "&before=" + before : "&after=" + after;
  }
  return found;
}

Result<int> list(const Invocation& invocation) {
  constexpr int64_t kMost = 1000;
  const int64_t limit = TRY(invocation.flags.integer("limit", 1, kMost)).value_or(50);
  const auto after = TRY(invocation.flags.integer("after", 0, INT64_MAX));
  const auto before = TRY(invocation.flags.integer("before", 1, INT64_MAX));
  if (after && before) return fail(Code::kInvalid, "--before: not together with --after");
  const bool oldest = after || invocation.flags.has("oldest-first");
  if (before && oldest) return fail(Code::kInvalid, "--before: not together with --oldest-first");
  std::string from = after ? "&after=" + std::to_string(*after) : "";
  if (before) from = "&before=" + std::to_string(*before);
  net::BlockingClient client = TRY(connect(invocation.globals));
  json::array found = TRY(search(client, searchTarget(invocation, oldest), std::move(from),
                                 static_cast<size_t>(limit)));
  if (invocation.globals.json) {
    printJson(json::object{{"entries", std::move(found)}});
    return 0;
  }
  std::set<std::string> tenants;
  for (const json::value& item : found) {
    if (item.is_object()) tenants.insert(textOf(item.get_object(), "tenant"));
  }
  std::string text;
  for (const json::value& item : found) {
    if (item.is_object()) text += auditLine(item.get_object(), tenants.size() > 1) + "\n";
  }
  writeTo(STDOUT_FILENO, text);
  if (found.empty()) {
    writeTo(STDERR_FILENO, noEntriesText(invocation.flags.text("action").value_or("")));
  }
  return 0;
}

Result<int> redact(const Invocation& invocation) {
  const auto member = invocation.flags.text("member");
  const auto reason = invocation.flags.text("reason");
  if (!member) return fail(Code::kInvalid, "which: give --member NAME, as reason or what");
  if (!reason) return fail(Code::kInvalid, "why: give --reason TEXT");
  if (invocation.flags.operands().empty()) {
    return fail(Code::kInvalid, "which entry: give its position (see `audit list`)");
  }
  const std::string& position = invocation.flags.operands()[0];
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object answer =
      TRY(call(client, "POST", "/v1/audit/" + net::percentEncode(position) + ":redact",
               {{"member", *member}, {"reason", *reason}}));
  if (invocation.globals.json) {
    printJson(answer);
  } else {
    const std::string entry = textOf(answer, "action") + " of " + textOf(answer, "subject") +
                              ", tenant " + textOf(answer, "tenant");
    writeTo(STDOUT_FILENO, "✓ " + printable(*member) + " of entry " + printable(position) +
                               " is forgotten (" + printable(entry) +
                               "); the log is as whole as before\n");
  }
  return 0;
}

constexpr Flag kRedactFlags[] = {
    {.name = "member", .value = "NAME", .help = "of the entry's details, as reason or what"},
    {.name = "reason", .value = "TEXT", .help = "why; goes into the log"},
};
constexpr Flag kAfter = {
    .name = "after", .value = "N", .help = "only entries after this seq; administrators: position"};
constexpr Flag kExportFlags[] = {kAfter};
constexpr Flag kVerifyFlags[] = {
    {.name = "against",
     .value = "FILE",
     .help = "published checkpoints; the log is fetched and verified here"},
    {.name = "key",
     .value = "FILE",
     .help = "with --against: the public key, in place of the one that the server gives"},
};
constexpr Flag kListFlags[] = {
    {.name = "action",
     .value = "NAME",
     .help = "this action, as escalation.approved or escalation.*"},
    {.name = "by", .value = "WHO", .help = "done by this user or key"},
    {.name = "agent", .value = "NAME", .help = "on behalf of this agent"},
    {.name = "execution", .value = "ID", .help = "about this execution"},
    {.name = "subject", .value = "ID", .help = "about this key, session, escalation, …"},
    {.name = "since",
     .value = "TIME",
     .help = "not before it, as 2026-01-31, 2026-01-31T10:42:00Z, or 2h ago as 2h"},
    {.name = "until", .value = "TIME", .help = "before it"},
    {.name = "oldest-first", .value = "", .help = "in the order of the log"},
    {.name = "after",
     .value = "N",
     .help = "only entries after this seq, oldest first; administrators: position"},
    {.name = "before",
     .value = "N",
     .help = "only entries before this seq; administrators: position"},
    {.name = "limit", .value = "N", .help = "at most so many (default 50)"},
};

}  // namespace

const Command kAuditList = {.name = "audit list",
                            .summary = "list audit entries, newest first",
                            .flags = kListFlags,
                            .examples =
                                "cloister audit list --action 'escalation.*' --agent junior-agent\n"
                                "cloister audit list --by security-lead --since 2026-01-31",
                            .run = list};
const Command kAuditRedact = {
    .name = "audit redact",
    .operands = "POSITION",
    .max_operands = 1,
    .summary = "forget free text of one audit entry",
    .details =
        "For a secret that got into it. The entry stays, with the text's seal: the log can "
        "be\nverified as before, and says itself who had what forgotten. POSITION is the entry's\n"
        "place in the whole log: the number at the start of its line in `audit list`, as\n"
        "administrators see it; it is not seq.",
    .flags = kRedactFlags,
    .examples = "cloister audit redact 1027 --member what --reason \"a password\"",
    .run = redact};
const Command kAuditVerify = {
    .name = "audit verify",
    .summary = "prove that the audit log is whole",
    .details =
        "Checks every hash, link and signed checkpoint. Exits 1 and names the first bad entry\n"
        "if anything was changed, removed, reordered or cut off.\n\n"
        "With --against the log is exported, computed anew here, and held to checkpoints that "
        "were\n"
        "published (audit.publish) or copied away: so a log that somebody rewrote as a whole, "
        "with\n"
        "the key, shows as well. Give --key, or the server could sign for itself.",
    .flags = kVerifyFlags,
    .examples = "cloister audit verify --against published.jsonl --key audit.pub",
    .run = verify};
const Command kAuditExport = {.name = "audit export",
                              .summary = "print the audit log as JSON lines",
                              .flags = kExportFlags,
                              .examples = "cloister audit export > audit.jsonl",
                              .run = exportAll};

}  // namespace cloister::cli
