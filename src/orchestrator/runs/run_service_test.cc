// SPDX-License-Identifier: Apache-2.0
// The story of a run, as its callers see it.
#include <gmock/gmock.h>

#include "orchestrator/runs/service_fixture.h"

namespace cloister::orchestrator {
namespace {

using model::Status;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using Actions = std::vector<std::string>;

TEST_F(ServiceTest, RunsAndRecords) {
  open();
  const auto accepted_run = run({"echo", "hello"});
  ASSERT_TRUE(accepted_run) << accepted_run.error().message;
  EXPECT_EQ(accepted_run->status, Status::kRunning) << "there was room";
  EXPECT_GT(accepted_run->seq, 0U);
  const auto execution = ended(accepted_run->id);
  EXPECT_EQ(execution.status, Status::kCompleted);
  EXPECT_EQ(execution.exit_code, 0);
  EXPECT_EQ(execution.out.bytes, "hello\n");
  EXPECT_EQ(execution.out.total, 6U);
  EXPECT_FALSE(execution.error);
  EXPECT_EQ(execution.principal.tenant, "acme");
  EXPECT_EQ(execution.provenance.runtime, "fake");
  EXPECT_TRUE(base::isId("permit", execution.provenance.permit_id));
  EXPECT_EQ(execution.provenance.policy_id, policy_.get()->id);
  EXPECT_EQ(execution.provenance.code_sha256, base::sha256Hex(R"(["echo","hello"])"));
  EXPECT_EQ(execution.provenance.output_sha256, base::sha256Hex("hello\n"));
  EXPECT_EQ(execution.provenance.stdout_sha256, base::sha256Hex("hello\n"));
  EXPECT_EQ(execution.provenance.stderr_sha256, base::sha256Hex(""));
  EXPECT_FALSE(execution.provenance.weakened.empty());
  EXPECT_LE(execution.created_at, execution.started_at);
  EXPECT_LE(execution.started_at, execution.finished_at);
  EXPECT_THAT(auditOf(execution.id),
              ElementsAre("execution.accepted", "execution.started", "execution.finished"));
  EXPECT_EQ(detailsOf(execution.id, "execution.accepted").at("rule"), "all");
  EXPECT_EQ(stored(execution.id).out.bytes, "hello\n");
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
  runUntil([&] { return metrics_.running == 0; });
  EXPECT_EQ(fake_->live(), 0U);
  EXPECT_EQ(metrics_.accepted_runs, 1);
  EXPECT_EQ(metrics_.started_runs, 1);
  EXPECT_EQ(metrics_.finished_runs, 1);
}

TEST_F(ServiceTest, WhatTheProgramDidIsAResult) {
  open();
  EXPECT_EQ(finished({"exit", "3"}).exit_code, 3);
  const auto segv = finished({"segv"});
  EXPECT_EQ(segv.status, Status::kCompleted);
  EXPECT_EQ(segv.signal, "SIGSEGV");
  EXPECT_FALSE(segv.exit_code);
  const auto pids = finished({"fork", "1000"});
  EXPECT_EQ(pids.status, Status::kCompleted);
  EXPECT_EQ(pids.error->type, "RESOURCE_LIMIT_EXCEEDED");
  const auto memory = finished({"memory", "100000000000"});
  EXPECT_EQ(memory.status, Status::kFailed);
  EXPECT_EQ(memory.error->details.at("limit"), "memory_mb");
  const auto missing = finished({"no-such-program"});
  EXPECT_EQ(missing.status, Status::kCompleted);
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_THAT(missing.err.bytes, HasSubstr("no-such-program"));
  const auto lost = finished({"lost"});
  EXPECT_EQ(lost.error->type, "RUNNER_LOST");
  EXPECT_TRUE(lost.error->retryable);
  const auto broken = finished({"broken"});
  EXPECT_EQ(broken.status, Status::kFailed);
  EXPECT_EQ(broken.error->type, "SANDBOX_STARTUP_FAILED");
}

TEST_F(ServiceTest, TimesOut) {
  open();
  auto slow = request({"sleep", "60000"});
  slow.limits.wall = Millis{30};
  const auto accepted_run = await(service_->run(principal(), slow, ""));
  ASSERT_TRUE(accepted_run);
  const auto execution = ended(accepted_run->id);
  EXPECT_EQ(execution.status, Status::kTimedOut);
  EXPECT_EQ(execution.error->type, "TIMEOUT");
  EXPECT_EQ(execution.error->details.at("value"), 30);
}

TEST_F(ServiceTest, ADenialIsARecordAndStartsNothing) {
  open();
  const auto denied = run({"echo", "x"}, "evil");
  ASSERT_TRUE(denied) << denied.error().message;
  EXPECT_EQ(denied->status, Status::kDenied);
  EXPECT_EQ(denied->error->type, "PERMISSION_DENIED");
  EXPECT_THAT(denied->error->message, HasSubstr("not trusted"));
  EXPECT_EQ(ended(denied->id, "evil").status, Status::kDenied);
  EXPECT_THAT(auditOf(denied->id), ElementsAre("execution.denied"));
  EXPECT_TRUE(fake_->provisioned().empty());
  EXPECT_EQ(metrics_.refusals["denied"], 1);
}

TEST_F(ServiceTest, RefusesWhatItCannotResolve) {
  open();
  model::RunRequest unknown;
  unknown.language = "cobol";
  unknown.code = "x";
  const auto refused = await(service_->run(principal(), unknown, ""));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(refused.error().field, "language");
}

TEST_F(ServiceTest, OneRunForAnIdempotencyKey) {
  open();
  std::vector<Result<model::Execution>> answers;
  for (int i = 0; i < 50; i++) {
    async::spawn(io_->get_executor(),
                 [](ServiceTest&, RunService& service, auto& out, model::Principal who,
                    model::RunRequest what) -> Task<void> {
                   out.push_back(co_await service.run(std::move(who), std::move(what), "same"));
                 }(*this, *service_, answers, principal(), request({"echo", "x"})));
  }
  runUntil([&] { return answers.size() == 50; });
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->id, answers[0]->id);
  }
  EXPECT_EQ(ended(answers[0]->id).status, Status::kCompleted);
  EXPECT_EQ(fake_->provisioned().size(), 1U);
  EXPECT_EQ(metrics_.accepted_runs, 1);

