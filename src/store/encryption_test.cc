// SPDX-License-Identifier: Apache-2.0
// Encryption of a ledger, also of an older plain ledger.
#include "store/sql/encryption.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "artifacts/tenant_cipher.h"
#include "base/crypto.h"
#include "base/id.h"
#include "store/agent_store.h"
#include "store/memory_store.h"
#include "store/open.h"
#include "store/quota_store.h"
#include "store/rows/agents.h"
#include "store/rows/documents.h"
#include "store/rows/escalation_rows.h"
#include "store/rows/secrets.h"
#include "store/session_testing.h"
#include "store/sql/raw_testing.h"

namespace cloister::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TempDir;

SqliteOptions plainIn(const TempDir& dir) {
  static const auto key = std::make_shared<const base::SigningKey>(base::SigningKey::generate());
  SqliteOptions options;
  options.path = dir.file("ledger.db");
  options.audit_key = key;
  return options;
}

SqliteOptions encryptedIn(const TempDir& dir) {
  SqliteOptions options = plainIn(dir);
  options.cipher = testing::cipherIn(dir);
  return options;
}

// A unique word, written to each place that must be encrypted.
constexpr char kWord[] = "Xylophonist";

// One row of each table, with the word in all texts that belong to the tenant alone.
struct Rows {
  std::string execution;
  std::string session;
};

Rows fill(Store& store) {
  NewExecution request = testing::queued();
  request.request_json = std::string(R"({"code":")") + kWord + R"(","language":"python"})";
  request.spec = std::string("spec\0", 5) + kWord;
  request.execution.metadata["note"] = kWord;
  const model::Execution done = testing::finished(store, request).value();
  NewExecution waits = testing::queued();  // its spec stays
  waits.request_json = request.request_json;
  waits.spec = request.spec;
  EXPECT_TRUE(testing::accept(store, waits));
  model::Execution says = testing::accept(store, testing::queued()).value().execution;
  EXPECT_TRUE(testing::update(store, says, model::Status::kRunning));
  says.status = model::Status::kCompleted;
  says.exit_code = 0;
  says.out.bytes = says.err.bytes = kWord;
  says.out.total = says.err.total = std::size(kWord) - 1;
  EXPECT_TRUE(testing::update(store, says));
  model::Violation violation;
  violation.id = base::newId("vio");
  violation.tenant = "acme";
  violation.agent = "agent";
  violation.what = violation.reason = violation.words = kWord;
  EXPECT_TRUE(testing::commit(store, addViolation, violation, {}, testing::principal("acme")));
  NewEscalation asked;
  asked.escalation.operation = "run";
  asked.escalation.display = kWord;
  asked.workspace_json = std::string(R"({"names":[")") + kWord + R"("]})";
  asked.escalation.workspace_sha256 = base::sha256Hex(asked.workspace_json);
  asked.escalation.requester = testing::principal("acme");
  asked.escalation.created_at = 1'780'000'000'000'000;
  asked.escalation.expires_at = 1'780'000'000'001'000;
  asked.event = {.action = "escalation.requested",
                 .subject = "",
                 .principal = asked.escalation.requester,
                 .details = {}};
  EXPECT_TRUE(testing::commit(store, addEscalation, asked));
  const std::string session = memory::running(store);
  EXPECT_TRUE(memory::put(store, session, "k", std::string("\"") + kWord + "\""));
  const model::AuditEvent set{.action = "set", .subject = "s", .principal = {}, .details = {}};
  const NewSecret secret{.of = {"acme", "API_KEY"}, .value = kWord};
  EXPECT_TRUE(testing::commit(store, putSecret, secret, uint64_t{100}, set));
  const NewDocument document{.id = "one",
                             .tenant = "acme",
                             .agent = "",
                             .kind = "tool",
                             .name = "a tool",
                             .json = std::string(R"({"a":")") + kWord + "\"}"};
  EXPECT_TRUE(testing::commit(store, createDocument, document, uint64_t{100}, set));
  return {.execution = done.id, .session = session};
}

// The files with the word, among the ledger's files and the files beside it.
std::vector<std::string> filesWith(const TempDir& dir) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(dir.file(""))) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (text.find(kWord) != std::string::npos) found.push_back(entry.path().filename());
  }
  return found;
}

void runSql(const TempDir& dir, const std::string& sql) {
  testing::RawFile(dir.file("ledger.db")).run(sql);
}

