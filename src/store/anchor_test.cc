// SPDX-License-Identifier: Apache-2.0
// The anchor of the audit log: its content at the acknowledgement of a write, its findings for a
// truncated ledger, and the file's bound.
#include "store/anchor.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/open.h"
#include "store/rows/sealed.h"
#include "store/sql/checkpoint_file.h"
#include "store/sql/engine.h"
#include "store/sql/raw_testing.h"
#include "store/store_testing.h"

namespace cloister::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct AnchorTest : ::testing::Test {
  [[nodiscard]] SqliteOptions options(Durability durability = Durability::kProcess) const {
    SqliteOptions out;
    out.path = dir_.file("ledger.db");
    out.durability = durability;
    out.audit_key = key_;
    out.anchor_file = path_;
    out.published_file = published_;
    return out;
  }
  void open() {
    auto opened = openSqlite(options());
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  void write(int count = 1) {
    for (int i = 0; i < count; ++i)
      ASSERT_TRUE(testing::append(*store_, "s", "acme"));
  }
  std::vector<Checkpoint> lines() {
    const auto read = readAnchor(path_);
    EXPECT_TRUE(read) << read.error().message;
    return read.value_or(std::vector<Checkpoint>{});
  }
  // The details of the last entry, if its action is `action`.
  std::string lastOf(const std::string& action) {
    const auto all = store_->audit(Scope::allTenants(), 0, 1000);
    EXPECT_TRUE(all);
    if (!all || all->empty() || all->back().event.action != action) return {};
    return base::toJson(all->back().event.details);
  }
  Checkpoint head(uint64_t seq, const std::string& hash = "a") const {
    Checkpoint out{
        .seq = seq, .hash = hash, .at = 1, .key_id = key_->verifyKey().id(), .signature = {}};
    out.signature = base::toBase64(key_->sign(model::checkpointText(out)));
    return out;
  }
  std::unique_ptr<Anchor> anchor(uint64_t max_bytes = uint64_t{1} << 20) {
    auto opened = Anchor::open({.path = path_, .max_bytes = max_bytes, .sync = ::fdatasync});
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(opened).value();
  }

  testing::TempDir dir_;
  std::shared_ptr<const base::SigningKey> key_ =
      std::make_shared<const base::SigningKey>(base::SigningKey::generate());
  std::string path_ = dir_.file("audit.anchor");
  std::string published_;
  std::unique_ptr<Store> store_;
};

TEST_F(AnchorTest, HasTheHeadOfWhatIsAcknowledged) {
  for (const Durability durability : {Durability::kProcess, Durability::kPower}) {
    store_ = openSqlite(options(durability)).value();
    for (int i = 0; i < 20; ++i) {
      const std::string subject = "s" + std::to_string(i);
      std::latch told(1);
      std::vector<Checkpoint> then;
      store_->write(writing(appendEvent, {.action = "a",
                                          .subject = subject,
                                          .principal = testing::principal("acme"),
                                          .details = {}}),
                    [&](const Result<>& result) {
                      EXPECT_TRUE(result);
                      then = lines();
                      told.count_down();
                    });
      told.wait();
      ASSERT_FALSE(then.empty());
      const auto entry = store_->audit(Scope::allTenants(), then.back().seq - 1, 1);
      ASSERT_TRUE(entry && !entry->empty());
      EXPECT_EQ(entry->front().hash, then.back().hash);
      EXPECT_EQ(entry->front().event.subject, subject);
    }
    store_.reset();
  }
}

TEST_F(AnchorTest, AGroupOfCommitsCostsOneLineAndOneSync) {
  std::atomic<int> anchor_syncs = 0;
  std::atomic<bool> hold = true;
  std::latch reached(1);
  std::latch let_go(1);
  const auto sync = [&](int fd) {
    const fs::path file = fs::read_symlink("/proc/self/fd/" + std::to_string(fd));
    if (file == path_) {
      ++anchor_syncs;
    } else if (hold.exchange(false)) {
      reached.count_down();
      let_go.wait();
    }
    return ::fdatasync(fd);
  };
  store_ = openSqliteWith(options(Durability::kPower), sync).value();
  constexpr int kWrites = 100;
  std::latch all(kWrites + 1);
  const auto submit = [&] {
    store_->write(writing(appendEvent, {.action = "a",
                                        .subject = "s",
                                        .principal = testing::principal("acme"),
                                        .details = {}}),
                  [&](const Result<>& result) {
                    EXPECT_TRUE(result);
                    all.count_down();
                  });
  };
  submit();
  reached.wait();
  EXPECT_TRUE(lines().empty()) << "the entry is not synced";
  for (int i = 0; i < kWrites; ++i)
    submit();
  // The writer continues while the first sync waits: the syncer takes all these writes as one
  // group.
  const auto committed = [&] {
    return testing::RawFile(dir_.file("ledger.db")).column("SELECT seq FROM audit").size();
  };
  while (committed() < kWrites + 1)
    std::this_thread::yield();
  let_go.count_down();
  all.wait();
  EXPECT_EQ(lines().back().seq, kWrites + 1U);
  EXPECT_LE(lines().size(), 3U);
  EXPECT_EQ(anchor_syncs, static_cast<int>(lines().size()));
  store_.reset();  // calls `sync`
}

TEST_F(AnchorTest, WhatCannotBeAnchoredIsNotAcknowledgedAndMadeGoodLater) {
  std::atomic<bool> broken = false;
  const auto sync = [&](int fd) {
    const fs::path file = fs::read_symlink("/proc/self/fd/" + std::to_string(fd));
    errno = EIO;
    return broken && file == path_ ? -1 : 0;
  };
  store_ = openSqliteWith(options(Durability::kPower), sync).value();
  write(3);
  broken = true;
  const auto refused = testing::append(*store_, "s", "acme");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("audit anchor"));
  broken = false;
  write();
  EXPECT_EQ(lines().back().seq, 5U) << "the entry that nobody was told of is in the log";
  EXPECT_TRUE(store_->health());
  store_.reset();  // calls `sync`
}

