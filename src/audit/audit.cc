// SPDX-License-Identifier: Apache-2.0
#include "audit/audit.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "audit/rights.h"
#include "audit/root_check.h"
#include "model/numbering.h"
#include "store/anchor.h"
#include "store/sql/checkpoint_file.h"

namespace cloister::audit {
namespace {

constexpr uint32_t kChunk = 1000;
// A ledger of this length has had time for a checkpoint.
constexpr uint64_t kExpectCheckpoint = 1000;
constexpr std::string_view kOldNumbers =
    "the entries are numbered over all tenants, as earlier versions did, and no entry ended that";
// Number of rounds in which the walk follows a growing log.
constexpr int kRounds = 3;

std::string entryName(uint64_t seq) {
  return "entry " + std::to_string(seq);
}

class Walk {
 public:
  Walk(store::Store& store, const base::VerifyKey& key, std::string checkpoint_file,
       std::string anchor_file)
      : store_(store),
        key_(key),
        checkpoint_file_(std::move(checkpoint_file)),
        anchor_file_(std::move(anchor_file)) {
    report_.head = std::string(64, '0');
  }

  Report run() {
    rights_ = Rights::read(store_);
    if (!loadCheckpoints() || !loadAnchor() || !walkToHead()) return std::move(report_);
    if (!checkTail() || !checkAnchor()) return std::move(report_);
    if (numbering_.old()) report_.notes.emplace_back(kOldNumbers);
    checkRecords();
    if (report_.ok) checkRights();
    if (report_.ok) checkRoots();
    return std::move(report_);
  }

 private:
  bool bad(uint64_t seq, std::string problem) {
    report_.ok = false;
    report_.first_bad = seq;
    report_.problem = std::move(problem);
    return false;
  }

  bool loadCheckpoints() {
    if (checkpoint_file_.empty()) return true;
    const auto lines = store::readCheckpoints(checkpoint_file_);
    if (!lines) return bad(0, lines.error().message);
    for (const store::Checkpoint& line : *lines) {
      if (!checkSignature(line, "the checkpoint of " + entryName(line.seq))) return false;
      const auto [at, fresh] = checkpoints_.emplace(line.seq, line.hash);
      if (!fresh && at->second != line.hash) {
        return bad(line.seq, entryName(line.seq) + ": two signed checkpoints of it differ");
      }
    }
    return true;
  }

  // Load before the walk: the log already includes all entries of the anchor.
  bool loadAnchor() {
    if (anchor_file_.empty()) return true;
    const auto first = store_.head();
    if (!first) return bad(0, first.error().message);
    began_at_ = *first ? (*first)->seq : 0;
    const auto lines = store::readAnchor(anchor_file_);
    if (!lines) return bad(0, lines.error().message);
    anchor_ = store::anchored(*lines);
    return std::ranges::all_of(anchor_.heads, [&](const auto& head) {
      return checkSignature(head.second, "the anchor's head of " + entryName(head.first));
    });
  }

  bool checkSignature(const store::Checkpoint& checkpoint, const std::string& what) {
    const auto valid = model::verifySignature(checkpoint, key_, what);
    if (!valid) return bad(checkpoint.seq, valid.error().message);
    ++report_.checkpoints;
    return true;
  }

  // The log may grow meanwhile: each round goes to the current head.
  bool walkToHead() {
    for (int round = 0; round < kRounds; ++round) {
      const auto head = store_.head();
      if (!head) return bad(0, head.error().message);
      if (!*head) return checkUnsealed();
      if (!checkSignature(**head, entryName((*head)->seq) + ", the signed head,")) return false;
      if (!walkTo((*head)->seq)) return false;
      if (report_.head != (*head)->hash) {
        return bad((*head)->seq, entryName((*head)->seq) + ": the signed head has another hash");
      }
      const auto next = store_.audit(store::Scope::allTenants(), last_, 1);
      if (!next) return badAfterLast(next.error().message);
      if (next->empty()) return true;
      const auto newer = store_.head();
      if (!newer || !*newer || (*newer)->seq < next->front().position) {
        const uint64_t past = next->front().position;
        return bad(past, entryName(past) + ": it is past the signed head, " + entryName(last_));
      }
    }
    return true;
  }

