// SPDX-License-Identifier: Apache-2.0
#include "cli/chain_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/audit_entry.h"

namespace cloister::cli {
namespace {

using ::testing::HasSubstr;

class ChainWalkTest : public ::testing::Test {
 protected:
  // Ten entries. Entry `changed` differs, and the later entries are chained to the changed entry.
  static std::vector<model::AuditEntry> entries(uint64_t changed = 0) {
    std::vector<model::AuditEntry> out;
    std::string prev(64, '0');
    for (uint64_t seq = 1; seq <= 10; ++seq) {
      model::AuditEntry entry;
      entry.position = entry.seq = seq;
      entry.at = static_cast<int64_t>(seq);
      entry.event.action = "test.done";
      entry.event.subject = seq == changed ? "forged" : "s";
      entry.prev = prev;
      entry.hash = base::sha256Hex(model::canonicalForm(entry));
      prev = entry.hash;
      out.push_back(entry);
    }
    return out;
  }

  static std::string lineOf(const model::AuditEntry& entry) {
    std::string line = model::canonicalForm(entry);
    line.pop_back();
    line += ",\"hash\":\"" + entry.hash + "\"";
    if (entry.position > 0) line += ",\"position\":" + std::to_string(entry.position);
    return line + "}\n";
  }

  // As the export has an entry with sealed text.
  static std::string sealedLine(model::AuditEntry entry, const std::string& value,
                                const std::string& shown) {
    const model::SealedMember member{"reason", "00ff", base::json::value(value)};
    entry.event.details = {{"reason", {{"sealed", model::sealOf(member)}}}};
    entry.hash = base::sha256Hex(model::canonicalForm(entry));
    std::string line = lineOf(entry);
    line.resize(line.size() - 2);
    const base::json::object sealed = {{"reason", {{"salt", "00ff"}, {"value", shown}}}};
    return line + ",\"sealed\":" + model::canonicalJson(sealed) + "}\n";
  }

  static std::string text(const std::vector<model::AuditEntry>& entries) {
    std::string out;
    for (const auto& entry : entries)
      out += lineOf(entry);
    return out;
  }

  [[nodiscard]] model::Checkpoint checkpoint(const model::AuditEntry& entry) const {
    model::Checkpoint out;
    out.seq = entry.seq;
    out.hash = entry.hash;
    out.at = entry.at;
    out.key_id = key_.verifyKey().id();
    out.signature = base::toBase64(key_.sign(model::checkpointText(out)));
    return out;
  }

  [[nodiscard]] Result<ChainWalk> walk(const std::string& log, size_t piece = SIZE_MAX) const {
    auto walk =
        TRY(ChainWalk::against({checkpoint(real_[3]), checkpoint(real_[7])}, key_.verifyKey()));
    for (size_t at = 0; at < log.size(); at += std::min(piece, log.size() - at))
      TRY(walk.feed(std::string_view(log).substr(at, piece)));
    TRY(walk.finish());
    return walk;
  }

  void expectBroken(const std::string& log, const std::string& words) const {
    const auto walked = walk(log);
    ASSERT_FALSE(walked) << "was not found: " << words;
    EXPECT_THAT(walked.error().message, HasSubstr(words));
  }

