// SPDX-License-Identifier: Apache-2.0
// The conformance suite of store.h: instantiate it for each implementation.
//   INSTANTIATE_TEST_SUITE_P(Sqlite, StoreSuite, ::testing::Values(factory));
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "store/store_testing.h"

namespace cloister::store {

using testing::accept;
using testing::admin;
using testing::await;
using testing::principal;
using testing::queued;
using testing::update;

// A fresh, empty store each time; what it needs to live is held by the deleter.
using StoreFactory = std::function<std::shared_ptr<Store>()>;

class StoreSuite : public ::testing::TestWithParam<StoreFactory> {
 protected:
  std::shared_ptr<Store> store_ = GetParam()();
  Scope all_ = Scope::allTenants();

  std::vector<model::AuditEntry> auditAll() {
    return store_->audit(all_, 0, 1000).value_or(std::vector<model::AuditEntry>{});
  }
};

inline constexpr std::array kAllStatuses = {
    model::Status::kQueued,    model::Status::kRunning, model::Status::kBlocked,
    model::Status::kCompleted, model::Status::kFailed,  model::Status::kTimedOut,
    model::Status::kCancelled, model::Status::kDenied,
};

TEST_P(StoreSuite, AcceptedIsStoredWithItsAuditRow) {
  const NewExecution request = queued();
  const auto accepted = accept(*store_, request);
  ASSERT_TRUE(accepted) << accepted.error().message;
  EXPECT_FALSE(accepted->replayed);
  EXPECT_EQ(accepted->execution.seq, 1U);
  const auto got = store_->get(all_, request.execution.id);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->status, model::Status::kQueued);
  EXPECT_EQ(got->created_at, request.execution.created_at);
  EXPECT_EQ(got->principal.agent, "agent");
  const auto entries = auditAll();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].event.subject, request.execution.id);
  EXPECT_EQ(entries[0].event.details.at("status"), "queued");
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
                  .sha256 = std::string(64, 'a')}};
  e.usage = {.wall_ms = 1,
             .cpu_ms = INT64_MAX,
             .max_rss_bytes = UINT64_MAX,
             .io_read_bytes = 4,
             .io_write_bytes = 5,
             .processes = UINT32_MAX};
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
  EXPECT_EQ(read->usage.cpu_ms, INT64_MAX);
  EXPECT_EQ(read->usage.max_rss_bytes, UINT64_MAX);
  EXPECT_EQ(read->usage.processes, UINT32_MAX);
  EXPECT_EQ(read->provenance.weakened, e.provenance.weakened);
  ASSERT_TRUE(read->error);
  EXPECT_EQ(read->error->message, e.error->message);
  EXPECT_EQ(read->error->details, e.error->details);
  ASSERT_TRUE(read->compile);
  EXPECT_EQ(read->compile->stdout_text, e.compile->stdout_text);
  EXPECT_EQ(read->compile->stderr_text, e.compile->stderr_text);
  EXPECT_EQ(read->finished_at, 6);
}

TEST_P(StoreSuite, BytesThatAreNoTextDoNotMakeAnAuditRowUnreadable) {
  ASSERT_TRUE(await<void>([&](Done<void> done) {
    store_->append({.action = "a\xff",
                    .subject = "s\xc3",
                    .principal = principal("acme"),
                    .details = {{"n\xff", base::json::array{"\xed\xa0\x80", 1.5}}}},
                   std::move(done));
  }));
  const auto entries = auditAll();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].event.action, "a\xef\xbf\xbd");
  EXPECT_EQ(base::sha256Hex(model::canonicalForm(entries[0])), entries[0].hash);
}

TEST_P(StoreSuite, ShowsNothingOfAnotherTenant) {
  model::Execution e = accept(*store_, queued("acme")).value().execution;
  e = fullExecution(e);
  ASSERT_TRUE(update(*store_, e));
  const Scope theirs = Scope::of(principal("rival"));
  EXPECT_EQ(store_->get(theirs, e.id).error().code, Code::kNotFound);
  EXPECT_EQ(store_->get(theirs, e.id).error().message, "there is no execution " + e.id);
  EXPECT_TRUE(store_->list(theirs, {})->empty());
  EXPECT_EQ(store_->artifact(theirs, "art_1").error().code, Code::kNotFound);
  EXPECT_TRUE(store_->audit(theirs, 0, 100)->empty());
  const Scope own = Scope::of(principal("acme"));
  EXPECT_TRUE(store_->get(own, e.id));
  EXPECT_EQ(store_->list(own, {})->size(), 1U);
  EXPECT_EQ(store_->artifact(own, "art_1")->content_type, "image/png");
  EXPECT_EQ(store_->audit(own, 0, 100)->size(), 2U);
  EXPECT_EQ(store_->list(Scope::of(admin()), {})->size(), 1U);
}

