// SPDX-License-Identifier: Apache-2.0
#include "store/anchor_check.h"

#include <cstdio>
#include <utility>

#include "base/log.h"
#include "store/anchor.h"
#include "store/commit.h"
#include "store/rows/sealed.h"
#include "store/sql/checkpoint_file.h"
#include "store/sql/engine.h"

namespace cloister::store {
namespace {

// Later entries cannot take the place of a published one, so each opening finds the loss anew.
constexpr char kRecordedLoss[] =
    "SELECT 1 FROM audit WHERE action='ledger.recovered'"
    " AND json_extract(details, '$.published')=? LIMIT 1";

std::string entryText(uint64_t seq) {
  return "entry " + std::to_string(seq);
}

Result<bool> isOnChain(Database& db, const Checkpoint& head) {
  Statement row = TRY(db.use("SELECT hash FROM audit WHERE seq=?"));
  return TRY(row.bind(head.seq).step()) && row.text(0) == head.hash;
}

// The first anchored entry that the log lacks, or has with another hash.
Result<uint64_t> firstOther(Database& db, const std::map<uint64_t, Checkpoint>& heads) {
  for (const auto& [seq, head] : heads) {
    if (!TRY(isOnChain(db, head))) return seq;
  }
  return heads.rbegin()->first;
}

// A log with an earlier end than the anchor's has lost entries behind its end. Entries before the
// end may differ, too.
Result<std::string> differenceOf(Database& db, const Chain::Head& end, const Anchored& known,
                                 const base::VerifyKey& key) {
  const Checkpoint& newest = known.heads.rbegin()->second;
  const std::string what = "the anchor's head of " + entryText(newest.seq);
  if (const auto valid = model::verifySignature(newest, key, what); !valid) {
    return valid.error().message;
  }
  if (TRY(isOnChain(db, newest))) return std::string();
  const uint64_t other = TRY(firstOther(db, known.heads));
  if (other <= end.seq) return entryText(other) + ": the anchor has another hash of it";
  const AnchoredLoss loss{.from = end.seq + 1, .to = newest.seq, .at = newest.at};
  return entryText(loss.from) + " is missing: " + lossText(loss);
}

Result<> note(Engine& ledger, std::string action, base::json::object details) {
  return commit(
      ledger, appendEvent,
      {.action = std::move(action),
       .subject = "ledger",
       .principal = {.tenant = "system", .app = "cloister", .agent = "", .user = "", .key_id = ""},
       .details = std::move(details)});
}

}  // namespace

Result<AnchorFinding> compareWithAnchor(Database& db, const Chain::Head& end,
                                        const std::string& path, const base::VerifyKey& key) {
  AnchorFinding found;
  const auto lines = readAnchor(path);
  if (!lines) {
    found.problem = lines.error().message;
    const std::string aside = path + ".unreadable";
    if (::rename(path.c_str(), aside.c_str()) != 0) return failErrno("putting aside " + path);
    return found;
  }
  const Anchored known = anchored(*lines);
  found.before = lossesText(known);
  if (known.heads.empty()) {
    if (end.seq == 0) return found;
    found.note = "the anchor " + path + " is missing or empty, so it does not prove that the log " +
                 "ended at " + entryText(end.seq) +
                 ". This is so after an upgrade and a new audit.anchor_file; otherwise somebody "
                 "removed it";
    return found;
  }
  found.problem = TRY(differenceOf(db, end, known, key));
  const uint64_t last = known.heads.rbegin()->first;
  if (found.problem.empty() && last < end.seq) {
    found.note = "the anchor " + path + " ends at " + entryText(last) + ", and the log at " +
                 entryText(end.seq) +
                 ". The service ended before it acknowledged what is between, or somebody cut the "
                 "anchor";
  }
  return found;
}

Result<std::string> compareWithCheckpoint(Database& db, const Checkpoint& newest) {
  if (TRY(isOnChain(db, newest))) return std::string();
  return "the checkpoint file speaks of entry " + std::to_string(newest.seq) + " (" + newest.hash +
         "), which the log does not have: an older copy, or a cut tail";
}

Result<PublishedFinding> compareWithPublished(Database& db, const Chain::Head& end,
                                              const std::string& path, const base::VerifyKey& key) {
  PublishedFinding found;
  if (path.empty()) return found;
  const auto lines = readCheckpoints(path);
  if (!lines) return found;
  for (const Checkpoint& line : *lines) {
    if (TRY(isOnChain(db, line))) continue;
    if (!model::verifySignature(line, key, "a published head")) continue;
    const std::string published = entryText(line.seq);
    found.problem = line.seq > end.seq ? entryText(end.seq + 1) + " is missing: " + published +
                                             " was published, to " + path
                                       : published + " was published with another hash, to " + path;
    found.entry = line.seq;
    Statement row = TRY(db.use(kRecordedLoss));
    // Damaged details end no start: the loss is then recorded again.
    found.recorded = row.bind(line.seq).step().value_or(false);
    return found;
  }
  return found;
}

// A transaction writes the entries and their signed head together, and only then is the head
// anchored. So no crash makes the log end before the anchor; only damage or a hand does, and with
// Durability::kProcess a power failure. The log continues, with a permanent note.
Result<> recordFinding(Engine& ledger, std::string problem, const AnchorFinding& anchor,
                       const PublishedFinding& published) {
  if (problem.empty() && !published.recorded) problem = published.problem;
  std::string found = problem.empty() ? anchor.before : problem;
  if (found.empty()) found = published.problem;
  if (!found.empty()) {
    base::log(base::Level::kError, "audit log is not as it was left", {{"problem", found}});
  }
  if (!problem.empty()) {
    base::json::object details = {{"problem", problem}};
    if (published.entry > 0) details["published"] = published.entry;
    TRY(note(ledger, "ledger.recovered", std::move(details)));
  } else if (!anchor.note.empty()) {
    base::log(base::Level::kWarn, "audit log was not anchored", {{"reason", anchor.note}});
    const auto noted = note(ledger, "ledger.anchored", {{"reason", anchor.note}});
    if (!noted && noted.error().code != Code::kNoSpace) return std::unexpected(noted.error());
  }
  return {};
}

}  // namespace cloister::store