  base::SigningKey key_ = base::SigningKey::generate();
  std::vector<model::AuditEntry> real_ = entries();
};

TEST_F(ChainWalkTest, HoldsWhatWasPublished) {
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{100'000}}) {
    const auto walked = walk(text(real_), piece);
    ASSERT_TRUE(walked) << walked.error().message;
    EXPECT_EQ(walked->entries(), 10U);
    EXPECT_EQ(walked->held(), 2U);
    EXPECT_EQ(walked->head(), real_[9].hash);
  }
}

TEST_F(ChainWalkTest, FindsAChainThatWasComputedAnew) {
  expectBroken(text(entries(2)), "entry 4: was published with another hash");
  expectBroken(text(entries(5)), "entry 8: was published with another hash");
  EXPECT_TRUE(walk(text(entries(9)))) << "nothing was published of it";
}

TEST_F(ChainWalkTest, FindsACutTail) {
  std::vector<model::AuditEntry> cut = real_;
  cut.resize(7);
  expectBroken(text(cut), "entry 8 is missing: entry 8 was published");
  expectBroken("", "entry 1 is missing: entry 8 was published");
  cut = real_;
  cut.resize(8);
  EXPECT_TRUE(walk(text(cut)));
}

TEST_F(ChainWalkTest, FindsWhatWasChangedRemovedSwappedOrInserted) {
  std::string changed = text(real_);
  changed.replace(changed.find("\"subject\":\"s\""), 13, "\"subject\":\"t\"");
  expectBroken(changed, "entry 1: its bytes do not match its hash");
  auto removed = real_;
  removed.erase(removed.begin() + 4);
  expectBroken(text(removed), "entry 5 is missing");
  auto swapped = real_;
  std::swap(swapped[4], swapped[5]);
  expectBroken(text(swapped), "entry 5 is missing");
  auto inserted = real_;
  inserted.insert(inserted.begin() + 4, real_[4]);
  expectBroken(text(inserted), "entry 6 is missing");
  auto unlinked = real_;
  unlinked[4] = entries(4)[4];
  expectBroken(text(unlinked), "entry 5: it does not follow entry 4");
}

TEST_F(ChainWalkTest, HoldsEachTenantsNumbers) {
  const auto log = [&](const std::vector<std::pair<std::string, uint64_t>>& numbers) {
    auto out = real_;
    for (const auto& [tenant, seq] : numbers) {
      model::AuditEntry entry;
      entry.position = out.size() + 1;
      entry.seq = seq;
      entry.event.action = tenant == "system" ? model::kRenumbered : "test.done";
      if (tenant == "system") entry.event.details = {{"through", int64_t{10}}};
      entry.event.principal.tenant = tenant;
      entry.prev = out.back().hash;
      entry.hash = base::sha256Hex(model::canonicalForm(entry));
      out.push_back(entry);
    }
    return text(out);
  };
  EXPECT_TRUE(walk(log({{"a", 1}, {"b", 1}, {"a", 2}})));
  EXPECT_TRUE(walk(log({{"system", 1}, {"a", 1}, {"", 11}})));
  EXPECT_TRUE(walk(log({{"a", 11}, {"b", 12}}))) << "of an earlier version";
  expectBroken(log({{"a", 1}, {"a", 3}}), "entry 12: number 2 of tenant a is missing");
  expectBroken(log({{"a", 1}, {"a", 1}}), "entry 12: number 1 of tenant a is there twice");
  expectBroken(log({{"system", 1}, {"a", 12}}), "entry 12: number 1 of tenant a is missing");
}

// The export of an earlier server.
TEST_F(ChainWalkTest, NeedsNoPositions) {
  for (model::AuditEntry& entry : real_)
    entry.position = 0;
  EXPECT_TRUE(walk(text(real_)));
  real_.erase(real_.begin() + 4);
  expectBroken(text(real_), "entry 5: it does not follow entry 4");
}

TEST_F(ChainWalkTest, DoesNotTakeOneTenantsExportForABrokenLog) {
  for (model::AuditEntry& entry : real_)
    entry.position = 0;
  const auto all = real_;
  real_.erase(real_.begin());
  const auto later = walk(text(real_));
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, Code::kUnsupported);
  EXPECT_THAT(later.error().message, HasSubstr("this export is one tenant's"));
  real_ = all;
  real_.erase(real_.begin() + 1);
  expectBroken(text(real_), "may be one tenant's");
}

TEST_F(ChainWalkTest, RefusesWhatIsNoLog) {
  expectBroken("{}\n", "entry 1: is not a line of the log");
  expectBroken(std::string(200, 'x') + "\n", "is not a line of the log");
  std::string unfinished = text(real_);
  unfinished.pop_back();
  expectBroken(unfinished, "entry 10: its line has no end");
}

TEST_F(ChainWalkTest, RefusesCheckpointsOfOthers) {
  const base::SigningKey other = base::SigningKey::generate();
  EXPECT_FALSE(ChainWalk::against({checkpoint(real_[3])}, other.verifyKey()));
  EXPECT_FALSE(ChainWalk::against({}, key_.verifyKey()));
  model::Checkpoint forged = checkpoint(real_[3]);
  forged.hash = real_[4].hash;
  const auto refused = ChainWalk::against({forged}, key_.verifyKey());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("signature that is not valid"));
  EXPECT_FALSE(
      ChainWalk::against({checkpoint(real_[3]), checkpoint(entries(4)[3])}, key_.verifyKey()));
}

TEST_F(ChainWalkTest, HoldsSealedTextToItsSeal) {
  model::AuditEntry next;
  next.position = next.seq = 11;
  next.at = 11;
  next.event.action = "escalation.approved";
  next.event.subject = "s";
  next.prev = real_.back().hash;
  const std::string tricky = "x\",\"sealed\":{},\"hash\":\"";
  for (const std::string& value : {std::string("why"), tricky, std::string("ä€\n")}) {
    const auto walked = walk(text(real_) + sealedLine(next, value, value));
    ASSERT_TRUE(walked) << walked.error().message;
    EXPECT_EQ(walked->entries(), 11U);
  }
  expectBroken(text(real_) + sealedLine(next, "why", "another"), "entry 11: its sealed \"reason\"");
  std::string spaced = sealedLine(next, "why", "why");
  spaced.insert(spaced.rfind("\"salt\""), " ");
  expectBroken(text(real_) + spaced, "entry 11: is not a line of the log");
}

}  // namespace
}  // namespace cloister::cli