void expectWhole(Store& store, const Rows& rows) {
  const auto read = store.get(Scope::allTenants(), rows.execution);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->metadata.at("note"), kWord);
  EXPECT_TRUE(store.recorded(Scope::allTenants(), rows.execution));
  EXPECT_EQ(memory::get(store, rows.session, "k"), std::string("\"") + kWord + "\"");
  const auto pending = store.unfinished();
  ASSERT_TRUE(pending) << pending.error().message;
  ASSERT_EQ(pending->size(), 1U);
  EXPECT_THAT(pending->front().request_json, HasSubstr(kWord));
  EXPECT_THAT(pending->front().spec, HasSubstr(kWord));
  const auto violations =
      store.agents().violations(Scope::allTenants(), {.of = {.tenant = "acme", .agent = "agent"}});
  ASSERT_TRUE(violations) << violations.error().message;
  ASSERT_EQ(violations->size(), 1U);
  EXPECT_EQ(violations->front().words, kWord);
  const auto escalations = store.escalations().list(Scope::allTenants(), {});
  ASSERT_TRUE(escalations && escalations->size() == 1U);
  const auto workspace = store.escalations().workspace(escalations->front());
  ASSERT_TRUE(workspace) << workspace.error().message;
  EXPECT_THAT(*workspace, HasSubstr(kWord));
  for (const auto& wrong : {store.mismatches(0, 10), store.sessionMismatches(0, 10),
                            store.escalations().mismatches(0, 10)}) {
    ASSERT_TRUE(wrong) << wrong.error().message;
    EXPECT_TRUE(wrong->empty()) << wrong->front().problem;
  }
}

TEST(Encryption, NothingOfARequestOrItsOutputStandsInTheFiles) {
  const TempDir dir;
  const auto store = openSqlite(encryptedIn(dir)).value();
  const Rows rows = fill(*store);
  EXPECT_THAT(filesWith(dir), ::testing::IsEmpty());
  expectWhole(*store, rows);
}

// Each table with a tenant is looked through at a start, whatever its other columns are named.
TEST(Encryption, AnEncryptedLedgerIsOpenedAgain) {
  const TempDir dir;
  const Rows rows = fill(*openSqlite(encryptedIn(dir)).value());
  const auto again = openSqlite(encryptedIn(dir));
  ASSERT_TRUE(again) << again.error().message;
  expectWhole(**again, rows);
}

TEST(Encryption, AnOlderLedgerIsEncryptedAndItsOldTextIsGone) {
  const TempDir dir;
  Rows rows;
  {
    const auto store = openSqlite(plainIn(dir)).value();
    rows = fill(*store);
  }
  EXPECT_THAT(filesWith(dir), ::testing::Contains("ledger.db"));
  const auto store = openSqlite(encryptedIn(dir));
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_THAT(filesWith(dir), ::testing::IsEmpty());
  expectWhole(**store, rows);
}

// The upgrade was interrupted between two of its steps: some rows are still plain.
TEST(Encryption, GoesOnWhereItWasEnded) {
  const TempDir dir;
  Rows rows;
  {
    const auto store = openSqlite(plainIn(dir)).value();
    rows = fill(*store);
  }
  runSql(dir,
         "CREATE TABLE kept AS SELECT * FROM requests;"
         // Rows without an execution: foreign keys are off here, as they may have been for a tool.
         "INSERT INTO outputs SELECT 1000+value, x'61', x'', x'', x'', 0 FROM"
         " json_each('[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]')");
  {
    const auto store = openSqlite(encryptedIn(dir)).value();
  }
  runSql(dir,
         "UPDATE requests SET encrypted=0, body=(SELECT body FROM kept k WHERE"
         " k.execution=requests.execution); DROP TABLE kept; UPDATE encryption SET owed=1");
  EXPECT_THAT(filesWith(dir), ::testing::Contains("ledger.db"));
  const auto store = openSqlite(encryptedIn(dir));
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_THAT(filesWith(dir), ::testing::IsEmpty());
  expectWhole(**store, rows);
}