  const auto other_body = run({"echo", "y"}, "acme", "same");
  ASSERT_FALSE(other_body);
  EXPECT_EQ(other_body.error().code, Code::kConflict);
  const auto other_tenant = run({"echo", "x"}, "other", "same");
  ASSERT_TRUE(other_tenant);
  EXPECT_NE(other_tenant->id, answers[0]->id);
  const auto replay = run({"echo", "x"}, "acme", "same");
  ASSERT_TRUE(replay);
  EXPECT_EQ(replay->status, Status::kCompleted) << "a replay tells how it ended";
}

TEST_F(ServiceTest, TenantsTakeTurns) {
  control_config_.concurrent = 1;
  open();
  const std::string first = accepted({"hold"}, "greedy");
  std::vector<std::string> greedy;
  for (int i = 0; i < 3; i++)
    greedy.push_back(accepted({"echo", "g"}, "greedy"));
  const std::string modest = accepted({"echo", "m"}, "modest");
  await([](runtime::FakeRuntime& fake) -> Task<bool> {
    co_await fake.waitProvisioned(1);
    co_return true;
  }(*fake_));
  fake_->release();
  EXPECT_EQ(ended(greedy[2], "greedy").status, Status::kCompleted);
  EXPECT_EQ(ended(modest, "modest").status, Status::kCompleted);
  EXPECT_THAT(fake_->provisioned(), ElementsAre(first, greedy[0], modest, greedy[1], greedy[2]));
  EXPECT_EQ(metrics_.most_running, 1U);
}

