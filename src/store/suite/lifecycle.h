// SPDX-License-Identifier: Apache-2.0
// Part of store_suite.h: states, lists, writers and readers at once.
#pragma once

#include <array>
#include <atomic>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "store/rows/executions.h"
#include "store/suite/fixture.h"

namespace cloister::store {

inline constexpr std::array kAllStatuses = {
    model::Status::kQueued,    model::Status::kRunning, model::Status::kBlocked,
    model::Status::kCompleted, model::Status::kFailed,  model::Status::kTimedOut,
    model::Status::kCancelled, model::Status::kDenied,
};

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
    store_->write(
        writing(acceptExecution, request, testing::event("execution.accepted", request.execution)),
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