  bool checkUnsealed() {
    const auto any = store_.audit(store::Scope::allTenants(), 0, 1);
    if (!any) return badAfterLast(any.error().message);
    return any->empty() ? true : bad(1, "entry 1: the log has no signed head");
  }

  bool walkTo(uint64_t end) {
    while (last_ < end) {
      const auto left = static_cast<uint32_t>(std::min<uint64_t>(kChunk, end - last_));
      const auto entries = store_.audit(store::Scope::allTenants(), last_, left);
      if (!entries) return badAfterLast(entries.error().message);
      if (entries->empty()) {
        return bad(last_ + 1, entryName(last_ + 1) + " is missing: the log ends before " +
                                  entryName(end) + ", its signed head");
      }
      for (const model::AuditEntry& entry : *entries) {
        if (!check(entry)) return false;
      }
    }
    return true;
  }

  bool badAfterLast(const std::string& problem) {
    return bad(last_ + 1, entryName(last_ + 1) + ": " + problem);
  }

  bool check(const model::AuditEntry& entry) {
    const std::string name = entryName(entry.position);
    if (entry.position != last_ + 1) {
      return bad(last_ + 1, entryName(last_ + 1) + " is missing: " + name + " is the next");
    }
    if (base::sha256Hex(model::canonicalForm(entry)) != entry.hash) {
      return bad(entry.position, name + ": its bytes do not match its hash");
    }
    if (entry.prev != report_.head) {
      return bad(entry.position, name + ": it does not follow " + entryName(last_) +
                                     ", whose hash it does not carry");
    }
    if (!checkPublished(entry) || !checkAction(entry) || !checkSealed(entry)) return false;
    if (rights_) rights_->note(entry);
    last_ = entry.position;
    ++report_.entries;
    report_.head = entry.hash;
    return true;
  }

  // Compares with signed data kept outside of the database.
  bool checkPublished(const model::AuditEntry& entry) {
    const std::string name = entryName(entry.position);
    if (const auto line = checkpoints_.find(entry.position);
        line != checkpoints_.end() && line->second != entry.hash) {
      return bad(entry.position, name + ": its signed checkpoint has another hash");
    }
    if (const auto head = anchor_.heads.find(entry.position);
        head != anchor_.heads.end() && head->second.hash != entry.hash) {
      return bad(entry.position, name + ": the anchor has another hash of it");
    }
    return true;
  }

  // Checks the entry's number, and the actions that the ledger itself must record.
  bool checkAction(const model::AuditEntry& entry) {
    const std::string name = entryName(entry.position);
    if (const std::string wrong = numbering_.check(entry.position, entry); !wrong.empty()) {
      return bad(entry.position, name + ": " + wrong);
    }
    if (entry.event.action == "ledger.anchored") {
      report_.notes.push_back(name + ": " + base::toJson(entry.event.details));
    }
    if (entry.event.action == "ledger.recovered") {
      return bad(entry.position, name + ": the ledger was found changed here: " +
                                     base::toJson(entry.event.details));
    }
    return true;
  }

  // Checks that sealed values match the stored values, or that a later entry records their
  // redaction.
  bool checkSealed(const model::AuditEntry& entry) {
    const std::string name = entryName(entry.position);
    std::map<std::string, std::string> seals;
    for (const auto& member : entry.event.details) {
      std::string seal = model::isSealable(entry.event.action, member.key())
                             ? model::sealIn(member.value())
                             : std::string();
      if (!seal.empty()) seals[member.key()] = std::move(seal);
    }
    for (const model::SealedMember& member : entry.sealed) {
      const auto seal = seals.find(member.name);
      if (seal == seals.end() || seal->second != model::sealOf(member)) {
        return bad(entry.position, name + ": its sealed \"" + member.name + "\" is another");
      }
      seals.erase(seal);
    }
    for (const auto& [member, seal] : seals)
      gone_.emplace(entry.position, member);
    if (entry.event.action == "audit.redacted") {
      const auto& details = entry.event.details;
      const auto* of = details.if_contains("of");
      const auto* member = details.if_contains("member");
      if (of != nullptr && of->is_int64() && member != nullptr && member->is_string()) {
        gone_.erase({static_cast<uint64_t>(of->get_int64()), std::string(member->get_string())});
      }
    }
    return true;
  }