TEST_F(AnchorTest, ACutEndIsNamedAndStaysVisible) {
  open();
  write(10);
  store_.reset();
  fs::copy_file(dir_.file("ledger.db"), dir_.file("older.db"));
  open();
  write(5);
  store_.reset();
  fs::copy_file(dir_.file("older.db"), dir_.file("ledger.db"),
                fs::copy_options::overwrite_existing);
  const std::string lost = "entries 11 to 15 are lost: the anchor has the signed head of entry 15";
  open();
  EXPECT_THAT(lastOf("ledger.recovered"), HasSubstr("entry 11 is missing: " + lost));
  write(20);
  store_.reset();
  open();
  EXPECT_EQ(store_->audit(Scope::allTenants(), 0, 1000)->size(), 31U) << "it is recorded once";
  const Anchored known = anchored(lines());
  ASSERT_EQ(known.losses.size(), 1U);
  EXPECT_THAT(lossesText(known), HasSubstr(lost));
  EXPECT_EQ(known.losses.front().from, 11U);
  EXPECT_EQ(known.losses.front().to, 15U);
  EXPECT_EQ(known.heads.rbegin()->first, 31U);
}

TEST_F(AnchorTest, ACutBehindWhatWasPublishedStaysVisible) {
  published_ = dir_.file("published");
  const auto copy = [&](const char* from, const char* to) {
    fs::copy_file(dir_.file(from), dir_.file(to), fs::copy_options::overwrite_existing);
  };
  open();
  write(10);
  store_.reset();
  copy("ledger.db", "older.db");
  copy("audit.anchor", "older.anchor");
  open();
  write(5);
  ASSERT_TRUE(appendCheckpoint(published_, store_->head().value().value()));
  store_.reset();
  open();
  EXPECT_EQ(lastOf("ledger.recovered"), "") << "nothing is missing";
  EXPECT_EQ(store_->publishedLoss(), "");
  store_.reset();
  copy("older.db", "ledger.db");
  copy("older.anchor", "audit.anchor");
  open();
  EXPECT_THAT(lastOf("ledger.recovered"),
              HasSubstr("entry 11 is missing: entry 15 was published, to " + published_));
  EXPECT_THAT(store_->publishedLoss(), HasSubstr("entry 11 is missing"));
  write(20);
  store_.reset();
  open();
  EXPECT_THAT(store_->publishedLoss(), HasSubstr("entry 15 was published with another hash"));
  EXPECT_EQ(store_->audit(Scope::allTenants(), 0, 1000)->size(), 31U) << "it is recorded once";
}

