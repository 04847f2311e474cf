// SPDX-License-Identifier: Apache-2.0
// Creation, admission, and the programs of sessions; session_end_test.cc has the ends.
#include "orchestrator/sessions/sessions.h"

#include <filesystem>

#include <gmock/gmock.h>

#include "base/file.h"
#include "orchestrator/sessions/session_fixture.h"

namespace cloister::orchestrator {
namespace {

namespace error_type = model::error_type;
using model::SessionStatus;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(SessionsTest, AcknowledgesWhatIsDurable) {
  open();
  const auto session = create(asked());
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ(session->status, SessionStatus::kRunning);
  EXPECT_EQ(storedSession(session->id).status, SessionStatus::kRunning);
  EXPECT_EQ(session->provenance.runtime, "fake");
  EXPECT_EQ(session->provenance.node, "fake");
  EXPECT_FALSE(session->provenance.permit_id.empty());
  EXPECT_EQ(session->provenance.weakened.size(), 1U);
  EXPECT_GT(session->seq, 0U);
  EXPECT_NEAR(static_cast<double>(session->expires_at - session->created_at), 600e6, 5e6);
  EXPECT_THAT(auditOf(session->id), ElementsAre("session.created", "session.started"));
  EXPECT_THAT(fake_->provisioned(), ElementsAre(session->id));
  EXPECT_EQ(fake_->live(), 1U);
  EXPECT_EQ(metrics_.started_sessions, 1);
  EXPECT_EQ(metrics_.running_sessions, 1U);
  EXPECT_EQ(metrics_.creating_sessions, 0U);
}

TEST_F(SessionsTest, RefusesALanguageThatTheNodeLacksAtOnce) {
  const std::string folder = dir_ + "/languages";
  std::filesystem::create_directory(folder);
  ASSERT_TRUE(base::writeFileAtomic(folder + "/own.yaml",
                                    "name: own\ntitle: Own\nsource: main.own\n"
                                    "run: [own, '{source}']\ninstall: apt-get install own\n",
                                    0644));
  languages_ = model::LanguageSet::load(folder).value();
  offer_.findings = {{.area = "language",
                      .name = "own",
                      .state = model::Finding::State::kMissing,
                      .detail = "Own: no /usr/bin/own",
                      .remedy = "apt-get install own"}};
  open();
  const auto is_refused = [](const auto& answer) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::kUnsupported);
    EXPECT_EQ(answer.error().field, "language");
    EXPECT_THAT(answer.error().message, HasSubstr("no /usr/bin/own; on the node: apt-get install"));
  };
  Asked wanted = asked();
  wanted.settings.language = "own";
  is_refused(create(wanted));
  EXPECT_EQ(metrics_.started_sessions, 0);
  model::RunRequest code = request({});
  code.command = std::monostate{};
  code.language = "own";
  code.code = "1";
  is_refused(await(service_->run(principal(), code, "")));
  EXPECT_EQ(metrics_.accepted_runs, 0);
  const std::string session = created();
  model::ExecRequest inside = program({});
  inside.run = code;
  inside.run.artifacts = {};
  is_refused(await(sessions_->exec(principal(), session, inside, "")));
  EXPECT_EQ(ran(session, {"echo", "a command"}).exit_code, 0);
}

TEST_F(SessionsTest, KeepsWhatItsProgramsMake) {
  open();
  const std::string id = created();
  EXPECT_EQ(ran(id, {"write", "kept", "content"}).status, model::Status::kCompleted);
  const model::Execution shown_file = ran(id, {"show", "kept"});
  EXPECT_EQ(shown_file.out.bytes, "content");
  EXPECT_EQ(shown_file.session_id, id);
  EXPECT_EQ(shown_file.provenance.node, "fake");
  EXPECT_EQ(shown_file.provenance.weakened.size(), 1U);
  EXPECT_THAT(auditOf(shown_file.id),
              ElementsAre("execution.accepted", "execution.started", "execution.finished"));
  for (const char* action : {"execution.accepted", "execution.started", "execution.finished"}) {
    EXPECT_EQ(detailsOf(shown_file.id, action)["session_id"].as_string(), id);
  }
  EXPECT_EQ(fake_->live(), 1U);
}

TEST_F(SessionsTest, RunsProgramsBesideEachOtherAndOutOfTheQueue) {
  offer_.max_sandboxes = 2;
  open();
  const std::string id = created();
  accepted({"hold"});
  const std::string waiting = accepted({"echo", "waits"});
  const std::string held = running(id, {"hold"});
  EXPECT_EQ(ran(id, {"echo", "beside"}).out.bytes, "beside\n");
  EXPECT_EQ(shown(id).running, 1U);
  EXPECT_EQ(service_->get(principal(), waiting)->status, model::Status::kQueued);
  fake_->release();
  EXPECT_EQ(ServiceTest::ended(held).status, model::Status::kCompleted);
  EXPECT_EQ(ServiceTest::ended(waiting).status, model::Status::kCompleted);
}