TEST_P(StoreSuite, FindsTheWholeOfAnOutputAsAnArtifact) {
  model::Execution e = fullExecution(accept(*store_, queued()).value().execution);
  ASSERT_TRUE(update(*store_, e));
  const auto whole = store_->artifact(all_, "art_whole");
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->path, "stderr");
  EXPECT_EQ(whole->size, e.err.total);
  EXPECT_EQ(whole->sha256, e.provenance.stderr_sha256);
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

// Brings a fresh execution to `status` by the shortest way; nothing if there is none.
inline std::optional<model::Execution> at(Store& store, model::Status status) {
  NewExecution request = queued();
  if (status == model::Status::kDenied) request.execution.status = status;
  model::Execution e = accept(store, request).value().execution;
  if (e.status == status) return e;
  if (!model::mayBecome(e.status, status)) {
    if (!update(store, e, model::Status::kRunning)) return std::nullopt;
  }
  if (!update(store, e, status)) return std::nullopt;
  e.status = status;
  return e;
}

TEST_P(StoreSuite, MovesOnlyAlongTheStateMachine) {
  for (const model::Status from : kAllStatuses) {
    for (const model::Status to : kAllStatuses) {
      const auto e = at(*store_, from);
      ASSERT_TRUE(e) << model::statusName(from);
      const size_t before = auditAll().size();
      const auto moved = update(*store_, *e, to);
      const bool may = model::mayBecome(from, to);
      EXPECT_EQ(moved.has_value(), may) << model::statusName(from) << model::statusName(to);
      if (!moved) EXPECT_EQ(moved.error().code, Code::kConflict);
      EXPECT_EQ(store_->get(all_, e->id)->status, may ? to : from);
      EXPECT_EQ(auditAll().size(), before + (may ? 1 : 0));
    }
  }
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_P(StoreSuite, UpdateKeepsWhoAskedAndWhen) {
  model::Execution e = accept(*store_, queued("acme")).value().execution;
  model::Execution forged = e;
  forged.principal.tenant = "rival";
  forged.created_at = 1;
  forged.status = model::Status::kRunning;
  ASSERT_TRUE(update(*store_, forged));
  const auto read = store_->get(Scope::of(principal("acme")), e.id);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->principal.tenant, "acme");
  EXPECT_EQ(read->created_at, e.created_at);
  model::Execution unknown = e;
  unknown.id = base::newId("exec");
  EXPECT_EQ(update(*store_, unknown, model::Status::kRunning).error().code, Code::kNotFound);
}

TEST_P(StoreSuite, OnlyOneOfManyEndsWins) {
  model::Execution e = accept(*store_, queued()).value().execution;
  ASSERT_TRUE(update(*store_, e, model::Status::kRunning));
  std::atomic<int> won = 0;
  {
    std::vector<std::jthread> ends;
    for (const auto status : {model::Status::kCompleted, model::Status::kCancelled,
                              model::Status::kTimedOut, model::Status::kFailed}) {
      ends.emplace_back([&, status] { won += update(*store_, e, status) ? 1 : 0; });
    }
  }
  EXPECT_EQ(won, 1);
  EXPECT_EQ(auditAll().size(), 3U);
}

