// SPDX-License-Identifier: Apache-2.0
// Part of store_suite.h: the audit log, keys, retention.
#pragma once

#include <string>
#include <vector>

#include "store/rows/keys.h"
#include "store/rows/sealed.h"
#include "store/suite/fixture.h"

namespace cloister::store {

TEST_P(StoreSuite, BytesThatAreNoTextDoNotMakeAnAuditRowUnreadable) {
  ASSERT_TRUE(commit(*store_, appendEvent,
                     {.action = "a\xff",
                      .subject = "s\xc3",
                      .principal = principal("acme"),
                      .details = {{"n\xff", base::json::array{"\xed\xa0\x80", 1.5}}}}));
  const auto entries = auditAll();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].event.action, "a\xef\xbf\xbd");
  EXPECT_EQ(base::sha256Hex(model::canonicalForm(entries[0])), entries[0].hash);
}

TEST_P(StoreSuite, KeepsKeysByDigest) {
  const auto put = [&](const KeyRecord& key) {
    return commit(
        *store_, putKey, key,
        {.action = "key.created", .subject = key.id, .principal = admin(), .details = {}});
  };
  const auto revoke = [&](const Scope& scope, const std::string& id) {
    return commit(*store_, revokeKey, scope, id,
                  {.action = "key.revoked", .subject = id, .principal = admin(), .details = {}});
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
  EXPECT_EQ(store_->key(Scope::of(principal("rival")), "key_a").error().code, Code::kNotFound);
  EXPECT_EQ(store_->key(Scope::of(principal("acme")), "key_a")->name, "ci");
  ASSERT_TRUE(revoke(all_, "key_a"));
  ASSERT_TRUE(revoke(all_, "key_a"));
  EXPECT_GT((*store_->keyByHash(key.sha256))->revoked_at, 0);
  EXPECT_EQ(auditAll().size(), 2U);
}

// Ten entries of two tenants, agents and keys.
inline void appendForSearch(Store& store) {
  for (int i = 0; i < 10; ++i) {
    model::AuditEvent event{.action = i % 2 == 0 ? "escalation.approved" : "execution.started",
                            .subject = "s" + std::to_string(i),
                            .principal = testing::principal(i < 8 ? "acme" : "rival"),
                            .details = {{"execution_id", "exec_" + std::to_string(i / 2)}}};
    event.principal.user = i < 5 ? "ann" : "ben";
    event.principal.key_id = "key_" + std::to_string(i);
    event.principal.agent = i % 3 == 0 ? "bot" : "";
    ASSERT_TRUE(testing::commit(store, appendEvent, event));
  }
}

// Entries' numbers for readers of `scope`.
inline std::vector<uint64_t> numbersOf(const Scope& scope,
                                       const std::vector<model::AuditEntry>& entries) {
  std::vector<uint64_t> out;
  for (const model::AuditEntry& entry : entries)
    out.push_back(numberFor(scope, entry));
  return out;
}

TEST_P(StoreSuite, SearchesTheAuditLog) {
  using ::testing::ElementsAre;
  appendForSearch(*store_);
  const auto found = [&](const AuditSearch& search) {
    return numbersOf(all_, store_->searchAudit(all_, search).value().entries);
  };
  EXPECT_THAT(found({.newest_first = true, .limit = 3}), ElementsAre(10, 9, 8));
  EXPECT_THAT(found({.after = 8}), ElementsAre(9, 10));
  EXPECT_THAT(found({.before = 3, .newest_first = true}), ElementsAre(2, 1));
  EXPECT_THAT(found({.action = "escalation.approved"}), ElementsAre(1, 3, 5, 7, 9));
  EXPECT_THAT(found({.action = "execution.*", .by = "ann"}), ElementsAre(2, 4));
  EXPECT_THAT(found({.by = "key_6"}), ElementsAre(7));
  EXPECT_THAT(found({.agent = "bot"}), ElementsAre(1, 4, 7, 10));
  EXPECT_THAT(found({.subject = "s4"}), ElementsAre(5));
  EXPECT_THAT(found({.execution = "exec_4"}), ElementsAre(9, 10));
  const int64_t at = store_->audit(all_, 4, 1)->front().at;
  for (const uint64_t each : found({.since = at}))
    EXPECT_GE(store_->audit(all_, each - 1, 1)->front().at, at);
  EXPECT_TRUE(found({.until = store_->audit(all_, 0, 1)->front().at}).empty());
  const Scope rival = Scope::of(principal("rival"));
  EXPECT_THAT(numbersOf(rival, store_->searchAudit(rival, {}).value().entries), ElementsAre(1, 2));
}

// Gaps would reveal the other tenants' activity to a tenant.
TEST_P(StoreSuite, NumbersEachTenantsEntriesApart) {
  using ::testing::ElementsAre;
  for (const char* tenant : {"rival", "acme", "acme", "acme", "rival", "acme", "rival"})
    ASSERT_TRUE(testing::append(*store_, "s", tenant));
  const auto all = auditAll();
  std::vector<uint64_t> seqs;
  std::vector<uint64_t> positions;
  for (const model::AuditEntry& entry : all) {
    seqs.push_back(entry.seq);
    positions.push_back(entry.position);
    EXPECT_EQ(entry.hash, base::sha256Hex(model::canonicalForm(entry)));
  }
  EXPECT_THAT(seqs, ElementsAre(1, 1, 2, 3, 2, 4, 3));
  EXPECT_THAT(positions, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  const Scope rival = Scope::of(principal("rival"));
  EXPECT_THAT(numbersOf(rival, store_->audit(rival, 0, 10).value()), ElementsAre(1, 2, 3));
  EXPECT_THAT(numbersOf(rival, store_->audit(rival, 1, 1).value()), ElementsAre(2));
  const auto found = [&](const AuditSearch& search) {
    return numbersOf(rival, store_->searchAudit(rival, search).value().entries);
  };
  EXPECT_THAT(found({.after = 2}), ElementsAre(3));
  EXPECT_THAT(found({.before = 3, .newest_first = true}), ElementsAre(2, 1));
  EXPECT_EQ(store_->searchAudit(rival, {.limit = 2})->next, 2U);
  EXPECT_EQ(store_->searchAudit(rival, {.newest_first = true, .limit = 2})->next, 2U);
  EXPECT_EQ(store_->searchAudit(all_, {.limit = 2})->next, 2U);
}

// A failed write leaves no gap.
TEST_P(StoreSuite, ARefusedWriteTakesNoNumber) {
  const KeyRecord key{.id = "key_a",
                      .sha256 = std::string(64, '1'),
                      .name = "ci",
                      .principal = principal("rival"),
                      .created_at = 5,
                      .expires_at = 0,
                      .revoked_at = 0};
  const auto put = [&] {
    return commit(*store_, putKey, key,
                  {.action = "key.created",
                   .subject = key.id,
                   .principal = principal("rival"),
                   .details = {}});
  };
  ASSERT_TRUE(put());
  EXPECT_EQ(put().error().code, Code::kConflict);
  ASSERT_TRUE(testing::append(*store_, "s", "rival"));
  const Scope rival = Scope::of(principal("rival"));
  EXPECT_THAT(numbersOf(rival, store_->audit(rival, 0, 10).value()), ::testing::ElementsAre(1, 2));
}

TEST_P(StoreSuite, GivesTheAuditLogPageByPage) {
  appendForSearch(*store_);
  AuditSearch search{.newest_first = true, .action = "escalation.*", .limit = 2};
  std::vector<uint64_t> seen;
  for (int pages = 0; pages < 4; ++pages) {
    const auto page = store_->searchAudit(all_, search);
    for (const uint64_t each : numbersOf(all_, page.value().entries))
      seen.push_back(each);
    if (!page->next) break;
    search.before = *page->next;
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(9, 7, 5, 3, 1));
}

TEST_P(StoreSuite, ChainsEveryEntryToTheOneBefore) {
  for (int i = 0; i < 25; ++i)
    ASSERT_TRUE(testing::append(*store_, std::to_string(i), "acme"));
  std::string prev(64, '0');
  int64_t time = 0;
  uint64_t seq = 0;
  for (uint64_t after = 0; after < 25; after = seq) {
    for (const model::AuditEntry& entry : store_->audit(all_, after, 10).value()) {
      EXPECT_EQ(entry.position, ++seq);
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
  EXPECT_EQ(store_->request(all_, old.id).error().message,
            "the request of " + old.id + " is not kept any more");
  EXPECT_TRUE(store_->request(all_, fresh.id));
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
  EXPECT_EQ(done->blobs, (std::vector<model::BlobName>{{"acme", "own0"}}));
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

}  // namespace cloister::store