TEST_F(SessionsTest, CarriesTheSessionsPlaceToTheProgram) {
  open();
  const std::string id = created();
  model::ExecRequest request = program({"pwd"});
  request.cwd = "/tmp/there";
  const auto execution = await(sessions_->exec(principal(), id, request, ""));
  ASSERT_TRUE(execution);
  EXPECT_EQ(ServiceTest::ended(execution->id).out.bytes, "/tmp/there\n");
}

TEST_F(SessionsTest, AProgramTakesInputAndSignals) {
  open();
  const std::string id = created();
  model::ExecRequest cat = program({"cat"});
  cat.keep_input = true;
  const auto execution = await(sessions_->exec(principal(), id, cat, ""));
  ASSERT_TRUE(execution);
  ASSERT_TRUE(await(service_->input(principal(), execution->id, {.data = "one ", .eof = false})));
  ASSERT_TRUE(await(service_->input(principal(), execution->id, {.data = "two", .eof = true})));
  EXPECT_EQ(ServiceTest::ended(execution->id).out.bytes, "one two");
  const auto late = await(service_->input(principal(), execution->id, {.data = "x", .eof = false}));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kConflict);

  const std::string trap = running(id, {"trap"});
  ASSERT_TRUE(await(service_->signal(principal(), trap, 2)));
  EXPECT_EQ(ServiceTest::ended(trap).out.bytes, "2\n");
  EXPECT_EQ(await(service_->signal(principal(), trap, 2)).error().code, Code::kConflict);
  EXPECT_EQ(await(service_->signal(principal(), "exec_none", 2)).error().code, Code::kNotFound);
  EXPECT_EQ(await(service_->signal(principal("other"), trap, 2)).error().code, Code::kNotFound);
}

TEST_F(SessionsTest, ARunOfItsOwnTakesNeither) {
  open();
  const std::string id = accepted({"hold"});
  const auto signalled = await(service_->signal(principal(), id, 2));
  ASSERT_FALSE(signalled);
  EXPECT_EQ(signalled.error().code, Code::kConflict);
  EXPECT_THAT(signalled.error().message, HasSubstr("DELETE"));
  EXPECT_EQ(await(service_->input(principal(), id, {.data = "x", .eof = true})).error().code,
            Code::kConflict);
}

TEST_F(SessionsTest, CancelEndsOneProgramOnly) {
  open();
  const std::string id = created();
  const std::string one = running(id, {"hold"});
  const std::string two = running(id, {"hold"});
  ASSERT_TRUE(await(service_->cancel(principal(), one)));
  EXPECT_EQ(ServiceTest::ended(one).status, model::Status::kCancelled);
  EXPECT_EQ(service_->get(principal(), two)->status, model::Status::kRunning);
  EXPECT_EQ(ran(id, {"echo", "on"}).status, model::Status::kCompleted);
  runUntil([&] { return shown(id).running == 1; });
}

TEST_F(SessionsTest, BoundsItsPrograms) {
  session_config_.max_execs = 2;
  open();
  const std::string id = created();
  running(id, {"hold"});
  const std::string second = running(id, {"hold"});
  const auto third = exec(id, {"echo"});
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kQuota);
  EXPECT_GT(third.error().retry_after_seconds, 0);
  await(service_->cancel(principal(), second));
  runUntil([&] { return shown(id).running == 1; });
  EXPECT_TRUE(exec(id, {"echo"}));
}

TEST_F(SessionsTest, AProgramIsAcceptedOncePerKey) {
  open();
  const std::string id = created();
  const auto first = exec(id, {"echo", "a"}, "acme", "key-1");
  const auto again = exec(id, {"echo", "a"}, "acme", "key-1");
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->id, again->id);
  EXPECT_EQ(exec(id, {"echo", "b"}, "acme", "key-1").error().code, Code::kConflict);
  const std::string other = created();
  EXPECT_EQ(exec(other, {"echo", "a"}, "acme", "key-1").error().code, Code::kConflict);
  runUntil([&] { return shown(id).running == 0 && shown(other).running == 0; });
}

