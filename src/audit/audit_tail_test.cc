// SPDX-License-Identifier: Apache-2.0
// A history of runs whose write-ahead log is cut at each of its commits: verification names the
// first missing entry. CLOISTER_LONG=1: 200 runs.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "audit/audit_fixture.h"
#include "base/file.h"
#include "store/anchor.h"
#include "store/sql/checkpoint_file.h"
#include "store/sql/raw_testing.h"

namespace cloister::audit {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

uint32_t bigEndian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// Lengths of the WAL at which a commit ends (sqlite.org/walformat.html): a frame with a database
// size ends a transaction. The first length is an empty log's.
std::vector<size_t> commitsOf(std::string_view wal) {
  constexpr size_t kHeader = 32;
  constexpr size_t kFrameHeader = 24;
  std::vector<size_t> ends = {kHeader};
  if (wal.size() < kHeader) return ends;
  const size_t frame = kFrameHeader + bigEndian(wal, 8);
  for (size_t at = kHeader; at + frame <= wal.size(); at += frame) {
    if (wal.substr(at + 8, 8) != wal.substr(16, 8)) break;  // salts: of an earlier log
    if (bigEndian(wal, at + 4) != 0) ends.push_back(at + frame);
  }
  return ends;
}

class AuditTail : public ::testing::Test {
 protected:
  [[nodiscard]] store::SqliteOptions options(const store::testing::TempDir& dir) const {
    store::SqliteOptions out;
    out.path = dir.file("ledger.db");
    out.audit_key = key_;
    out.anchor_file = dir.file("audit.anchor");
    return out;
  }
  void run(int runs) {
    store_ = store::openSqlite(options(dir_)).value();
    for (int i = 0; i < runs; ++i)
      ASSERT_TRUE(store::testing::finished(*store_, store::testing::queued()));
  }
  // As kill -9 leaves the files, but with the log cut.
  void copy(const store::testing::TempDir& to, std::string_view wal) const {
    for (const char* name : {"ledger.db", "audit.anchor"})
      fs::copy_file(dir_.file(name), to.file(name));
    std::ofstream(to.file("ledger.db-wal"), std::ios::binary) << wal;
  }
  static uint64_t lastEntry(const store::testing::TempDir& in) {
    const auto last = store::testing::RawFile(in.file("ledger.db"))
                          .column("SELECT ifnull(max(seq), 0) FROM audit");
    return last.empty() ? 0 : std::strtoull(last.front().c_str(), nullptr, 10);
  }
  Report verifyIn(const store::testing::TempDir& dir, const std::string& published = "") const {
    auto store = store::openSqlite(options(dir));
    EXPECT_TRUE(store) << store.error().message;
    return verify(**store, key_->verifyKey(), published, dir.file("audit.anchor"));
  }

  // Cuts the log at each commit, and returns how many cuts lost an entry.
  int cutAtEachCommit() {
    const std::string wal = base::readFile(dir_.file("ledger.db-wal"), size_t{1} << 30).value();
    const std::vector<size_t> ends = commitsOf(wal);
    const uint64_t newest = store::readAnchor(dir_.file("audit.anchor")).value().back().seq;
    int lost = 0;
    for (const size_t end : ends) {
      const store::testing::TempDir cut;
      copy(cut, std::string_view(wal).substr(0, end));
      const uint64_t last = lastEntry(cut);
      const Report report = verifyIn(cut);
      if (last == newest) {
        EXPECT_TRUE(report.ok) << report.problem;
        continue;
      }
      ++lost;
      EXPECT_FALSE(report.ok) << "cut behind entry " << last;
      EXPECT_EQ(report.first_bad, last + 1);
      const std::string first = "entry " + std::to_string(last + 1);
      EXPECT_THAT(report.problem, HasSubstr(first + " is missing: "));
      EXPECT_THAT(report.problem, HasSubstr("signed head of entry " + std::to_string(newest)));
    }
    return lost;
  }

  store::testing::TempDir dir_;
  std::shared_ptr<const base::SigningKey> key_ =
      std::make_shared<const base::SigningKey>(base::SigningKey::generate());
  std::unique_ptr<store::Store> store_;
};

TEST_F(AuditTail, ACutAtAnyCommitIsNamed) {
  constexpr int kRuns = 12;  // the log has room for so many
  const char* counts = ::getenv("CLOISTER_LONG");
  const int rounds = counts != nullptr && std::string_view(counts) == "1" ? 17 : 1;
  for (int i = 0; i < rounds; ++i) {
    run(kRuns);
    EXPECT_EQ(cutAtEachCommit(), 3 * kRuns) << "three commits each, and the last loses nothing";
    store_.reset();
  }
}

TEST_F(AuditTail, WhoCutsTheAnchorTooIsFoundByWhatWasPublished) {
  run(4);
  const std::string wal = base::readFile(dir_.file("ledger.db-wal"), size_t{1} << 30).value();
  const store::testing::TempDir cut;
  copy(cut, std::string_view(wal).substr(0, commitsOf(wal)[6]));
  const uint64_t last = lastEntry(cut);
  const auto lines = store::readAnchor(dir_.file("audit.anchor")).value();
  const std::string published = dir_.file("published");
  ASSERT_TRUE(store::appendCheckpoint(published, lines.back()));
  {
    std::ofstream anchor(cut.file("audit.anchor"), std::ios::trunc);
    for (const store::Checkpoint& line : lines) {
      if (line.seq <= last) anchor << base::toJson(toJsonObject(line)) << "\n";
    }
  }
  EXPECT_TRUE(verifyIn(cut).ok) << "both end at the same entry";
  const Report report = verifyIn(cut, published);
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.first_bad, last + 1);
}

TEST_F(AuditTail, TheAnchorIsHeldToTheLogWhileItGrows) {
  run(1);
  EXPECT_TRUE(verify(*store_, key_->verifyKey(), "", dir_.file("audit.anchor")).ok);
  fs::rename(dir_.file("audit.anchor"), dir_.file("moved"));
  const Report gone = verify(*store_, key_->verifyKey(), "", dir_.file("audit.anchor"));
  EXPECT_FALSE(gone.ok);
  EXPECT_THAT(gone.problem, HasSubstr("is gone or empty"));
  ASSERT_TRUE(store::testing::append(*store_, "s", "acme"));
  const Report again = verify(*store_, key_->verifyKey(), "", dir_.file("audit.anchor"));
  EXPECT_TRUE(again.ok) << again.problem;
  store_.reset();
  fs::remove(dir_.file("audit.anchor"));
  const Report noted = verifyIn(dir_);
  EXPECT_TRUE(noted.ok) << noted.problem;
  ASSERT_EQ(noted.notes.size(), 1U);
  EXPECT_THAT(noted.notes.front(), HasSubstr("is missing or empty"));
}

}  // namespace
}  // namespace cloister::audit