TEST_F(ServiceTest, RefusesOverItsBounds) {
  control_config_.concurrent = 1;
  config_.queue = 3;
  config_.queue_per_tenant = 2;
  open();
  accepted({"hold"}, "a");
  runUntil([&] { return fake_->provisioned().size() == 1; });
  accepted({"hold"}, "a");
  const auto kept = run({"hold"}, "a", "key");
  ASSERT_TRUE(kept);
  const auto of_tenant = run({"hold"}, "a");
  ASSERT_FALSE(of_tenant);
  EXPECT_EQ(of_tenant.error().code, Code::kQuota);
  EXPECT_GE(of_tenant.error().retry_after_seconds, 1);
  EXPECT_THAT(of_tenant.error().message, HasSubstr("tenant"));
  const std::string last = accepted({"hold"}, "b");
  const auto of_all = run({"hold"}, "c");
  ASSERT_FALSE(of_all);
  EXPECT_EQ(of_all.error().code, Code::kQuota);
  EXPECT_EQ(metrics_.refusals["quota"], 2);
  const auto retry = run({"hold"}, "a", "key");
  ASSERT_TRUE(retry) << retry.error().message;
  EXPECT_EQ(retry->id, kept->id);
  EXPECT_EQ(run({"other"}, "a", "key").error().code, Code::kConflict);
  EXPECT_EQ(metrics_.refusals["quota"], 2);
  fake_->release();
  EXPECT_EQ(ended(last, "b").status, Status::kCompleted);
  EXPECT_TRUE(run({"echo", "x"}, "c")) << "there is room again";
}

TEST_F(ServiceTest, RunsWithinTheMemoryOfTheMachine) {
  offer_.memory_bytes = uint64_t{640} << 20;  // 80 % hold two sandboxes of 256 MiB
  open();
  std::vector<std::string> ids;
  for (int i = 0; i < 4; i++)
    ids.push_back(accepted({"sleep", "1"}));
  for (const std::string& id : ids)
    EXPECT_EQ(ended(id).status, Status::kCompleted);
  EXPECT_EQ(metrics_.most_running, 2U);
}

TEST_F(ServiceTest, RunsWithinTheDiskThatIsForThem) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  control_config_.disk_bytes = 5 * kGiB;
  control_config_.disk_over_bytes = kGiB;
  open();
  model::RunRequest large = request({"sleep", "1"});
  large.limits.disk_bytes = 2 * kGiB;
  std::vector<std::string> ids;
  for (int i = 0; i < 3; i++) {
    const auto one = await(service_->run(principal(), large, ""));
    ASSERT_TRUE(one) << one.error().message;
    ids.push_back(one->id);
  }
  EXPECT_EQ(metrics_.disk, 4 * kGiB) << "the third waits";
  EXPECT_EQ(finished({"echo", "x"}).status, Status::kCompleted) << "and keeps nobody waiting";
  for (const std::string& id : ids)
    EXPECT_EQ(ended(id).status, Status::kCompleted);
  large.limits.disk_bytes = 6 * kGiB;
  const auto too_large = await(service_->run(principal(), large, ""));
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, Code::kUnsupported);
  EXPECT_EQ(too_large.error().field, "disk_mb");
}

// The node has disks, but only the process runtime uses disks.
TEST_F(ServiceTest, AFullWorkspaceNamesNoDiskThatItsRuntimeDoesNotHave) {
  control_config_.disk_bytes = control_config_.disk_over_bytes = uint64_t{1} << 30;
  offer_.findings.push_back({.area = "isolation",
                             .name = model::kDiskFinding,
                             .state = model::Finding::State::kOk,
                             .detail = "",
                             .remedy = ""});
  open();
  const model::Execution full = finished({"disk", "400000000"});
  EXPECT_THAT(full.error->message, EndsWith("not disk_mb, 1024 MiB: raise memory_mb"));
  EXPECT_EQ(full.usage.disk_limit_bytes, uint64_t{192} << 20);
}

TEST_F(ServiceTest, RefusesDiskThatTheNodeDoesNotHave) {
  control_config_.disk_bytes = control_config_.disk_over_bytes = uint64_t{1} << 30;
  offer_.findings.push_back({.area = "isolation",
                             .name = model::kDiskFinding,
                             .state = model::Finding::State::kMissing,
                             .detail = "no loop devices",
                             .remedy = "modprobe loop"});
  open();
  model::RunRequest large = request({"echo"});
  large.limits.disk_bytes = uint64_t{2} << 30;
  const auto refused = await(service_->run(principal(), large, ""));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("no loop devices; modprobe loop"));
  EXPECT_TRUE(fake_->provisioned().empty());
  EXPECT_EQ(finished({"echo", "x"}).status, Status::kCompleted);
}

TEST_F(ServiceTest, WaitsForANode) {
  open(false);
  EXPECT_FALSE(service_->ready());
  const std::string id = accepted({"echo", "x"});
  const auto waiting = await(service_->wait(principal(), id, Millis{20}));
  EXPECT_EQ(waiting->status, Status::kQueued);
  connect();
  EXPECT_TRUE(service_->ready());
  EXPECT_EQ(ended(id).status, Status::kCompleted);
}