// A backup, or a person with a shell, reads the ledger meanwhile: the log cannot be emptied then.
TEST(Encryption, WhereTheLedgerIsReadMeanwhileTheNextStartEnds) {
  const TempDir dir;
  {
    fill(*openSqlite(plainIn(dir)).value());
  }
  auto reader = std::make_unique<testing::RawFile>(dir.file("ledger.db"));
  reader->run("BEGIN; SELECT count(*) FROM executions");
  {
    ASSERT_TRUE(openSqlite(encryptedIn(dir)));
  }
  EXPECT_THAT(filesWith(dir), ::testing::Not(::testing::IsEmpty()));
  reader.reset();
  {
    ASSERT_TRUE(openSqlite(encryptedIn(dir)));
  }
  EXPECT_THAT(filesWith(dir), ::testing::IsEmpty());
}

// Forged by somebody with write access to the file but without a key.
TEST(Encryption, ARowInPlainTextIsNone) {
  const TempDir dir;
  const auto store = openSqlite(encryptedIn(dir)).value();
  const Rows rows = fill(*store);
  runSql(dir, "UPDATE outputs SET encrypted=0, out=CAST('forged' AS BLOB)");
  const auto read = store->get(Scope::allTenants(), rows.execution);
  EXPECT_FALSE(read) << read->out.bytes;
  EXPECT_FALSE(store->mismatches(0, 10)->empty());
}

// An undecryptable row neither hides the other rows of a list nor prevents the service from
// starting.
TEST(Encryption, OnlyTheRowsOfAPageAreDecrypted) {
  const TempDir dir;
  const auto store = openSqlite(encryptedIn(dir)).value();
  const Rows rows = fill(*store);
  runSql(dir, "UPDATE executions SET record='AAAA' WHERE id='" + rows.execution +
                  "';"
                  "UPDATE requests SET body='AAAA'; UPDATE specs SET spec=x'00'");
  ListQuery query;
  query.limit = 2;
  const auto page = store->list(Scope::of(testing::principal("acme")), query);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->size(), 2U);
  EXPECT_TRUE(store->unfinished());
  EXPECT_TRUE(store->quotas().cpuSince(1));
}

TEST(Encryption, AMemoryIsReadUnderItsOwnKeyAndSessionAlone) {
  const TempDir dir;
  const auto store = openSqlite(encryptedIn(dir)).value();
  const std::string session = memory::running(*store);
  const std::string other = memory::running(*store);
  for (const auto& [of, key] : {std::pair(session, "a"), {session, "b"}, {other, "a"}})
    ASSERT_TRUE(memory::put(*store, of, key, std::string("\"") + key + of + "\""));
  runSql(dir,
         "UPDATE session_memory SET value=(SELECT value FROM session_memory"
         " WHERE session=1 AND key='b') WHERE session=1 AND key='a'");
  EXPECT_FALSE(store->memory().get(Scope::allTenants(), session, "a"));
  runSql(dir,
         "UPDATE session_memory SET value=(SELECT value FROM session_memory"
         " WHERE session=2 AND key='a') WHERE session=1 AND key='a'");
  EXPECT_FALSE(store->memory().get(Scope::allTenants(), session, "a"));
  EXPECT_TRUE(store->memory().get(Scope::allTenants(), other, "a"));
}

TEST(Encryption, WithoutTheKeyOfATenantTheLedgerIsRefused) {
  const TempDir dir;
  {
    const auto store = openSqlite(encryptedIn(dir)).value();
    fill(*store);
  }
  const auto without = openSqlite(plainIn(dir));
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message, HasSubstr("it is encrypted"));
  fs::remove_all(dir.file("keys"));
  const auto lost = openSqlite(encryptedIn(dir));
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::kInvalid);
  EXPECT_THAT(lost.error().message, HasSubstr("key of tenant \"acme\" is missing"));
}

TEST(Encryption, WhatWasMovedToAnotherRowIsFound) {
  const TempDir dir;
  const auto store = openSqlite(encryptedIn(dir)).value();
  const Rows first = fill(*store);
  runSql(dir, "UPDATE outputs SET out=(SELECT max(err) FROM outputs WHERE err<>'')");
  const auto wrong = store->mismatches(0, 10);
  ASSERT_TRUE(wrong) << wrong.error().message;
  EXPECT_FALSE(wrong->empty());
  runSql(dir,
         "UPDATE executions SET record=(SELECT record FROM executions ORDER BY seq DESC)"
         " WHERE id='" +
             first.execution + "'");
  EXPECT_FALSE(store->get(Scope::allTenants(), first.execution));
  EXPECT_THAT(store->mismatches(0, 10)->front().problem, HasSubstr("is not the one of"));
}

}  // namespace
}  // namespace cloister::store
