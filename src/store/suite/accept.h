// SPDX-License-Identifier: Apache-2.0
// Part of store_suite.h: acceptance, idempotency, visibility per tenant.
#pragma once

#include <latch>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/suite/fixture.h"

namespace cloister::store {

TEST_P(StoreSuite, AcceptedIsStoredWithItsAuditRow) {
  NewExecution request = queued();
  request.execution.parent_id = "exec_parent";
  request.execution.depth = 3;
  const auto accepted = accept(*store_, request);
  ASSERT_TRUE(accepted) << accepted.error().message;
  EXPECT_FALSE(accepted->replayed);
  EXPECT_EQ(accepted->execution.seq, 1U);
  const auto got = store_->get(all_, request.execution.id);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->status, model::Status::kQueued);
  EXPECT_EQ(got->created_at, request.execution.created_at);
  EXPECT_EQ(got->principal.agent, "agent");
  EXPECT_EQ(got->parent_id, "exec_parent");
  EXPECT_EQ(got->depth, 3U);
  const auto entries = auditAll();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].event.subject, request.execution.id);
  EXPECT_EQ(entries[0].event.details.at("status"), "queued");
}

// `request`, with its execution started at once.
inline NewExecution startedAtOnce(NewExecution request) {
  model::Execution running = request.execution;
  running.status = model::Status::kRunning;
  running.started_at = running.created_at + 1;
  request.start = NewStart{running, testing::event("execution.started", running)};
  return request;
}

TEST_P(StoreSuite, AcceptedAndStartedAtOnce) {
  const NewExecution request = startedAtOnce(queued());
  const auto accepted = accept(*store_, request);
  ASSERT_TRUE(accepted) << accepted.error().message;
  EXPECT_EQ(accepted->execution.status, model::Status::kRunning);
  const auto got = store_->get(all_, request.execution.id);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->status, model::Status::kRunning);
  EXPECT_EQ(got->created_at, request.execution.created_at);
  const auto entries = auditAll();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].event.details.at("status"), "queued");
  EXPECT_EQ(entries[1].event.action, "execution.started");
  EXPECT_EQ(entries[1].event.details.at("status"), "running");
  EXPECT_TRUE(store_->mismatches(0, 10).value_or(std::vector<Mismatch>(1)).empty());
  // A restart finds the execution running.
  const auto left = store_->unfinished();
  ASSERT_TRUE(left);
  ASSERT_EQ(left->size(), 1U);
  EXPECT_EQ(left->front().execution.status, model::Status::kRunning);
  model::Execution ended = *got;
  ended.status = model::Status::kCompleted;
  EXPECT_TRUE(update(*store_, ended));
  EXPECT_TRUE(store_->mismatches(0, 10).value_or(std::vector<Mismatch>(1)).empty());
}

TEST_P(StoreSuite, AReplayStartsNothing) {
  NewExecution first = queued();
  first.idempotency_key = "once";
  ASSERT_TRUE(accept(*store_, first));
  NewExecution second = startedAtOnce(queued());
  second.idempotency_key = "once";
  second.request_json = first.request_json;
  const auto replayed = accept(*store_, second);
  ASSERT_TRUE(replayed) << replayed.error().message;
  EXPECT_TRUE(replayed->replayed);
  EXPECT_EQ(replayed->execution.id, first.execution.id);
  EXPECT_EQ(replayed->execution.status, model::Status::kQueued);
  EXPECT_EQ(auditAll().size(), 1U);
}

TEST_P(StoreSuite, RefusesAStartThatIsNone) {
  NewExecution request = startedAtOnce(queued());
  request.start->execution.status = model::Status::kCompleted;
  EXPECT_EQ(accept(*store_, request).error().code, Code::kInvalid);
  request = startedAtOnce(queued());
  request.start->execution.id = "exec_other";
  EXPECT_EQ(accept(*store_, request).error().code, Code::kInvalid);
  request = startedAtOnce(queued());
  request.execution.status = model::Status::kDenied;
  EXPECT_EQ(accept(*store_, request).error().code, Code::kInvalid);
  EXPECT_TRUE(auditAll().empty());
}

TEST_P(StoreSuite, RefusesWhatIsNoBeginning) {
  NewExecution request = queued();
  request.execution.status = model::Status::kRunning;
  EXPECT_EQ(accept(*store_, request).error().code, Code::kInvalid);
  request = queued("");
  EXPECT_EQ(accept(*store_, request).error().code, Code::kInvalid);
  EXPECT_TRUE(auditAll().empty());
}

TEST_P(StoreSuite, AnIdIsTakenOnce) {
  const NewExecution request = queued();
  ASSERT_TRUE(accept(*store_, request));
  EXPECT_EQ(accept(*store_, request).error().code, Code::kConflict);
  EXPECT_EQ(auditAll().size(), 1U);
}

