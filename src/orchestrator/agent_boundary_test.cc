// SPDX-License-Identifier: Apache-2.0
// One agent and another of the same tenant: what is whose.
#include <gmock/gmock.h>

#include "orchestrator/session_fixture.h"
#include "orchestrator/session_memory.h"

namespace cloister::orchestrator {
namespace {

using model::Role;
using model::Roles;
using model::Status;
using ::testing::HasSubstr;

class BoundaryTest : public SessionsTest {
 protected:
  static model::Principal as(const std::string& agent, Roles roles = Role::kAgent) {
    model::Principal who = principal();
    who.agent = agent;
    who.roles = roles;
    who.key_id = "key_of_" + agent;
    return who;
  }
  std::string sessionOf(const std::string& agent) {
    const auto session = await(sessions_->create(as(agent), asked(), ""));
    EXPECT_TRUE(session) << session.error().message;
    return session ? session->id : "";
  }
  Result<model::Execution> execAs(const model::Principal& who, const std::string& session,
                                  std::vector<std::string> argv) {
    return await(sessions_->exec(who, session, program(std::move(argv)), ""));
  }
  Result<std::shared_ptr<FileCall>> filesAs(const model::Principal& who, const std::string& session,
                                            std::vector<std::string> argv) {
    return await(sessions_->files(who, session, {std::move(argv), false, ""}));
  }
};

TEST_F(BoundaryTest, AnotherAgentsExecutionsAndSessionsAreNotThere) {
  open();
  const std::string session = sessionOf("alice");
  const std::string run = execAs(as("alice"), session, {"hold"})->id;
  const auto memory =
      std::make_unique<SessionMemory>(*sessions_, store_->memory(), model::MemoryBounds{});
  const model::Principal bob = as("bob");
  const auto gone = [](const auto& result) {
    return result ? "there" : result.error().code == Code::kNotFound ? "404" : "other";
  };
  EXPECT_STREQ(gone(service_->get(bob, run)), "404");
  EXPECT_STREQ(gone(service_->log(bob, run)), "404");
  EXPECT_STREQ(gone(await(service_->wait(bob, run, Millis(0)))), "404");
  EXPECT_STREQ(gone(await(service_->cancel(bob, run))), "404");
  EXPECT_STREQ(gone(await(service_->input(bob, run, {.data = "x"}))), "404");
  EXPECT_STREQ(gone(await(service_->signal(bob, run, 15))), "404");
  EXPECT_STREQ(gone(await(service_->resize(bob, run, {}))), "404");
  EXPECT_STREQ(gone(sessions_->get(bob, session)), "404");
  EXPECT_STREQ(gone(sessions_->log(bob, session)), "404");
  EXPECT_STREQ(gone(sessions_->kernels(bob, session)), "404");
  EXPECT_STREQ(gone(await(sessions_->end(bob, session))), "404");
  EXPECT_STREQ(gone(await(sessions_->renew(bob, session, {}))), "404");
  EXPECT_STREQ(gone(await(sessions_->move(bob, session, {}))), "404");
  EXPECT_STREQ(gone(await(sessions_->connect(bob, session, 80))), "404");
  EXPECT_STREQ(gone(await(sessions_->watch(bob, session, "", false))), "404");
  EXPECT_STREQ(gone(await(sessions_->restartKernel(bob, session, "python"))), "404");
  EXPECT_STREQ(gone(execAs(bob, session, {"echo"})), "404");
  EXPECT_STREQ(gone(filesAs(bob, session, {"read", "f"})), "404");
  EXPECT_STREQ(gone(memory->list(bob, {.session = session})), "404");
  EXPECT_STREQ(gone(await(memory->set(bob, session, "k", "1"))), "404");
  EXPECT_TRUE(service_->list(bob, {})->empty());
  EXPECT_TRUE(sessions_->list(bob, {})->empty());
  EXPECT_EQ(stored(run).status, Status::kRunning);
  EXPECT_EQ(storedSession(session).status, model::SessionStatus::kRunning);
}

TEST_F(BoundaryTest, AViewerSeesAndAnOperatorActs) {
  open();
  const std::string session = sessionOf("alice");
  const std::string run = execAs(as("alice"), session, {"hold"})->id;
  const model::Principal viewer = as("bob", Roles(Role::kAgent).with(Role::kViewer));
  EXPECT_TRUE(service_->get(viewer, run));
  EXPECT_TRUE(sessions_->log(viewer, session));
  EXPECT_EQ(service_->list(viewer, {})->size(), 1U);
  for (const auto& error :
       {await(service_->cancel(viewer, run)).error(), execAs(viewer, session, {"echo"}).error(),
        await(service_->signal(viewer, run, 15)).error(),
        await(sessions_->end(viewer, session)).error(),
        await(sessions_->renew(viewer, session, {})).error(),
        filesAs(viewer, session, {"remove", "f", "0"}).error()}) {
    EXPECT_EQ(error.code, Code::kDenied) << error.message;
    EXPECT_THAT(error.message, HasSubstr("it is another agent's, which this credential only sees"));
  }
  EXPECT_EQ(stored(run).status, Status::kRunning);
  const model::Principal boss = as("", Role::kOperator);
  EXPECT_TRUE(await(service_->cancel(boss, run)));
  runUntil([&] { return stored(run).status == Status::kCancelled; });
  EXPECT_TRUE(await(sessions_->end(boss, session)));
  EXPECT_EQ(await(sessions_->end(viewer, session)).error().code, Code::kDenied)
      << "one that has ended, too";
}

}  // namespace
}  // namespace cloister::orchestrator
