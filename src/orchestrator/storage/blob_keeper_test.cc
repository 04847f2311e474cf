// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/storage/blob_keeper.h"

#include <map>

#include <gmock/gmock.h>

#include "orchestrator/runs/service_fixture.h"
#include "store/rows/retention.h"

namespace cloister::orchestrator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Blobs elsewhere: removals end when the test says so.
class SlowBlobs final : public artifacts::Blobs {
 public:
  class Writer final : public artifacts::BlobWriter {
   public:
    explicit Writer(SlowBlobs& blobs) : blobs_(blobs) {}
    Result<> write(std::string_view) override { return {}; }
    artifacts::Task<Result<std::string>> seal() override { co_return std::string(64, 'a'); }
    artifacts::Task<Result<>> keep() override {
      blobs_.kept++;
      if (blobs_.refuses) co_return fail(Code::kUnavailable, "keeping: no answer");
      co_return Result<>{};
    }

   private:
    SlowBlobs& blobs_;
  };

  Result<std::unique_ptr<artifacts::BlobWriter>> create(const std::string&) override {
    return std::make_unique<Writer>(*this);
  }
  artifacts::Task<Result<std::unique_ptr<artifacts::BlobReader>>> open(model::BlobName) override {
    co_return fail(Code::kNotFound, "not here");
  }
  void remove(const model::BlobName& name, std::function<void(Result<>)> done) override {
    removals.emplace(name, std::move(done));
  }
  artifacts::Task<Result<>> forget(std::string) override { co_return Result<>{}; }
  Result<> recover(const Named&) override { return {}; }

  void end(const model::BlobName& name, Result<> result = {}) {
    const auto done = std::move(removals.at(name));
    removals.erase(name);
    done(std::move(result));
  }

  std::map<model::BlobName, std::function<void(Result<>)>> removals;
  int kept = 0;
  bool refuses = false;
};

class BlobKeeperTest : public ServiceTest {
 protected:
  void SetUp() override {
    open();
    keeper = *BlobKeeper::open(io_->get_executor(), *store_, slow);
  }
  void TearDown() override { keeper.reset(); }
  // Starts a task, and runs what is ready.
  void start(Task<void> task) {
    async::spawn(io_->get_executor(), std::move(task));
    ready();
  }
  void ready() {
    io_->restart();
    io_->poll();
  }
  Task<void> keepOne() {
    const auto writer = slow.create("acme").value();
    result = co_await keeper->keep("acme", *writer);
  }
  Task<void> removeOne() { removed = co_await keeper->remove({blob, other}); }
  // As retention sees them: blobs that must go.
  std::vector<model::BlobName> noted() {
    return await(control_->ledger.write(store::retain, store::Retention{})).value().blobs;
  }

  const model::BlobName blob{"acme", std::string(64, 'a')};
  const model::BlobName other{"acme", std::string(64, 'b')};
  SlowBlobs slow;
  std::unique_ptr<BlobKeeper> keeper;
  std::optional<Result<std::string>> result;
  std::optional<std::vector<model::BlobName>> removed;
};

TEST_F(BlobKeeperTest, ABlobIsNotKeptWhileItIsBeingRemoved) {
  start(removeOne());
  ASSERT_EQ(slow.removals.size(), 2U);
  start(keepOne());
  EXPECT_EQ(slow.kept, 0) << "a removal that comes later would take it away";
  slow.end(other);
  ready();
  EXPECT_EQ(slow.kept, 0) << "another blob's removal";
  slow.end(blob);
  ready();
  EXPECT_EQ(slow.kept, 1);
  ASSERT_TRUE(result && *result);
  EXPECT_THAT(*removed, ElementsAre(other, blob));
}

TEST_F(BlobKeeperTest, AHeldBlobIsNotRemoved) {
  start(keepOne());
  ASSERT_TRUE(result && *result);
  start(removeOne());
  EXPECT_EQ(slow.removals.size(), 1U);
  slow.end(other);
  ready();
  EXPECT_THAT(*removed, ElementsAre(other));
  keeper->release(blob, false);
  EXPECT_TRUE(slow.removals.contains(blob)) << "no record has its name";
}

TEST_F(BlobKeeperTest, OnlyWhatIsRemovedIsReported) {
  start(removeOne());
  slow.end(blob, fail(Code::kUnavailable, "no answer"));
  slow.end(other);
  ready();
  EXPECT_THAT(*removed, ElementsAre(other));
}

TEST_F(BlobKeeperTest, ABlobThatCannotBeKeptGoesOrIsNoted) {
  slow.refuses = true;
  start(keepOne());
  ASSERT_TRUE(result);
  EXPECT_EQ(result->error().code, Code::kUnavailable);
  ASSERT_TRUE(slow.removals.contains(blob)) << "it may have come nevertheless";
  EXPECT_THAT(noted(), IsEmpty());
  slow.end(blob, fail(Code::kUnavailable, "no answer"));
  EXPECT_THAT(noted(), ElementsAre(blob)) << "retention tries again";
}

}  // namespace
}  // namespace cloister::orchestrator