TEST_F(SessionsTest, IsMadeOncePerKey) {
  open();
  const auto first = create(asked(), "acme", "key-1");
  const auto again = create(asked(), "acme", "key-1");
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->id, again->id);
  EXPECT_EQ(fake_->provisioned().size(), 1U);
  EXPECT_EQ(create(asked(Millis(5'000)), "acme", "key-1").error().code, Code::kConflict);
  ASSERT_TRUE(end(first->id));
  EXPECT_EQ(create(asked(), "acme", "key-1")->status, SessionStatus::kEnded);
  EXPECT_EQ(metrics_.running_sessions, 0U);
}

TEST_F(SessionsTest, TwoOfOneKeyGetTheSame) {
  open();
  store_->slow = true;
  const auto first = start(sessions_->create(principal(), asked(), "key-1"));
  const auto second = start(sessions_->create(principal(), asked(), "key-1"));
  settle();
  store_->letGo();
  const auto one = finish(first);
  const auto two = finish(second);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->id, two->id);
  EXPECT_EQ(two->status, SessionStatus::kRunning);
  EXPECT_EQ(fake_->provisioned().size(), 1U);
}

TEST_F(SessionsTest, ADenialIsRecordedAndSaid) {
  open();
  const auto denied = create(asked(), "evil");
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Code::kDenied);
  EXPECT_THAT(denied.error().message, HasSubstr("not trusted"));
  const auto all = *sessions_->list(principal("evil"), {});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].status, SessionStatus::kEnded);
  EXPECT_EQ(reason(all[0]), error_type::kPermissionDenied);
  EXPECT_THAT(auditOf(all[0].id), ElementsAre("session.created", "session.ended"));
  EXPECT_TRUE(fake_->provisioned().empty());
}

TEST_F(SessionsTest, WithoutANodeThereIsNone) {
  open(false);
  const auto refused = create(asked());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_TRUE(sessions_->list(principal(), {})->empty());
  connect();
  EXPECT_TRUE(create(asked()));
}

TEST_F(SessionsTest, ASandboxThatCannotBeHadIsRecorded) {
  open();
  fake_->failProvision(Error{Code::kUnsupported, "no cgroups here", {}});
  const auto refused = create(asked());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  const auto all = *sessions_->list(principal(), {});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(reason(all[0]), error_type::kStartupFailed);
  EXPECT_THAT(all[0].end->message, HasSubstr("no cgroups here"));
  fake_->failProvision(std::nullopt);
  EXPECT_TRUE(create(asked()));
}

TEST_F(SessionsTest, RefusesAnUnknownLanguage) {
  open();
  Asked wanted = asked();
  wanted.settings.language = "cobol";
  const auto refused = create(wanted);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(refused.error().field, "language");
}

TEST_F(SessionsTest, BoundsHowManyThereAre) {
  session_config_.max = 2;
  session_config_.max_per_tenant = 1;
  open();
  const std::string id = created();
  EXPECT_EQ(create(asked()).error().code, Code::kQuota);
  created(asked(), "other");
  const auto third = create(asked(), "third");
  EXPECT_EQ(third.error().code, Code::kQuota);
  EXPECT_EQ(metrics_.refusals["quota"], 2);
  ASSERT_TRUE(end(id));
  EXPECT_TRUE(create(asked(), "third"));
}