// A restarting node still counts with its last offer.
TEST_F(ServiceTest, WaitsForANodeThatIsAwayWithTheRuntimesItHad) {
  open(false);
  model::RunRequest asks = request({"echo", "x"});
  asks.runtime = "gvisor";
  EXPECT_EQ(await(service_->run(principal(), asks, ""))->status, Status::kDenied);
  offer_.runtimes = {"process", "gvisor"};
  connect();
  control_->nodes.set({});
  EXPECT_EQ(await(service_->run(principal(), asks, ""))->status, Status::kQueued);
  offer_.runtimes = {"process"};
  connect();
  control_->nodes.set({});
  EXPECT_EQ(await(service_->run(principal(), asks, ""))->status, Status::kDenied);
}

TEST_F(ServiceTest, SaysThatASandboxCouldNotStart) {
  open();
  fake_->failProvision(Error{Code::kUnsupported, "making the sandbox: no namespaces", {}});
  const auto execution = finished({"echo", "x"});
  EXPECT_EQ(execution.status, Status::kFailed);
  EXPECT_EQ(execution.error->type, "SANDBOX_STARTUP_FAILED");
  EXPECT_THAT(execution.error->message, HasSubstr("no namespaces"));
}

TEST_F(ServiceTest, KeepsTheHeadAndStoresTheWhole) {
  open();
  const auto execution = finished({"flood", "3000000"});
  EXPECT_EQ(execution.status, Status::kCompleted);
  EXPECT_EQ(execution.out.bytes.size(), size_t{1} << 20);
  EXPECT_EQ(execution.out.total, 3'000'000U);
  EXPECT_TRUE(execution.out.truncated);
  EXPECT_EQ(execution.error->type, "OUTPUT_LIMIT");
  EXPECT_EQ(execution.error->details.at("used"), 3'000'000);
  EXPECT_THAT(execution.error->message, HasSubstr(execution.out.artifact + ", which is the whole"));
  EXPECT_EQ(toJsonObject(execution).at("stdout_artifact_truncated"), false);
  const std::string whole(3'000'000, 'x');
  EXPECT_EQ(execution.provenance.stdout_sha256, base::sha256Hex(whole));
  const auto artifact = store_->artifact(store::Scope::allTenants(), execution.out.artifact);
  ASSERT_TRUE(artifact) << artifact.error().message;
  EXPECT_EQ(artifact->ref.sha256, base::sha256Hex(whole));
  EXPECT_EQ(contentOf(*artifact), whole);
}

TEST_F(ServiceTest, StoresAWholeUpToItsBoundAndHashesOn) {
  config_.output_artifact_bytes = 2'000'000;
  open();
  const auto execution = finished({"flood", "3000000"});
  EXPECT_THAT(execution.error->message,
              HasSubstr("which is the first 2000000 bytes (run.output_artifact_bytes)"));
  EXPECT_EQ(toJsonObject(execution).at("stdout_artifact_truncated"), true);
  const std::string whole(3'000'000, 'x');
  EXPECT_EQ(execution.provenance.output_sha256, base::sha256Hex(whole));
  ASSERT_EQ(execution.artifacts.size(), 1U);
  EXPECT_EQ(execution.artifacts[0].size, 2'000'000U);
  EXPECT_EQ(execution.artifacts[0].sha256, base::sha256Hex(whole.substr(0, 2'000'000)));
}

TEST_F(ServiceTest, KeepsArtifacts) {
  open();
  const auto execution = finished({"write", "notes.md", "some text"});
  ASSERT_EQ(execution.artifacts.size(), 1U);
  const auto& ref = execution.artifacts[0];
  EXPECT_EQ(ref.path, "notes.md");
  EXPECT_EQ(ref.sha256, base::sha256Hex("some text"));
  const auto artifact = store_->artifact(store::Scope::of(principal()), ref.id);
  ASSERT_TRUE(artifact) << artifact.error().message;
  EXPECT_EQ(contentOf(*artifact), "some text");
  EXPECT_EQ(artifact->execution_id, execution.id);
  EXPECT_EQ(artifact->ref.expires_at, 0);
}