// Everything a record can hold, at the edges of its types.
inline model::Execution fullExecution(model::Execution e) {
  e.status = model::Status::kFailed;
  e.exit_code = -1;
  e.signal = "SIGKILL";
  e.metadata = {{"k", "ä\n\"\\"}};
  e.out = {.bytes = std::string("\0\xff\xfe", 3), .total = 3, .truncated = false, .artifact = ""};
  e.err = {.bytes = "abc", .total = uint64_t{1} << 40, .truncated = true, .artifact = "art_whole"};
  e.artifacts = {{.id = "art_1",
                  .path = "bad\xff"
                          "name",
                  .size = uint64_t{INT64_MAX},
                  .content_type = "image/png",
                  .sha256 = std::string(64, 'a'),
                  .full_size = uint64_t{INT64_MAX} - 1}};
  e.usage = {.wall_ms = 1,
             .cpu_ms = INT64_MAX,
             .max_rss_bytes = UINT64_MAX,
             .io_read_bytes = 4,
             .io_write_bytes = 5,
             .processes = UINT32_MAX,
             .open_files = 7,
             .disk_limit_bytes = UINT64_MAX};
  e.provenance.runtime = "process";
  e.provenance.stderr_sha256 = std::string(64, 'b');
  e.provenance.weakened = {"no landlock", "no seccomp"};
  e.error = model::RunError{.type = std::string(model::error_type::kResourceLimit),
                            .message = "too\xc0 much",
                            .details = {{"limit", "memory_mb"}, {"used", UINT64_MAX}},
                            .retryable = true};
  e.compile = model::CompileResult{.exit_code = 2,
                                   .wall_ms = 9,
                                   .stdout_text = "out\xff",
                                   .stderr_text = std::string(9000, 'e')};
  e.cell = model::Cell{.kernel = "python",
                       .number = 7,
                       .state_lost = true,
                       .lost_before = true,
                       .lost_why = "it was ended by SIGKILL"};
  e.results = {base::json::object{{"text/plain", "2"}, {"application/json", {1, nullptr}}}, {}};
  e.results_bytes = 9;
  e.results_truncated = true;
  e.results_left_out = {base::json::object{{"result", 1}, {"type", "text/html"}}};
  e.started_at = 5;
  e.finished_at = 6;
  return e;
}

TEST_P(StoreSuite, GivesBackEveryField) {
  const auto accepted = accept(*store_, queued());
  ASSERT_TRUE(accepted);
  const model::Execution e = fullExecution(accepted->execution);
  ASSERT_TRUE(update(*store_, e));
  const auto read = store_->get(all_, e.id);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->seq, e.seq);
  EXPECT_EQ(read->exit_code, e.exit_code);
  EXPECT_EQ(read->signal, e.signal);
  EXPECT_EQ(read->metadata, e.metadata);
  EXPECT_EQ(read->out.bytes, e.out.bytes);
  EXPECT_EQ(read->err.total, e.err.total);
  EXPECT_TRUE(read->err.truncated);
  ASSERT_EQ(read->artifacts.size(), 1U);
  EXPECT_EQ(read->artifacts[0].path, e.artifacts[0].path);
  EXPECT_EQ(read->artifacts[0].size, e.artifacts[0].size);
  EXPECT_EQ(read->artifacts[0].full_size, e.artifacts[0].full_size);
  EXPECT_EQ(read->usage.cpu_ms, INT64_MAX);
  EXPECT_EQ(read->usage.max_rss_bytes, UINT64_MAX);
  EXPECT_EQ(read->usage.processes, UINT32_MAX);
  EXPECT_EQ(read->usage.open_files, 7U);
  EXPECT_EQ(read->usage.disk_limit_bytes, UINT64_MAX);
  EXPECT_EQ(read->provenance.weakened, e.provenance.weakened);
  ASSERT_TRUE(read->error);
  EXPECT_EQ(read->error->message, e.error->message);
  EXPECT_EQ(read->error->details, e.error->details);
  ASSERT_TRUE(read->compile);
  EXPECT_EQ(read->compile->stdout_text, e.compile->stdout_text);
  EXPECT_EQ(read->compile->stderr_text, e.compile->stderr_text);
  ASSERT_TRUE(read->cell);
  EXPECT_EQ(read->cell->kernel, "python");
  EXPECT_EQ(read->cell->number, 7U);
  EXPECT_TRUE(read->cell->state_lost);
  EXPECT_TRUE(read->cell->lost_before);
  EXPECT_EQ(read->cell->lost_why, "it was ended by SIGKILL");
  EXPECT_EQ(read->results, e.results);
  EXPECT_EQ(read->results_bytes, 9U);
  EXPECT_TRUE(read->results_truncated);
  EXPECT_EQ(read->results_left_out, e.results_left_out);
  EXPECT_EQ(read->finished_at, 6);
}

