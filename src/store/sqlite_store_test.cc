// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <semaphore>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "store/rows/artifacts.h"
#include "store/rows/executions.h"
#include "store/rows/sealed.h"
#include "store/rows/snapshots.h"
#include "store/sql/checkpoint_file.h"
#include "store/sql/engine.h"
#include "store/sql/raw_testing.h"
#include "store/store_suite.h"

namespace cloister::store {
namespace {

using testing::TempDir;

std::shared_ptr<const base::SigningKey> testKey() {
  static const auto key = std::make_shared<const base::SigningKey>(base::SigningKey::generate());
  return key;
}

SqliteOptions optionsIn(const TempDir& dir) {
  SqliteOptions options;
  options.path = dir.file("ledger.db");
  options.audit_key = testKey();
  options.checkpoint_file = dir.file("audit.checkpoints");
  return options;
}

StoreFactory factory(Durability durability) {
  return [durability]() -> std::shared_ptr<Store> {
    auto dir = std::make_shared<TempDir>();
    SqliteOptions options = optionsIn(*dir);
    options.durability = durability;
    return {openSqlite(options).value().release(), [dir](Store* raw) { delete raw; }};
  };
}

// Encrypted like the service's ledger.
std::shared_ptr<Store> openEncrypted() {
  auto dir = std::make_shared<TempDir>();
  SqliteOptions options = optionsIn(*dir);
  options.cipher = testing::cipherIn(*dir);
  return {openSqlite(options).value().release(), [dir](Store* raw) { delete raw; }};
}

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreSuite,
                         ::testing::Values(factory(Durability::kProcess),
                                           factory(Durability::kPower), openEncrypted),
                         [](const auto& param) {
                           return param.index == 0   ? "Process"
                                  : param.index == 1 ? "Power"
                                                     : "Encrypted";
                         });

// Runs SQL on the file behind the ledger's back.
void runSql(const std::string& path, const std::string& sql) {
  testing::RawFile(path).run(sql);
}

// Takes a ledger back to before its tenants had numbers of their own.
std::string withoutNumbers() {
  return "DROP TABLE audit_roots; DROP TABLE ui_sessions; DROP TABLE documents; DROP TABLE layers;"
         "DROP TABLE bills; DROP TABLE secrets;"
         "ALTER TABLE api_keys DROP COLUMN given_expires_at;"
         "DROP INDEX sessions_by_name; ALTER TABLE sessions DROP COLUMN name;"
         "DROP TABLE escalation_workspaces;"
         "DROP INDEX audit_by_number; ALTER TABLE audit DROP COLUMN number;"
         "CREATE INDEX audit_by_tenant ON audit(tenant, seq);";
}

// Takes a ledger back to the schema before encryption, and removes later tables.
std::string withoutEncryption() {
  std::string sql =
      withoutNumbers() +
      "DROP TABLE escalation_requests; DROP TABLE session_memory; DROP TABLE encryption;";
  for (const std::string table : {"executions", "requests", "specs", "outputs", "sessions",
                                  "violations", "escalations", "audit_sealed"}) {
    sql += "DROP INDEX " + table + "_plain; ALTER TABLE " + table + " DROP COLUMN encrypted;";
  }
  return sql;
}

TEST(SqliteStore, FindsAnImageDigestThatNoEntryBinds) {
  const TempDir dir;
  auto store = openSqlite(optionsIn(dir)).value();
  const std::string id = images::unverified(*store, "acme", "p");
  images::bind(*store, "p", 0);
  EXPECT_TRUE(store->mismatches(0, 10)->empty());
  runSql(dir.file("ledger.db"), "UPDATE image_bindings SET digest='sha256:' || hex(zeroblob(32))");
  const auto wrong = store->mismatches(0, 10);
  ASSERT_EQ(wrong->size(), 1U);
  EXPECT_THAT(wrong->front().problem, ::testing::HasSubstr("image digest"));
  EXPECT_EQ(store->recorded(Scope::of(testing::admin()), id).error().code, Code::kConflict);
}

TEST(SqliteStore, KeepsWhatItHeldWhenOpenedAgain) {
  const TempDir dir;
  NewExecution request = queued();
  request.idempotency_key = "k";
  {
    const auto store = openSqlite(optionsIn(dir)).value();
    ASSERT_TRUE(testing::finished(*store, request));
    ASSERT_TRUE(testing::append(*store, "x", "acme"));
  }
  const auto store = openSqlite(optionsIn(dir)).value();
  EXPECT_EQ(store->get(Scope::allTenants(), request.execution.id)->out.bytes, "hi\n");
  EXPECT_TRUE(accept(*store, request)->replayed);
  ASSERT_TRUE(testing::append(*store, "y", "acme"));
  const auto entries = store->audit(Scope::allTenants(), 0, 100).value();
  ASSERT_EQ(entries.size(), 5U);
  EXPECT_EQ(entries[4].prev, entries[3].hash);
}

TEST(SqliteStore, FilesAreTheOwnersAlone) {
  const TempDir dir;
  const auto store = openSqlite(optionsIn(dir)).value();
  ASSERT_TRUE(testing::append(*store, "x", "acme"));
  for (const char* name : {"ledger.db", "ledger.db-wal", "ledger.db-shm"}) {
    struct stat info{};
    ASSERT_EQ(::stat(dir.file(name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600U) << name;
  }
}

TEST(SqliteStore, IsOpenInOneProcessOnly) {
  const TempDir dir;
  const auto store = openSqlite(optionsIn(dir)).value();
  const auto second = openSqlite(optionsIn(dir));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kConflict);
}

TEST(SqliteStore, RefusesANewerSchema) {
  const TempDir dir;
  {
    const auto store = openSqlite(optionsIn(dir)).value();
  }
  runSql(dir.file("ledger.db"), "PRAGMA user_version=99");
  const auto store = openSqlite(optionsIn(dir));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kUnsupported);
  EXPECT_THAT(store.error().message, ::testing::HasSubstr("schema 99 is newer"));
}

// A ledger of schema 1 with an artifact, as written by the first version.
TEST(SqliteStore, TakesArtifactsOfTheFirstSchemaOver) {
  const TempDir dir;
  model::Execution e = testing::queued().execution;
  {
    const auto store = openSqlite(optionsIn(dir)).value();
    e = testing::finished(*store, testing::queued()).value();
  }
  runSql(
      dir.file("ledger.db"),
      withoutEncryption() +
          "DROP TABLE image_bindings; DROP TABLE snapshot_chunks; DROP TABLE chunks; DROP TABLE "
          "snapshots;"
          "DROP TABLE artifacts; DROP TABLE artifact_usage; DROP TABLE freed_blobs; DROP TABLE "
          "sessions; DROP TABLE api_keys; DROP TABLE escalations; DROP TABLE escalation_numbers;"
          "DROP TABLE escalation_policies; DROP TABLE notifications;"
          "DROP TABLE agent_sandboxes; DROP TABLE violations;"
          "DROP INDEX audit_by_agent; DROP INDEX audit_about_agents; DROP INDEX "
          "audit_of_escalations;"
          "DROP TABLE policies; DROP TABLE quotas; DROP TABLE audit_sealed;"
          "CREATE TABLE api_keys(id TEXT PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, name TEXT NOT "
          "NULL,"
          " tenant TEXT NOT NULL, app TEXT NOT NULL, agent TEXT NOT NULL, user TEXT NOT NULL,"
          " admin INTEGER NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL,"
          " revoked_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
          "INSERT INTO api_keys VALUES ('key_1', '11', 'ci', 'acme', '', '', '', 0, 1, 0, 0),"
          " ('key_2', '22', 'ops', 'ops', '', '', '', 1, 2, 0, 0);"
          "CREATE TABLE artifacts(id TEXT PRIMARY KEY, execution INTEGER NOT NULL REFERENCES"
          " executions(seq) ON DELETE CASCADE, sha256 TEXT NOT NULL) STRICT, WITHOUT ROWID;"
          "CREATE INDEX artifacts_by_execution ON artifacts(execution);"
          "CREATE INDEX artifacts_by_sha256 ON artifacts(sha256);"
          "UPDATE executions SET record=json_set(record, '$.artifacts', json('[{\"id\":\"art_1\","
          "\"path\":\"a.txt\",\"size\":7,\"content_type\":\"text/plain\",\"sha256\":\"d\"}]'));"
          "INSERT INTO artifacts VALUES ('art_1', 1, 'd'), ('art_2', 1, 'whole');"
          "PRAGMA user_version=1");
  const auto store = openSqlite(optionsIn(dir));
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_FALSE((*store)->keyByHash("11")->value().principal.isAdmin());
  EXPECT_TRUE((*store)->keyByHash("22")->value().principal.isAdmin());
  const auto artifact = (*store)->artifact(Scope::of(testing::principal("acme")), "art_1");
  ASSERT_TRUE(artifact) << artifact.error().message;
  EXPECT_EQ(artifact->ref.path, "a.txt");
  EXPECT_EQ(artifact->ref.size, 7U);
  EXPECT_EQ(artifact->execution_id, e.id);
  EXPECT_TRUE((*store)->artifact(Scope::allTenants(), "art_2"));
  EXPECT_EQ((*store)->artifactUsage("acme")->artifacts, 2U);
  EXPECT_EQ((*store)->artifactUsage("acme")->bytes, 7U);
}

// A ledger from before escalations were held to the audit log.
TEST(SqliteStore, LooksUpTheAuditRowsOfOlderEscalations) {
  const TempDir dir;
  {
    const auto store = openSqlite(optionsIn(dir)).value();
    for (const std::string tenant : {"acme", "other", "acme"}) {
      NewEscalation asked = wanted(tenant);
      asked.event.details["of_tenant"] = tenant;
      ASSERT_TRUE(add(*store, asked));
    }
    const auto first =
        store->escalations().get(Scope::of(testing::principal("acme")), "ESC-2026-001");
    EscalationChange approve = to(*first, model::EscalationStatus::kApproved);
    approve.apply = [was = approve.apply](model::Escalation& now) -> Result<model::AuditEvent> {
      model::AuditEvent event = TRY(was(now));
      event.action = "escalation.approved";
      event.details["of_tenant"] = "acme";
      return event;
    };
    ASSERT_TRUE(change(*store, approve));
  }
  runSql(dir.file("ledger.db"),
         withoutEncryption() +
             "DROP TABLE image_bindings; DROP TABLE quotas; DROP TABLE audit_sealed;"
             "DROP INDEX audit_of_escalations;"
             "DROP INDEX artifacts_by_agent; ALTER TABLE artifacts DROP COLUMN agent;"
             "ALTER TABLE artifacts DROP COLUMN full_size;"
             "ALTER TABLE escalations DROP COLUMN created_row;"
             "ALTER TABLE escalations DROP COLUMN state_row;"
             "PRAGMA user_version=8");
  const auto store = openSqlite(optionsIn(dir)).value();
  const auto wrong = store->escalations().mismatches(0, 10);
  ASSERT_TRUE(wrong) << wrong.error().message;
  EXPECT_TRUE(wrong->empty()) << wrong->front().id << ": " << wrong->front().problem;
}

// A ledger from before sessions had a memory.
TEST(SqliteStore, SessionsOfAnOlderLedgerGetAMemory) {
  const TempDir dir;
  std::string session;
  {
    const auto store = openSqlite(optionsIn(dir)).value();
    session = memory::running(*store);
  }
  runSql(dir.file("ledger.db"),
         withoutNumbers() +
             "DROP INDEX artifacts_by_agent; ALTER TABLE artifacts DROP COLUMN agent;"
             "ALTER TABLE artifacts DROP COLUMN full_size;"
             "DROP TABLE escalation_requests; DROP TABLE session_memory;"
             "PRAGMA user_version=13");
  const auto store = openSqlite(optionsIn(dir)).value();
  const auto kept = memory::put(*store, session, "k", "1");
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(memory::get(*store, session, "k"), "1");
}

// A ledger from before artifacts and snapshots had an agent.
TEST(SqliteStore, FindsWhoMadeTheArtifactsOfAnOlderLedger) {
  const TempDir dir;
  {
    const auto store = openSqlite(optionsIn(dir)).value();
    model::Execution e = accept(*store, queued("acme", "alice")).value().execution;
    e.status = model::Status::kRunning;
    ASSERT_TRUE(update(*store, e));
    e.status = model::Status::kCompleted;
    e.artifacts = {
        {.id = "art_run", .path = "f", .size = 1, .content_type = "text/plain", .sha256 = "r"}};
    ASSERT_TRUE(update(*store, e));
    NewSession session = newSession("acme", "bob");
    session.session.id = "ses_bobs";
    ASSERT_TRUE(create(*store, session));
    const auto noted = [&](const char* action, const char* id, const char* agent) {
      return model::AuditEvent{
          .action = action, .subject = id, .principal = principal("acme", agent), .details = {}};
    };
    ASSERT_TRUE(commit(*store, addArtifact, upload("art_up"), kRoom,
                       noted("artifact.created", "art_up", "carol")));
    for (const auto& [id, of] : {std::pair("snap_1", "ses_bobs"), std::pair("snap_2", "ses_x")}) {
      NewSnapshot made = snapshotOf(id, {});
      made.snapshot.session_id = of;
      ASSERT_TRUE(
          commit(*store, addSnapshot, made, kSnapshotRoom, noted("snapshot.created", id, "dave")));
    }
  }
  runSql(dir.file("ledger.db"),
         withoutNumbers() +
             "DROP INDEX artifacts_by_agent; ALTER TABLE artifacts DROP COLUMN agent;"
             "PRAGMA user_version=16");
  const auto store = openSqlite(optionsIn(dir)).value();
  EXPECT_EQ(store->artifact(Scope::allTenants(), "art_run")->agent, "alice");
  EXPECT_EQ(store->artifact(Scope::allTenants(), "art_up")->agent, "carol");
  EXPECT_EQ(store->snapshot(Scope::allTenants(), "snap_1")->agent, "bob") << "its session's";
  EXPECT_EQ(store->snapshot(Scope::allTenants(), "snap_2")->agent, "dave") << "who took it";
  EXPECT_EQ(store->artifacts(Scope::of(principal("acme", "carol")), {})->size(), 1U);
}

TEST(SqliteStore, RefusesAFileThatIsNotItsOwn) {
  const TempDir dir;
  runSql(dir.file("ledger.db"), "CREATE TABLE theirs(x)");
  EXPECT_EQ(openSqlite(optionsIn(dir)).error().code, Code::kInvalid);
  const TempDir other;
  ASSERT_TRUE(base::writeFileAtomic(other.file("ledger.db"), std::string(8192, 'x'), 0600));
  EXPECT_EQ(openSqlite(optionsIn(other)).error().code, Code::kInternal);
}

TEST(SqliteStore, TheAuditTableCannotBeChangedBySql) {
  const TempDir dir;
  const auto store = openSqlite(optionsIn(dir)).value();
  ASSERT_TRUE(testing::append(*store, "x", "acme"));
  testing::RawFile file(dir.file("ledger.db"));
  for (const char* sql : {"UPDATE audit SET at=1", "DELETE FROM audit"})
    EXPECT_TRUE(file.refuses(sql)) << sql;
}

TEST(SqliteStore, RefusesMoreThanItsQueueHolds) {
  const TempDir dir;
  SqliteOptions options = optionsIn(dir);
  options.queue = 2;
  const auto store = openSqlite(options).value();
  std::binary_semaphore writer_is_held{0};
  std::binary_semaphore let_go{0};
  const model::AuditEvent event{
      .action = "a", .subject = "s", .principal = principal("acme"), .details = {}};
  store->write(writing(appendEvent, event), [&](const Result<>&) {
    writer_is_held.release();
    let_go.acquire();
  });
  writer_is_held.acquire();
  std::latch queued_ones(2);
  for (int i = 0; i < 2; ++i) {
    store->write(writing(appendEvent, event), [&](const Result<>& result) {
      EXPECT_TRUE(result);
      queued_ones.count_down();
    });
  }
  const auto refused = commit(*store, appendEvent, event);
  EXPECT_EQ(refused.error().code, Code::kQuota);
  let_go.release();
  queued_ones.wait();
  EXPECT_TRUE(testing::append(*store, "after", "acme"));
}

TEST(SqliteStore, RefusesMoreBytesThanItsQueueHolds) {
  const TempDir dir;
  SqliteOptions options = optionsIn(dir);
  options.queue_bytes = 10'000;
  const auto store = openSqlite(options).value();
  std::binary_semaphore writer_is_held{0};
  std::binary_semaphore let_go{0};
  store->write(
      writing(appendEvent,
              {.action = "a", .subject = "s", .principal = principal("acme"), .details = {}}),
      [&](const Result<>&) {
        writer_is_held.release();
        let_go.acquire();
      });
  writer_is_held.acquire();
  NewExecution large = queued();
  large.spec = std::string(20'000, 's');  // accepted in an empty queue, however large
  std::latch stored(1);
  store->write(
      writing(acceptExecution, large, testing::event("execution.accepted", large.execution)),
      [&](const Result<Accepted>& result) {
        EXPECT_TRUE(result);
        stored.count_down();
      });
  EXPECT_EQ(accept(*store, queued()).error().code, Code::kQuota);
  let_go.release();
  stored.wait();
  EXPECT_TRUE(accept(*store, queued()));
}

TEST(SqliteStore, WhatRetentionRemovesIsGoneFromTheFiles) {
  const TempDir dir;
  const std::string secret = "correct horse battery staple";
  const auto held = [&] {
    for (const char* name : {"ledger.db", "ledger.db-wal"}) {
      const auto bytes = base::readFile(dir.file(name));
      if (bytes && bytes->find(secret) != std::string::npos) return true;
    }
    return false;
  };
  NewExecution request = queued();
  request.request_json = "{\"code\":\"" + secret + "\"}";
  request.spec = secret;
  {
    const auto store = openSqlite(optionsIn(dir)).value();
    model::Execution e = testing::finished(*store, request, 1'000).value();
    EXPECT_TRUE(held());
    ASSERT_EQ(testing::retain(*store, {.archive_after_us = 1})->archived, 1U);
  }
  EXPECT_FALSE(held());
}

TEST(SqliteStore, DestructionWritesWhatIsQueued) {
  const TempDir dir;
  std::atomic<int> done = 0;
  {
    const auto store = openSqlite(optionsIn(dir)).value();
    for (int i = 0; i < 500; ++i) {
      store->write(
          writing(appendEvent,
                  {.action = "a", .subject = "s", .principal = principal("acme"), .details = {}}),
          [&](const Result<>& result) { done += result ? 1 : 0; });
    }
  }
  EXPECT_EQ(done, 500);
  const auto store = openSqlite(optionsIn(dir)).value();
  EXPECT_EQ(store->audit(Scope::allTenants(), 0, 1000)->size(), 500U);
}

// fdatasync under the test's control.
class Disk {
 public:
  SyncFunction function() {
    return [this](int fd) {
      ++syncs;
      if (hold) {
        reached.release();
        let_go.acquire();
      }
      errno = error;
      return error != 0 ? -1 : ::fdatasync(fd);
    };
  }
  std::atomic<int> syncs = 0;
  std::atomic<bool> hold = false;
  std::atomic<int> error = 0;
  std::counting_semaphore<> reached{0};
  std::counting_semaphore<> let_go{0};
};

SqliteOptions powerOptions(const TempDir& dir) {
  SqliteOptions options = optionsIn(dir);
  options.durability = Durability::kPower;
  options.checkpoint_file.clear();
  return options;
}

TEST(SqlitePower, AcknowledgesBehindTheSyncWhileCommitsGoOn) {
  const TempDir dir;
  Disk disk;
  const auto store = openSqliteWith(powerOptions(dir), disk.function()).value();
  disk.hold = true;
  const NewExecution first = queued();
  std::atomic<bool> first_done = false;
  store->write(
      writing(acceptExecution, first, testing::event("execution.accepted", first.execution)),
      [&](const Result<Accepted>& result) { first_done = result.has_value(); });
  disk.reached.acquire();
  // The sync is under way: the second commit does not wait for the sync (only its acknowledgement
  // does).
  const NewExecution second = queued();
  std::latch second_done(1);
  store->write(
      writing(acceptExecution, second, testing::event("execution.accepted", second.execution)),
      [&](const Result<Accepted>& result) {
        EXPECT_TRUE(result);
        second_done.count_down();
      });
  testing::RawFile file(dir.file("ledger.db"));
  const auto stored = [&] { return file.column("SELECT seq FROM executions").size(); };
  while (stored() < 2)
    std::this_thread::yield();
  EXPECT_FALSE(first_done);
  EXPECT_FALSE(second_done.try_wait());
  disk.hold = false;
  disk.let_go.release(2);
  second_done.wait();
  EXPECT_TRUE(first_done);
}

TEST(SqlitePower, ShowsNothingThatIsNotSynced) {
  const TempDir dir;
  Disk disk;
  const auto store = openSqliteWith(powerOptions(dir), disk.function()).value();
  disk.hold = true;
  const NewExecution request = queued();
  std::latch acknowledged(1);
  store->write(
      writing(acceptExecution, request, testing::event("execution.accepted", request.execution)),
      [&](const Result<Accepted>&) { acknowledged.count_down(); });
  disk.reached.acquire();
  std::atomic<bool> shown = false;
  std::jthread reader([&] {
    EXPECT_TRUE(store->get(Scope::allTenants(), request.execution.id));
    shown = true;
  });
  // Another execution does not wait.
  EXPECT_EQ(store->get(Scope::allTenants(), "exec_other").error().code, Code::kNotFound);
  EXPECT_FALSE(shown);
  disk.hold = false;
  disk.let_go.release(2);
  acknowledged.wait();
  reader.join();
  EXPECT_TRUE(shown);
}

TEST(SqlitePower, NoSuccessAfterAFailedSync) {
  const TempDir dir;
  NewExecution before = queued();
  {
    Disk disk;
    const auto store = openSqliteWith(powerOptions(dir), disk.function()).value();
    ASSERT_TRUE(accept(*store, before));
    disk.error = EIO;
    EXPECT_FALSE(accept(*store, queued()));
    disk.error = 0;  // the disk reports success again, but the pages are lost
    const auto later = accept(*store, queued());
    ASSERT_FALSE(later);
    EXPECT_THAT(later.error().message, ::testing::HasSubstr("must be reopened"));
    EXPECT_FALSE(store->health());
  }
  const auto store = openSqlite(powerOptions(dir)).value();
  EXPECT_TRUE(store->health());
  EXPECT_TRUE(accept(*store, queued()));
  EXPECT_TRUE(store->get(Scope::allTenants(), before.execution.id));
  EXPECT_TRUE(store->mismatches(0, 10)->empty());
}

TEST(SqlitePower, SyncsOnceForManyWrites) {
  const TempDir dir;
  Disk disk;
  const auto store = openSqliteWith(powerOptions(dir), disk.function()).value();
  constexpr int kWrites = 1000;
  std::latch all(kWrites);
  for (int i = 0; i < kWrites; ++i) {
    store->write(
        writing(appendEvent,
                {.action = "a", .subject = "s", .principal = principal("acme"), .details = {}}),
        [&](const Result<>&) { all.count_down(); });
  }
  all.wait();
  EXPECT_GE(disk.syncs, 1);
  EXPECT_LT(disk.syncs, kWrites / 4);
}

TEST(SqliteStore, PutsCheckpointsIntoTheFile) {
  const TempDir dir;
  SqliteOptions options = optionsIn(dir);
  options.checkpoint_every = 10;
  options.batch = 1;
  {
    const auto store = openSqlite(options).value();
    // Wait for the first checkpoint: later due checkpoints would be merged into the first.
    for (int i = 0; i < 10; ++i)
      ASSERT_TRUE(testing::append(*store, "x", "acme"));
    const auto made = [&] { return readCheckpoints(options.checkpoint_file); };
    while (!made() || made()->empty())
      std::this_thread::yield();
    for (int i = 10; i < 35; ++i)
      ASSERT_TRUE(testing::append(*store, "x", "acme"));
  }
  const auto lines = readCheckpoints(options.checkpoint_file).value();
  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(lines.back().seq, 35U);
  for (const Checkpoint& line : lines) {
    EXPECT_TRUE(testKey()->verifyKey().verify(checkpointText(line),
                                              base::fromBase64(line.signature).value()));
  }
  {
    const auto store = openSqlite(options).value();
  }
  EXPECT_EQ(readCheckpoints(options.checkpoint_file)->size(), lines.size());
}

TEST(CheckpointFile, DropsAnUnfinishedLine) {
  const TempDir dir;
  const std::string path = dir.file("c");
  EXPECT_TRUE(readCheckpoints(path)->empty());
  const Checkpoint one{.seq = 1, .hash = "a", .at = 2, .key_id = "k", .signature = "s"};
  ASSERT_TRUE(appendCheckpoint(path, one));
  const std::string whole = base::readFile(path).value();
  ASSERT_TRUE(base::writeFileAtomic(path, whole + whole.substr(0, 20), 0600));
  EXPECT_EQ(readCheckpoints(path)->size(), 1U);
  ASSERT_TRUE(appendCheckpoint(path, one));
  EXPECT_EQ(base::readFile(path).value(), whole + whole);
  ASSERT_TRUE(base::writeFileAtomic(path, whole + "junk\n" + whole, 0600));
  EXPECT_THAT(readCheckpoints(path).error().message, ::testing::HasSubstr("line 2"));
}

}  // namespace
}  // namespace cloister::store