TEST_P(StoreSuite, ARefusedWriteDoesNotSpoilItsCompany) {
  const NewExecution taken = queued();
  ASSERT_TRUE(accept(*store_, taken));
  constexpr int kWrites = 60;
  std::latch all(kWrites);
  std::atomic<int> stored = 0;
  std::atomic<int> refused = 0;
  for (int i = 0; i < kWrites; ++i) {
    const NewExecution request = i % 3 == 0 ? taken : queued();
    store_->accept(request, testing::event("execution.accepted", request.execution),
                   [&](Result<Accepted> result) {
                     (result ? stored : refused) += 1;
                     all.count_down();
                   });
  }
  all.wait();
  EXPECT_EQ(stored, 40);
  EXPECT_EQ(refused, 20);
  EXPECT_EQ(auditAll().size(), 41U);
  EXPECT_TRUE(store_->health());
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_P(StoreSuite, ListsNewestFirstByFilterAndCursor) {
  for (int i = 0; i < 10; ++i) {
    NewExecution request = queued("acme", i % 2 == 0 ? "even" : "odd");
    if (i < 4) request.execution.session_id = "sess_1";
    const auto accepted = accept(*store_, request);
    ASSERT_TRUE(accepted);
    if (i >= 8) ASSERT_TRUE(update(*store_, accepted->execution, model::Status::kRunning));
  }
  const auto count = [&](std::optional<model::Status> status, const std::string& agent,
                         const std::string& session) {
    ListQuery query;
    query.status = status;
    query.agent = agent;
    query.session_id = session;
    return store_->list(all_, query)->size();
  };
  EXPECT_EQ(count(model::Status::kRunning, "", ""), 2U);
  EXPECT_EQ(count({}, "even", ""), 5U);
  EXPECT_EQ(count({}, "even", "sess_1"), 2U);
  EXPECT_EQ(count(model::Status::kRunning, "none", ""), 0U);
  std::vector<uint64_t> seen;
  ListQuery three;
  three.limit = 3;
  for (;;) {
    const auto page = store_->list(all_, three);
    if (page->empty()) break;
    for (const auto& e : *page)
      seen.push_back(e.seq);
    three.before_seq = page->back().seq;
  }
  EXPECT_EQ(seen, (std::vector<uint64_t>{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}));
}

TEST_P(StoreSuite, ListLeavesOutTheBytes) {
  ASSERT_TRUE(testing::finished(*store_, queued()));
  const auto page = store_->list(all_, {});
  ASSERT_EQ(page->size(), 1U);
  EXPECT_TRUE(page->front().out.bytes.empty());
  EXPECT_EQ(page->front().out.total, 3U);
}

TEST_P(StoreSuite, KnowsWhatHasNotEnded) {
  const NewExecution first = queued();
  const NewExecution second = queued();
  const NewExecution third = queued();
  for (const auto* request : {&first, &second, &third})
    ASSERT_TRUE(accept(*store_, *request));
  ASSERT_TRUE(update(*store_, first.execution, model::Status::kRunning));
  ASSERT_TRUE(update(*store_, second.execution, model::Status::kCancelled));
  NewExecution denied = queued();
  denied.execution.status = model::Status::kDenied;
  ASSERT_TRUE(accept(*store_, denied));
  const auto left = store_->unfinished();
  ASSERT_TRUE(left);
  ASSERT_EQ(left->size(), 2U);
  EXPECT_EQ((*left)[0].execution.id, first.execution.id);
  EXPECT_EQ((*left)[1].execution.id, third.execution.id);
  EXPECT_EQ((*left)[1].spec, third.spec);
  EXPECT_EQ((*left)[1].request_json, third.request_json);
}

TEST_P(StoreSuite, KeepsKeysByDigest) {
  const auto put = [&](const KeyRecord& key) {
    return await<void>([&](Done<void> done) {
      store_->putKey(
          key, {.action = "key.created", .subject = key.id, .principal = admin(), .details = {}},
          std::move(done));
    });
  };
  const auto revoke = [&](const Scope& scope, const std::string& id) {
    return await<void>([&](Done<void> done) {
      store_->revokeKey(
          scope, id, {.action = "key.revoked", .subject = id, .principal = admin(), .details = {}},
          std::move(done));
    });
  };
  const KeyRecord key{.id = "key_a",
                      .sha256 = std::string(64, '1'),
                      .name = "ci",
                      .principal = principal("acme"),
                      .created_at = 5,
                      .expires_at = 9,
                      .revoked_at = 0};
  ASSERT_TRUE(put(key));
  EXPECT_EQ(put(key).error().code, Code::kConflict);
  EXPECT_FALSE(store_->keyByHash(std::string(64, '2'))->has_value());
  const auto found = store_->keyByHash(key.sha256);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->principal.tenant, "acme");
  EXPECT_EQ((*found)->principal.key_id, "key_a");
  EXPECT_EQ((*found)->expires_at, 9);
  EXPECT_TRUE(store_->keys(Scope::of(principal("rival")))->empty());
  EXPECT_EQ(store_->keys(Scope::of(principal("acme")))->size(), 1U);
  EXPECT_EQ(revoke(Scope::of(principal("rival")), "key_a").error().code, Code::kNotFound);
  ASSERT_TRUE(revoke(all_, "key_a"));
  ASSERT_TRUE(revoke(all_, "key_a"));
  EXPECT_GT((*store_->keyByHash(key.sha256))->revoked_at, 0);
  EXPECT_EQ(auditAll().size(), 2U);
}

TEST_P(StoreSuite, ChainsEveryEntryToTheOneBefore) {
  for (int i = 0; i < 25; ++i)
    ASSERT_TRUE(testing::append(*store_, std::to_string(i), "acme"));
  std::string prev(64, '0');
  int64_t time = 0;
  uint64_t seq = 0;
  for (uint64_t after = 0; after < 25; after = seq) {
    for (const model::AuditEntry& entry : store_->audit(all_, after, 10).value()) {
      EXPECT_EQ(entry.seq, ++seq);
      EXPECT_EQ(entry.prev, prev);
      EXPECT_EQ(entry.hash, base::sha256Hex(model::canonicalForm(entry)));
      EXPECT_GE(entry.at, time);
      time = entry.at;
      prev = entry.hash;
    }
    ASSERT_GT(seq, after);
  }
  EXPECT_EQ(seq, 25U);
  const auto head = store_->head();
  ASSERT_TRUE(head && *head);
  EXPECT_EQ((*head)->seq, 25U);
  EXPECT_EQ((*head)->hash, prev);
}