TEST_P(StoreSuite, ShowsNothingOfAnotherTenant) {
  model::Execution e = accept(*store_, queued("acme")).value().execution;
  e = fullExecution(e);
  ASSERT_TRUE(update(*store_, e));
  const Scope theirs = Scope::of(principal("rival"));
  EXPECT_EQ(store_->get(theirs, e.id).error().code, Code::kNotFound);
  EXPECT_EQ(store_->get(theirs, e.id).error().message, "there is no execution " + e.id);
  EXPECT_EQ(store_->request(theirs, e.id).error().message, "there is no execution " + e.id);
  EXPECT_TRUE(store_->list(theirs, {})->empty());
  EXPECT_EQ(store_->artifact(theirs, "art_1").error().code, Code::kNotFound);
  EXPECT_TRUE(store_->audit(theirs, 0, 100)->empty());
  const Scope own = Scope::of(principal("acme"));
  EXPECT_TRUE(store_->get(own, e.id));
  EXPECT_EQ(store_->request(own, e.id)->request_json, queued("acme").request_json);
  EXPECT_EQ(store_->list(own, {})->size(), 1U);
  EXPECT_EQ(store_->artifact(own, "art_1")->ref.content_type, "image/png");
  EXPECT_EQ(store_->artifact(own, "art_1")->ref.full_size, uint64_t{INT64_MAX} - 1);
  EXPECT_EQ(store_->audit(own, 0, 100)->size(), 2U);
  EXPECT_EQ(store_->list(Scope::of(admin()), {})->size(), 1U);
}

TEST_P(StoreSuite, FindsTheWholeOfAnOutputAsAnArtifact) {
  model::Execution e = fullExecution(accept(*store_, queued()).value().execution);
  ASSERT_TRUE(update(*store_, e));
  const auto whole = store_->artifact(all_, "art_whole");
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->ref.path, "stderr");
  EXPECT_EQ(whole->ref.size, e.err.total);
  EXPECT_EQ(whole->ref.sha256, e.provenance.stderr_sha256);
}

TEST_P(StoreSuite, TheSameKeyAndRequestIsTheSameExecution) {
  NewExecution request = queued();
  request.idempotency_key = "k";
  const auto first = accept(*store_, request);
  ASSERT_TRUE(first);
  ASSERT_TRUE(update(*store_, first->execution, model::Status::kRunning));
  NewExecution again = queued();
  again.idempotency_key = "k";
  const auto second = accept(*store_, again);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(second->replayed);
  EXPECT_EQ(second->execution.id, request.execution.id);
  EXPECT_EQ(second->execution.status, model::Status::kRunning);
  EXPECT_EQ(auditAll().size(), 2U);
  again.request_json = "{}";
  const auto other = accept(*store_, again);
  EXPECT_EQ(other.error().code, Code::kConflict);
  EXPECT_EQ(other.error().field, "Idempotency-Key");
}

TEST_P(StoreSuite, IdempotencyKeysAreOfOnePrincipal) {
  std::set<std::string> ids;
  for (const auto& [tenant, agent] : std::vector<std::pair<std::string, std::string>>{
           {"acme", "one"}, {"acme", "two"}, {"rival", "one"}}) {
    NewExecution request = queued(tenant, agent);
    request.idempotency_key = "k";
    const auto accepted = accept(*store_, request);
    ASSERT_TRUE(accepted);
    EXPECT_FALSE(accepted->replayed);
    ids.insert(accepted->execution.id);
  }
  EXPECT_EQ(ids.size(), 3U);
}

TEST_P(StoreSuite, FiftyAtOnceWithOneKeyAreOneExecution) {
  constexpr int kClients = 50;
  std::latch start(kClients);
  std::vector<Result<Accepted>> answers(kClients);
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([&, i] {
        NewExecution request = queued();
        request.idempotency_key = "once";
        start.arrive_and_wait();
        answers[static_cast<size_t>(i)] = accept(*store_, request);
      });
    }
  }
  std::set<std::string> ids;
  int fresh = 0;
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer) << answer.error().message;
    ids.insert(answer->execution.id);
    fresh += answer->replayed ? 0 : 1;
  }
  EXPECT_EQ(ids.size(), 1U);
  EXPECT_EQ(fresh, 1);
  EXPECT_EQ(store_->list(all_, {})->size(), 1U);
}

}  // namespace cloister::store