  bool checkTail() {
    if (!gone_.empty()) {
      const auto& [seq, member] = *gone_.begin();
      return bad(seq, entryName(seq) + ": its sealed \"" + member +
                          "\" is gone, and no entry says that it was redacted");
    }
    if (!checkpoints_.empty() && checkpoints_.rbegin()->first > last_) {
      return bad(last_ + 1, entryName(last_ + 1) + " is missing: a checkpoint speaks of " +
                                entryName(checkpoints_.rbegin()->first) +
                                " (a cut tail, or an older copy of the ledger)");
    }
    if (checkpoints_.empty() && !checkpoint_file_.empty() && last_ >= kExpectCheckpoint) {
      return bad(0, "the checkpoint file " + checkpoint_file_ + " is gone or empty");
    }
    return true;
  }

  bool checkAnchor() {
    if (anchor_file_.empty()) return true;
    const uint64_t newest = anchor_.heads.empty() ? 0 : anchor_.heads.rbegin()->first;
    if (newest > last_) {
      return bad(last_ + 1, entryName(last_ + 1) +
                                " is missing: the anchor has the signed head of " +
                                entryName(newest));
    }
    if (!anchor_.losses.empty()) {
      return bad(anchor_.losses.front().from, store::lossText(anchor_.losses.front()));
    }
    if (newest == 0 && began_at_ > 0) {
      return bad(0, "the anchor " + anchor_file_ + " is gone or empty");
    }
    if (newest < began_at_) {
      report_.notes.push_back("the anchor ends at " + entryName(newest) + ", before " +
                              entryName(began_at_) + ": what is between is not anchored");
    }
    return true;
  }

  void checkRecords() {
    judge("execution", store_.mismatches(0, 1));
    judge("session", store_.sessionMismatches(0, 1));
    judge("escalation", store_.escalations().mismatches(0, 1));
  }

  void checkRights() {
    const auto problem = rights_ ? rights_->problem(store_) : std::unexpected(rights_.error());
    if (!problem) {
      bad(0, "reading keys and policies: " + problem.error().message);
    } else if (!problem->empty()) {
      bad(0, *problem);
    }
  }

  void checkRoots() {
    const auto problem = rootsProblem(store_, key_);
    if (!problem) {
      bad(0, "reading the roots: " + problem.error().message);
    } else if (!problem->empty()) {
      bad(0, *problem);
    }
  }

  void judge(const std::string& what, const Result<std::vector<store::Mismatch>>& wrong) {
    if (!wrong) {
      bad(0, "reading the records: " + wrong.error().message);
    } else if (!wrong->empty()) {
      bad(0, what + " " + wrong->front().id + ": " + wrong->front().problem);
    }
  }

  store::Store& store_;
  const base::VerifyKey& key_;
  const std::string checkpoint_file_;
  const std::string anchor_file_;
  store::Anchored anchor_;
  uint64_t began_at_ = 0;  // the log's end when the anchor was read
  model::Numbering numbering_;
  std::map<uint64_t, std::string> checkpoints_;      // position → hash
  std::set<std::pair<uint64_t, std::string>> gone_;  // sealed, and not there
  Result<Rights> rights_;
  uint64_t last_ = 0;
  Report report_;
};

}  // namespace

Report verify(store::Store& store, const base::VerifyKey& key, const std::string& checkpoint_file,
              const std::string& anchor_file) {
  return Walk(store, key, checkpoint_file, anchor_file).run();
}

std::string exportLine(const model::AuditEntry& entry, const store::Scope& scope) {
  std::string line = model::canonicalForm(entry);
  line.pop_back();
  line += ",\"hash\":\"" + entry.hash + "\"";
  if (!scope.tenant()) line += ",\"position\":" + std::to_string(entry.position);
  if (entry.sealed.empty()) return line + "}";
  base::json::object sealed;
  for (const model::SealedMember& member : entry.sealed)
    sealed[member.name] = {{"salt", member.salt}, {"value", member.value}};
  return line + ",\"sealed\":" + model::canonicalJson(sealed) + "}";
}

}  // namespace cloister::audit