TEST_F(AnchorTest, APublishedHeadCountsByItsSignature) {
  published_ = dir_.file("published");
  open();
  write(10);
  store_.reset();
  Checkpoint forged = head(20, std::string(64, 'b'));
  forged.seq = 21;
  ASSERT_TRUE(appendCheckpoint(published_, forged));
  open();
  EXPECT_EQ(lastOf("ledger.recovered"), "");
  store_.reset();
  ASSERT_TRUE(appendCheckpoint(published_, head(5, std::string(64, 'b'))));
  open();
  EXPECT_THAT(lastOf("ledger.recovered"), HasSubstr("entry 5 was published with another hash"));
}

TEST_F(AnchorTest, ALedgerWithoutOneGetsOneWithAnEntry) {
  open();
  write(3);
  store_.reset();
  fs::remove(path_);  // as before an upgrade
  open();
  EXPECT_THAT(lastOf("ledger.anchored"), HasSubstr("is missing or empty"));
  EXPECT_THAT(lastOf("ledger.anchored"), HasSubstr("entry 3"));
  EXPECT_EQ(lossesText(anchored(lines())), "");
  EXPECT_EQ(lines().back().seq, 4U);
  store_.reset();
  open();
  EXPECT_EQ(store_->audit(Scope::allTenants(), 0, 1000)->size(), 4U);
}

TEST_F(AnchorTest, AShorterOneIsTold) {
  open();
  write(5);
  const std::vector<Checkpoint> all = lines();
  store_.reset();
  {
    std::ofstream cut(path_, std::ios::trunc);
    for (size_t i = 0; i < 3; ++i)
      cut << base::toJson(toJsonObject(all[i])) << "\n";
  }
  open();
  EXPECT_THAT(lastOf("ledger.anchored"), HasSubstr("ends at entry 3, and the log at entry 5"));
}

TEST_F(AnchorTest, ATornLineIsCutAndZerosAreLeftOut) {
  const auto first = anchor();
  ASSERT_TRUE(first->append(head(1)));
  std::ofstream(path_, std::ios::app) << std::string(100, '\0') << "}\n"
                                      << R"({"seq":2,"hash":"b)";
  ASSERT_EQ(lines().size(), 1U);
  const auto again = anchor();
  ASSERT_TRUE(again->append(head(3)));
  ASSERT_EQ(lines().size(), 2U);
  EXPECT_EQ(lines().back().seq, 3U);
}

TEST_F(AnchorTest, WhatIsNoAnchorIsPutAside) {
  open();
  write(2);
  store_.reset();
  std::ofstream(path_, std::ios::app) << "nonsense\n";
  open();
  EXPECT_THAT(lastOf("ledger.recovered"), HasSubstr("line 3 is not a checkpoint"));
  EXPECT_TRUE(fs::exists(path_ + ".unreadable"));
  EXPECT_EQ(lines().back().seq, 3U);
}

TEST_F(AnchorTest, IsMadeAnewWhereItWasRemoved) {
  open();
  write(2);
  fs::remove(path_);
  write();
  EXPECT_EQ(lines().back().seq, 3U);
}

TEST_F(AnchorTest, IsBoundedAndKeepsItsLosses) {
  constexpr uint64_t kMost = uint64_t{16} << 10;
  const auto bounded = anchor(kMost);
  for (uint64_t seq = 1; seq <= 50; ++seq)
    ASSERT_TRUE(bounded->append(head(seq)));
  for (uint64_t seq = 41; seq <= 1000; ++seq) {
    ASSERT_TRUE(bounded->reserve());
    ASSERT_TRUE(bounded->append(head(seq)));
    ASSERT_LE(fs::file_size(path_), kMost);
  }
  const Anchored known = anchored(lines());
  EXPECT_EQ(known.heads.rbegin()->first, 1000U);
  EXPECT_GT(known.heads.size(), 20U);
  ASSERT_EQ(known.losses.size(), 1U);
  EXPECT_EQ(known.losses.front().from, 41U);
  EXPECT_EQ(known.losses.front().to, 50U);
}

TEST_F(AnchorTest, HasRoomBeforeItIsNeeded) {
  const auto made = anchor();
  ASSERT_TRUE(made->reserve());
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 0);
  EXPECT_GE(info.st_blocks * 512, 4096);
}

}  // namespace
}  // namespace cloister::store