TEST_F(ServiceTest, ArtifactsExpireAndCount) {
  config_.artifact_ttl_us = int64_t{3600} * 1'000'000;
  config_.artifact_quota = {.artifacts = 1, .bytes = 100};
  open();
  const auto first = finished({"write", "a", "some text"});
  const auto artifact = store_->artifact(store::Scope::allTenants(), first.artifacts.at(0).id);
  ASSERT_TRUE(artifact);
  EXPECT_EQ(artifact->ref.expires_at, first.finished_at + config_.artifact_ttl_us);
  const auto second = finished({"write", "b", "more text"});
  EXPECT_EQ(second.status, Status::kCompleted);
  EXPECT_TRUE(second.artifacts.empty());
  ASSERT_TRUE(second.error);
  EXPECT_EQ(second.error->type, "QUOTA_EXCEEDED");
  const auto other = ended(accepted({"write", "c", "text"}, "other"), "other");
  EXPECT_EQ(other.artifacts.size(), 1U) << "the quota is each tenant's";
}

TEST_F(ServiceTest, ShowsOutputWhileItRuns) {
  open();
  const std::string id = accepted({"hold"});
  runUntil([&] { return fake_->provisioned().size() == 1; });
  const auto log = *service_->log(principal(), id);
  EXPECT_EQ(log->latest().status, Status::kRunning);
  EXPECT_FALSE(log->closed());
  log->append(model::Stream::kStdout, "so far");
  EXPECT_EQ(service_->get(principal(), id)->out.bytes, "so far");
  fake_->release();
  EXPECT_EQ(ended(id).out.bytes, "so far");
  EXPECT_TRUE(log->closed());
  EXPECT_EQ(log->latest().status, Status::kCompleted);
}

TEST_F(ServiceTest, RebuildsALogFromTheLedger) {
  config_.finished_in_memory = 0;
  open();
  const auto execution = finished({"echo", "x"});
  runUntil([&] { return metrics_.running == 0; });
  const auto log = service_->log(principal(), execution.id);
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_TRUE((*log)->closed());
  EXPECT_EQ((*log)->kept(model::Stream::kStdout, 0), "x\n");
}

TEST_F(ServiceTest, TenantsSeeOnlyTheirOwn) {
  open();
  const std::string id = accepted({"hold"});
  const auto is_hidden = [&](const auto& result) {
    return !result && result.error().code == Code::kNotFound;
  };
  EXPECT_TRUE(is_hidden(service_->get(principal("other"), id)));
  EXPECT_TRUE(is_hidden(service_->log(principal("other"), id)));
  EXPECT_TRUE(is_hidden(await(service_->cancel(principal("other"), id))));
  EXPECT_TRUE(is_hidden(await(service_->wait(principal("other"), id, Millis{10}))));
  EXPECT_TRUE(service_->list(principal("other"), {})->empty());
  auto admin = principal("ops");
  admin.roles = model::Role::kAdmin;
  EXPECT_TRUE(service_->get(admin, id));
  fake_->release();
  EXPECT_EQ(ended(id).status, Status::kCompleted);
  EXPECT_TRUE(is_hidden(service_->get(principal("other"), id))) << "nor when it has ended";
}

TEST_F(ServiceTest, PlansWithoutRecording) {
  open();
  const auto plan = await(service_->plan(principal(), request({"echo", "x"})));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->at("command").as_array().size(), 2U);
  EXPECT_TRUE(service_->list(principal(), {})->empty());
  const auto denied = await(service_->plan(principal("evil"), request({"echo", "x"})));
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Code::kDenied);
}

TEST_F(ServiceTest, RetainsByCountAndRemovesBlobs) {
  config_.retention.keep_at_most = 1;
  config_.retention_every = Millis{1};
  config_.finished_in_memory = 0;
  open();
  const auto first = finished({"write", "a.txt", "first"});
  const auto second = finished({"write", "a.txt", "second"});
  runUntil([&] { return !await(blobs_->open({"acme", first.artifacts[0].sha256})); });
  runUntil([&] { return !service_->get(principal(), first.id); });  // its sandbox is gone as well
  EXPECT_TRUE(service_->get(principal(), second.id));
  EXPECT_TRUE(await(blobs_->open({"acme", second.artifacts[0].sha256})));
}

}  // namespace
}  // namespace cloister::orchestrator
