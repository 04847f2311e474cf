// SPDX-License-Identifier: Apache-2.0
// Runs on an image whose content is verified only later.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "model/image_state.h"
#include "orchestrator/sessions/session_fixture.h"

namespace cloister::orchestrator {
namespace {

using testing::Contains;
using testing::Not;

class RunImagesTest : public SessionsTest {
 protected:
  RunImagesTest() {
    offer_.image_digest.clear();
    state_.place = "p";
    state_.identity = "i";
    state_.since = 1000;
  }

  // The node's report of its image.
  void tell(const std::string& digest, int64_t changed_at = 0) {
    state_.digest = digest;
    state_.changed_at = changed_at;
    fake_->setImage(state_);
    offer_.image_digest = digest;
    connect();
  }
  void openUnverified() {
    open(false);
    tell("");
  }
  std::vector<std::string> actions() {
    std::vector<std::string> all;
    for (const auto& entry : *store_->audit(store::Scope::allTenants(), 0, 1000))
      all.push_back(entry.event.action);
    return all;
  }
  void runUntilEntry(const std::string& action) {
    runUntil([&] {
      const auto all = actions();
      return std::ranges::find(all, action) != all.end();
    });
  }

  model::ImageState state_;
  const std::string digest_ = "sha256:" + std::string(64, 'b');
};

TEST_F(RunImagesTest, AnEntryBindsTheDigestToWhatRanBefore) {
  openUnverified();
  const auto done = finished({"echo", "hi"});
  EXPECT_EQ(done.provenance.image_digest, "");
  EXPECT_THAT(done.provenance.weakened, Contains(model::kWeakerUnverified));
  tell(digest_);
  runUntilEntry("image.verified");
  const auto now = *service_->get(principal(), done.id);
  EXPECT_EQ(now.provenance.image_digest, digest_);
  EXPECT_THAT(now.provenance.weakened, Contains(model::kWeakerUnverified)) << "as it was recorded";
  EXPECT_EQ(detailsOf(digest_, "image.verified").at("executions"), (base::json::array{done.id}));
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
  const auto later = finished({"echo", "hi"});
  EXPECT_EQ(later.provenance.image_digest, digest_);
  EXPECT_THAT(later.provenance.weakened, Not(Contains(model::kWeakerUnverified)));
}

TEST_F(RunImagesTest, AlsoAfterARestart) {
  openUnverified();
  const std::string id = finished({"echo", "hi"}).id;
  close();
  open(false);
  EXPECT_EQ(stored(id).provenance.image_digest, "");
  tell(digest_);
  runUntilEntry("image.verified");
  EXPECT_EQ(stored(id).provenance.image_digest, digest_);
}

TEST_F(RunImagesTest, NotToWhatRanInAnotherPlace) {
  openUnverified();
  const std::string id = finished({"echo", "hi"}).id;
  state_.place = "another";
  tell(digest_);
  finished({"echo", "hi"});
  EXPECT_EQ(stored(id).provenance.image_digest, "");
}

// Ready sandboxes, and runs begun there, may have the previous content.
TEST_F(RunImagesTest, NotWhereTheImageChangedUnderSandboxesThatWait) {
  openUnverified();
  const auto done = finished({"echo", "hi"});
  state_.newest = "/usr/bin/tool";
  tell(digest_, state_.since);
  runUntilEntry("image.not_verified");
  EXPECT_EQ(stored(done.id).provenance.image_digest, "");
  EXPECT_EQ(detailsOf(digest_, "image.not_verified").at("changed"),
            (base::json::array{"/usr/bin/tool"}));
}

TEST_F(RunImagesTest, ARunThatEndsAfterItHasNoneWhereTheImageChanged) {
  openUnverified();
  const std::string id = accepted({"hold"});
  runUntil([&] { return !fake_->provisioned().empty(); });
  const int64_t changed_at = state_.since + 5;
  state_.since += 10;  // only sandboxes younger than the change count
  tell(digest_, changed_at);
  fake_->release();
  EXPECT_EQ(ended(id).provenance.image_digest, "");
  runUntilEntry("image.not_verified");
}

TEST_F(RunImagesTest, ARunThatEndsAfterItHasItInItsRecord) {
  openUnverified();
  const std::string id = accepted({"hold"});
  runUntil([&] { return !fake_->provisioned().empty(); });
  tell(digest_);
  fake_->release();
  const auto done = ended(id);
  EXPECT_EQ(done.provenance.image_digest, digest_);
  EXPECT_THAT(done.provenance.weakened, Not(Contains(model::kWeakerUnverified)));
  EXPECT_THAT(actions(), Not(Contains("image.verified")));
}

TEST_F(RunImagesTest, ALedgerThatIsFullIsToldLater) {
  openUnverified();
  const std::string id = finished({"echo", "hi"}).id;
  store_->full = true;
  tell(digest_);
  runUntil([&] { return store_->refused > 0; });
  store_->full = false;
  runUntilEntry("image.verified");
  EXPECT_EQ(stored(id).provenance.image_digest, digest_);
}

TEST_F(RunImagesTest, AnotherContentIsRecorded) {
  open(false);
  tell(digest_);
  state_.changed = {"/usr/bin/tool"};
  const std::string other = "sha256:" + std::string(64, 'c');
  tell(other, 7);
  runUntilEntry("image.changed");
  const auto details = detailsOf(other, "image.changed");
  EXPECT_EQ(details.at("from"), base::json::string(digest_));
  EXPECT_EQ(details.at("changed"), (base::json::array{"/usr/bin/tool"}));
}

TEST_F(RunImagesTest, ASessionIsGivenItOnceItIsKnown) {
  openUnverified();
  const auto session = create(asked());
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ(session->provenance.image_digest, "");
  tell(digest_);
  runUntilEntry("session.image_verified");
  runUntil(
      [&] { return sessions_->get(principal(), session->id)->provenance.image_digest == digest_; });
  EXPECT_TRUE(store_->sessionMismatches(0, 10)->empty());
}

}  // namespace
}  // namespace cloister::orchestrator
