// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "orchestrator/sessions/session_fixture.h"

namespace cloister::orchestrator {
namespace {

using ::testing::HasSubstr;

class SessionMoveTest : public SessionsTest {
 protected:
  using Moving = std::shared_ptr<Pending<Result<model::Session>>>;

  SessionMoveTest() { offer_.runtimes = {"process", "gvisor"}; }

  Result<model::Session> move(const std::string& id, const model::SessionMove& to,
                              const std::string& tenant = "acme") {
    return await(sessions_->move(principal(tenant), id, to));
  }
  Result<> put(const std::string& id, const std::string& name, const std::string& bytes) {
    const auto call =
        TRY(await(sessions_->files(principal(), id, {{"write", name, ""}, true, "file.written"})));
    TRY(await(call->send(bytes)));
    TRY(await(call->send("")));
    return await(call->finish());
  }
  Result<std::string> get(const std::string& id, const std::string& name) {
    const auto call =
        TRY(await(sessions_->files(principal(), id, {{"read", name, "0", "1000"}, false, ""})));
    TRY(await(call->entry()));
    return await(call->read());
  }

  // Calls `meanwhile` for a moving session, at each step of the move, and after the move.
  void atEachStep(
      const std::function<void(const std::string& id, const Moving& moving)>& meanwhile) {
    open();
    bool early = true;
    for (int steps = 0; early; ++steps) {
      SCOPED_TRACE(steps);
      const std::string id = created();
      const auto moving = start(sessions_->move(
          principal(), id, {.runtime = "gvisor", .tier = "", .end_programs = false}));
      for (int i = 0; i < steps && !moving->done();)
        i += static_cast<int>(io_->poll_one());
      early = !moving->done();
      meanwhile(id, moving);
    }
  }
};

TEST_F(SessionMoveTest, TakesItsFilesAlong) {
  open();
  const std::string id = created();
  ASSERT_TRUE(put(id, "notes", "kept"));
  const model::Session before = shown(id);
  const auto moved = move(id, {.runtime = "gvisor", .tier = "", .end_programs = false});
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_NE(moved->provenance.permit_id, before.provenance.permit_id);
  EXPECT_EQ(get(id, "notes").value_or("none"), "kept");
  EXPECT_EQ(storedSession(id).provenance.permit_id, moved->provenance.permit_id);
  EXPECT_THAT(auditOf(id), ::testing::Contains("session.moved"));
  runUntil([&] { return fake_->live() == 1; });
  EXPECT_EQ(ran(id, {"echo", "x"}).status, model::Status::kCompleted);
  ASSERT_TRUE(end(id));
  EXPECT_EQ(fake_->live(), 0U);
}

TEST_F(SessionMoveTest, NeverBehindWeakerWallsNorTheSame) {
  open();
  const std::string id = created();
  EXPECT_EQ(move(id, {}).error().code, Code::kConflict);
  ASSERT_TRUE(move(id, {.runtime = "gvisor", .tier = "", .end_programs = false}));
  const auto again = move(id, {.runtime = "process", .tier = "", .end_programs = false});
  EXPECT_EQ(again.error().code, Code::kConflict);
  EXPECT_THAT(again.error().message, HasSubstr("no stronger"));
  EXPECT_EQ(shown(id).status, model::SessionStatus::kRunning);
}

TEST_F(SessionMoveTest, WhatIsNotOfferedLeavesItAsItWas) {
  open();
  const std::string id = created();
  ASSERT_TRUE(put(id, "notes", "kept"));
  const auto moved = move(id, {.runtime = "microvm", .tier = "", .end_programs = false});
  EXPECT_EQ(moved.error().code, Code::kDenied);
  EXPECT_EQ(get(id, "notes").value_or("none"), "kept");
  EXPECT_EQ(fake_->live(), 1U);
}

TEST_F(SessionMoveTest, AnotherTenantMovesNothing) {
  open();
  const std::string id = created();
  const model::SessionMove to{.runtime = "gvisor", .tier = "", .end_programs = false};
  EXPECT_EQ(move(id, to, "other").error().code, Code::kNotFound);
}

TEST_F(SessionMoveTest, ProgramsAreEndedOnlyWhenAskedFor) {
  open();
  const std::string id = created();
  const std::string program = running(id, {"sleep", "60000"});
  model::SessionMove to{.runtime = "gvisor", .tier = "", .end_programs = false};
  EXPECT_EQ(move(id, to).error().code, Code::kConflict);
  to.end_programs = true;
  ASSERT_TRUE(move(id, to));
  EXPECT_EQ(ended(program).status, model::Status::kCancelled);
  EXPECT_EQ(ran(id, {"echo", "x"}).status, model::Status::kCompleted);
}

TEST_F(SessionMoveTest, ALedgerThatRefusesLeavesItAsItWas) {
  open();
  const std::string id = created();
  ASSERT_TRUE(put(id, "notes", "kept"));
  const std::string permit = shown(id).provenance.permit_id;
  store_->full = true;
  EXPECT_FALSE(move(id, {.runtime = "gvisor", .tier = "", .end_programs = false}));
  store_->full = false;
  EXPECT_EQ(shown(id).provenance.permit_id, permit);
  EXPECT_EQ(get(id, "notes").value_or("none"), "kept");
  runUntil([&] { return fake_->live() == 1; });
}

// In either order of the writes, neither write undoes the other.
TEST_F(SessionMoveTest, ARenewalMeanwhileKeepsBoth) {
  atEachStep([this](const std::string& id, const Moving& moving) {
    const auto renewed = renew(id, Millis(7'000'000), Millis(500'000));
    ASSERT_TRUE(renewed) << renewed.error().message;
    const auto moved = finish(moving);
    ASSERT_TRUE(moved) << moved.error().message;
    const model::Session stored = storedSession(id);
    EXPECT_EQ(stored.provenance.permit_id, moved->provenance.permit_id);
    EXPECT_EQ(stored.ttl, Millis(7'000'000));
    ASSERT_TRUE(end(id));
  });
}

// At every step of the move, both sandboxes are given up.
TEST_F(SessionMoveTest, ItsEndMeanwhileLeavesNothing) {
  atEachStep([this](const std::string& id, const Moving& moving) {
    const auto ending = start(sessions_->end(principal(), id));
    finish(moving);  // or not: the end may come too late
    const auto ended = finish(ending);
    ASSERT_TRUE(ended) << ended.error().message;
    EXPECT_EQ(ended->status, model::SessionStatus::kEnded);
    runUntil([&] { return fake_->live() == 0; });
  });
}

TEST_F(SessionMoveTest, ItsEndWhileTheOtherSandboxIsMade) {
  open();
  const std::string id = created();
  fake_->holdProvisions(true);
  const auto moving = start(
      sessions_->move(principal(), id, {.runtime = "gvisor", .tier = "", .end_programs = false}));
  settle();
  const auto ended = end(id);
  ASSERT_TRUE(ended) << ended.error().message;
  EXPECT_FALSE(moving->done());
  fake_->holdProvisions(false);
  const auto moved = finish(moving);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, Code::kConflict);
  runUntil([&] { return fake_->live() == 0; });
}

TEST_F(SessionMoveTest, APolicyThatTightensStopsProgramsUntilItHasMoved) {
  open();
  const std::string id = created();
  ASSERT_TRUE(put(id, "notes", "kept"));
  policy_.set(
      *policy::parsePolicy("version: 2\nrules:\n  - {name: strong, why: for tests, effect: "
                           "allow, runtime: gvisor}\n",
                           "test", model::defaultBounds().max));
  const model::Execution refused = ran(id, {"echo", "x"});
  EXPECT_EQ(refused.status, model::Status::kDenied);
  EXPECT_THAT(refused.error->message, HasSubstr("session move"));
  EXPECT_EQ(get(id, "notes").value_or("none"), "kept") << "its files can still be had";
  ASSERT_TRUE(move(id, {}));
  EXPECT_EQ(ran(id, {"echo", "x"}).status, model::Status::kCompleted);
  EXPECT_EQ(get(id, "notes").value_or("none"), "kept");
}

}  // namespace
}  // namespace cloister::orchestrator