TEST_P(StoreSuite, ArchivesByAge) {
  const model::Execution old = testing::finished(*store_, queued(), 1'000'000).value();
  const model::Execution fresh =
      testing::finished(*store_, queued(), INT64_C(4'000'000'000'000'000)).value();
  const auto done = testing::retain(*store_, {.archive_after_us = 1'000'000});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->archived, 1U);
  EXPECT_EQ(done->deleted, 0U);
  const auto archived = store_->get(all_, old.id);
  ASSERT_TRUE(archived);
  EXPECT_TRUE(archived->out.bytes.empty());
  EXPECT_TRUE(archived->out.truncated);
  EXPECT_EQ(archived->out.total, 3U);
  EXPECT_EQ(store_->get(all_, fresh.id)->out.bytes, "hi\n");
  EXPECT_EQ(auditAll().back().event.action, "ledger.retained");
  EXPECT_EQ(testing::retain(*store_, {.archive_after_us = 1'000'000})->archived, 0U);
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_P(StoreSuite, DeletesByAgeAndFreesBlobsNobodyNames) {
  model::Execution ids[2];
  for (int i = 0; i < 2; ++i) {
    model::Execution e = accept(*store_, queued()).value().execution;
    e.status = model::Status::kFailed;
    e.finished_at = i == 0 ? 1'000'000 : INT64_C(4'000'000'000'000'000);
    e.artifacts = {{.id = "art_shared" + std::to_string(i),
                    .path = "a",
                    .size = 1,
                    .content_type = "",
                    .sha256 = "shared"},
                   {.id = "art_own" + std::to_string(i),
                    .path = "b",
                    .size = 1,
                    .content_type = "",
                    .sha256 = "own" + std::to_string(i)}};
    ASSERT_TRUE(update(*store_, e));
    ids[i] = e;
  }
  const auto done = testing::retain(*store_, {.delete_after_us = 1'000'000});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->deleted, 1U);
  EXPECT_EQ(done->blobs, std::vector<std::string>{"own0"});
  EXPECT_EQ(store_->get(all_, ids[0].id).error().code, Code::kNotFound);
  EXPECT_EQ(store_->artifact(all_, "art_own0").error().code, Code::kNotFound);
  EXPECT_TRUE(store_->artifact(all_, "art_own1"));
}

TEST_P(StoreSuite, KeepsAtMostSoManyAndNoneThatRuns) {
  const NewExecution running = queued();
  ASSERT_TRUE(accept(*store_, running));
  std::vector<std::string> ids;
  for (int i = 0; i < 6; ++i) {
    ids.push_back(testing::finished(*store_, queued(), 1'000 + i).value().id);
  }
  EXPECT_EQ(testing::retain(*store_, {.keep_at_most = 4})->deleted, 2U);
  EXPECT_EQ(testing::retain(*store_, {.keep_at_most = 4})->deleted, 0U);
  EXPECT_FALSE(store_->get(all_, ids[1]));
  EXPECT_TRUE(store_->get(all_, ids[2]));
  EXPECT_TRUE(store_->get(all_, running.execution.id));
  EXPECT_EQ(testing::retain(*store_, {})->deleted, 0U);
}

TEST_P(StoreSuite, ADeletedRecordFreesItsIdempotencyKey) {
  NewExecution request = queued();
  request.idempotency_key = "k";
  ASSERT_TRUE(testing::finished(*store_, request, 1'000));
  ASSERT_EQ(testing::retain(*store_, {.delete_after_us = 1})->deleted, 1U);
  NewExecution again = queued();
  again.idempotency_key = "k";
  EXPECT_FALSE(accept(*store_, again)->replayed);
}

TEST_P(StoreSuite, ManyWritersAndReadersAtOnce) {
  constexpr int kWriters = 8;
  constexpr int kRuns = 20;
  std::atomic<bool> writing = true;
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([&] {
        while (writing) {
          failed += store_->list(all_, {}) && store_->audit(all_, 0, 50) ? 0 : 1;
        }
      });
    }
    {
      std::vector<std::jthread> writers;
      for (int i = 0; i < kWriters; ++i) {
        writers.emplace_back([&] {
          for (int run = 0; run < kRuns; ++run) {
            failed += testing::finished(*store_, queued()) ? 0 : 1;
          }
        });
      }
    }
    writing = false;
  }
  EXPECT_EQ(failed, 0);
  ListQuery many;
  many.limit = 500;
  EXPECT_EQ(store_->list(all_, many)->size(), size_t{kWriters * kRuns});
  EXPECT_TRUE(store_->unfinished()->empty());
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

}  // namespace cloister::store