TEST_F(SessionsTest, AnswersARetryWhereNoMoreMayBeMade) {
  session_config_.max = 1;
  open();
  const auto first = create(asked(), "acme", "key");
  ASSERT_TRUE(first) << first.error().message;
  const auto retry = create(asked(), "acme", "key");
  ASSERT_TRUE(retry) << retry.error().message;
  EXPECT_EQ(retry->id, first->id);
  EXPECT_EQ(create(asked(Millis(60'000)), "acme", "key").error().code, Code::kConflict);
  EXPECT_EQ(metrics_.refusals["quota"], 0);
  EXPECT_EQ(create(asked(), "other", "key").error().code, Code::kQuota);
  EXPECT_EQ(metrics_.refusals["quota"], 1);
}

TEST_F(SessionsTest, BoundsTheMemoryOfAll) {
  offer_.memory_bytes = uint64_t{1} << 30;  // 60% are 614 MiB
  open();
  const std::string id = created();
  created();
  const auto third = create(asked());
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kQuota);
  EXPECT_THAT(third.error().message, HasSubstr("memory"));
  ASSERT_TRUE(end(id));
  EXPECT_TRUE(create(asked()));
}

TEST_F(SessionsTest, LeavesAQuarterOfThePlacesToRuns) {
  open();  // four places
  for (int i = 0; i < 3; i++)
    created();
  EXPECT_EQ(create(asked()).error().code, Code::kQuota);
  EXPECT_EQ(finished({"echo", "on"}).status, model::Status::kCompleted);
}

TEST_F(SessionsTest, WaitsForARunInItsPlace) {
  offer_.max_sandboxes = 2;
  open();
  const std::string one = accepted({"hold"});
  accepted({"hold"});
  const std::string queued = accepted({"echo"});
  const auto making = start(sessions_->create(principal(), asked(), ""));
  runUntil([&] { return metrics_.creating_sessions == 1; });
  settle();
  EXPECT_FALSE(making->done());
  await(service_->cancel(principal(), one));
  const auto session = finish(making);
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ(service_->get(principal(), queued)->status, model::Status::kQueued)
      << "it had its place before";
  ASSERT_TRUE(end(session->id));
  EXPECT_EQ(ServiceTest::ended(queued).status, model::Status::kCompleted);
}

TEST_F(SessionsTest, IsItsTenantsOnly) {
  open();
  const std::string id = created();
  EXPECT_EQ(sessions_->get(principal("other"), id).error().code, Code::kNotFound);
  EXPECT_EQ(sessions_->log(principal("other"), id).error().code, Code::kNotFound);
  EXPECT_EQ(end(id, "other").error().code, Code::kNotFound);
  EXPECT_EQ(exec(id, {"echo"}, "other").error().code, Code::kNotFound);
  EXPECT_TRUE(sessions_->list(principal("other"), {})->empty());
  model::Principal admin = principal("ops");
  admin.roles = model::Role::kAdmin;
  EXPECT_TRUE(sessions_->get(admin, id));
  const auto foreign = await(sessions_->exec(admin, id, program({"echo"}), ""));
  EXPECT_EQ(foreign.error().code, Code::kDenied);
  ASSERT_TRUE(await(sessions_->end(admin, id)));
  EXPECT_EQ(detailsOf(id, "session.ended")["of_tenant"], "acme");
}

TEST_F(SessionsTest, ListsThemAsTheyAreNow) {
  open();
  const std::string one = created();
  const std::string two = created();
  running(two, {"hold"});
  ASSERT_TRUE(end(one));
  const auto all = *sessions_->list(principal(), {});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].id, two);
  EXPECT_EQ(all[0].running, 1U);
  EXPECT_EQ(all[1].status, SessionStatus::kEnded);
  EXPECT_EQ(sessions_->list(principal(), {.status = SessionStatus::kRunning, .agent = {}})->size(),
            1U);
}

TEST_F(SessionsTest, TellsWhatHappens) {
  open();
  const std::string id = created();
  const std::string execution = ran(id, {"echo"}).id;
  const auto log = *sessions_->log(principal(), id);
  ASSERT_TRUE(renew(id, Millis(50'000), Millis(5'000)));
  ASSERT_TRUE(end(id));
  std::vector<std::string> seen;
  for (uint64_t seq = 0; const auto event = log->after(seq); seq = event->seq) {
    seen.emplace_back(event->session ? model::statusName(event->session->status)
                                     : model::statusName(event->status));
    if (!event->session) EXPECT_EQ(event->execution, execution);
  }
  EXPECT_THAT(seen, ElementsAre("creating", "running", "running", "completed", "running", "ended"));
  EXPECT_TRUE(log->closed());
  EXPECT_EQ(*sessions_->log(principal(), id), log);
  close();
  open();
  const auto rebuilt = *sessions_->log(principal(), id);
  EXPECT_EQ(rebuilt->after(99)->session->status, SessionStatus::kEnded);
}

TEST_F(SessionsTest, ALedgerThatRefusesTheBeginningLeavesNothing) {
  open();
  store_->full = true;
  EXPECT_EQ(create(asked()).error().code, Code::kNoSpace);
  EXPECT_EQ(fake_->live(), 0U);
  store_->full = false;
  EXPECT_TRUE(sessions_->list(principal(), {})->empty());
  for (int i = 0; i < 3; i++)
    created();  // no place was lost
}

TEST_F(SessionsTest, ASandboxThatDiesWhileItStartsMayBeAskedForAgain) {
  open();
  fake_->failProvision(Error{Code::kInternal, "starting the sandbox: the runner ended", {}});
  const auto refused = create(asked());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("the runner ended"));
  EXPECT_TRUE((*sessions_->list(principal(), {}))[0].end->retryable);
}

TEST_F(SessionsTest, ALedgerThatRefusesTheStartEndsIt) {
  open();
  store_->slow = true;
  const auto making = start(sessions_->create(principal(), asked(), ""));
  settle();
  ASSERT_EQ(store_->waiting(), 1U);
  store_->letGo();
  store_->full = true;
  const auto refused = finish(making);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_EQ(sessions_->list(principal(), {})->at(0).status, SessionStatus::kCreating);
  EXPECT_FALSE(service_->ready());
  store_->full = false;
  runUntil([&] { return metrics_.ends.contains(std::string(error_type::kStartupFailed)); });
  EXPECT_EQ(fake_->live(), 0U);
  EXPECT_TRUE(service_->ready());
}

}  // namespace
}  // namespace cloister::orchestrator
