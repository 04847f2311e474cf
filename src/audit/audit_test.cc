// SPDX-License-Identifier: Apache-2.0
// Each way to change the log behind the ledger's back, and the result of the verification.
#include "audit/audit.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "audit/audit_fixture.h"
#include "base/file.h"
#include "store/open.h"
#include "store/rows/escalation_rows.h"
#include "store/rows/sealed.h"
#include "store/store_testing.h"

namespace cloister::audit {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

constexpr const char* kScript = CLOISTER_SOURCE_DIR "/tools/verify_audit.py";

TEST_F(AuditVerify, AcceptsWhatNobodyTouched) {
  const Report report = reopenAndVerify();
  EXPECT_TRUE(report.ok) << report.problem;
  EXPECT_EQ(report.entries, 40U);
  EXPECT_GE(report.checkpoints, 2U);
  EXPECT_EQ(report.head, store_->head().value()->hash);
}

TEST_F(AuditVerify, AcceptsAnEmptyLedger) {
  const store::testing::TempDir empty;
  store::SqliteOptions fresh = options();
  fresh.path = empty.file("ledger.db");
  fresh.checkpoint_file = empty.file("c");
  const auto store = store::openSqlite(fresh).value();
  const Report report = verify(*store, key_->verifyKey(), fresh.checkpoint_file, "");
  EXPECT_TRUE(report.ok) << report.problem;
  EXPECT_EQ(report.entries, 0U);
}

TEST_F(AuditVerify, NamesTheRowOfAFlippedByteInAnyColumn) {
  for (const std::string column : {"at", "action", "subject", "tenant", "app", "agent", "user",
                                   "key_id", "details", "prev", "hash", "number"}) {
    SCOPED_TRACE(column);
    const std::string changed = column == "at" || column == "number" ? column + "+1"
                                : column == "details"
                                    ? "replace(details,'\"number\":7','\"number\":8')"
                                    : "char(unicode(" + column + ")+1)||substr(" + column + ",2)";
    sql("CREATE TABLE kept AS SELECT * FROM audit WHERE seq=17;"
        "UPDATE audit SET " +
        column + "=" + changed + " WHERE seq=17");
    expectBad(reopenAndVerify(), 17, "do not match its hash");
    close();
    sql("INSERT OR REPLACE INTO audit SELECT * FROM kept; DROP TABLE kept");
  }
  EXPECT_TRUE(reopenAndVerify().ok);
}

TEST_F(AuditVerify, NamesTheRowWhoseDetailsAreWrittenAnotherWay) {
  sql("UPDATE audit SET details=replace(details,':',': ') WHERE seq=17");
  expectBad(reopenAndVerify(), 17, "not canonical");
}

TEST_F(AuditVerify, NamesARemovedRow) {
  sql("DELETE FROM audit WHERE seq=17");
  expectBad(reopenAndVerify(), 17, "missing");
}

TEST_F(AuditVerify, NamesTheFirstOfTwoSwappedRows) {
  sql("UPDATE audit SET seq=1000 WHERE seq=17; UPDATE audit SET seq=17 WHERE seq=18;"
      "UPDATE audit SET seq=18 WHERE seq=1000");
  expectBad(reopenAndVerify(), 17, "does not follow entry 16");
}

TEST_F(AuditVerify, NamesARowPutInBetween) {
  sql("UPDATE audit SET seq=seq+1000 WHERE seq>=17; UPDATE audit SET seq=seq-999 WHERE seq>1000;"
      "INSERT INTO audit SELECT 17,at,action,'forged',tenant,app,agent,user,key_id,details,prev,"
      "hash,number FROM audit WHERE seq=18");
  expectBad(reopenAndVerify(), 17, "do not match its hash");
}

// With the whole chain computed anew, only the signature is out of the forger's reach.
TEST_F(AuditVerify, FindsAChainThatWasComputedAnew) {
  open();
  const auto entries = store_->audit(store::Scope::allTenants(), 0, 1000).value();
  close();
  std::string changes;
  std::string prev = entries[15].hash;
  for (size_t i = 16; i < entries.size(); ++i) {
    model::AuditEntry entry = entries[i];
    if (i == 16) entry.event.action = "execution.forged";
    entry.prev = prev;
    entry.hash = prev = base::sha256Hex(model::canonicalForm(entry));
    changes += "UPDATE audit SET action='" + entry.event.action + "',prev='" + entry.prev +
               "',hash='" + entry.hash + "' WHERE seq=" + std::to_string(entry.seq) + ";";
  }
  sql(changes + "UPDATE audit_head SET hash='" + prev + "'");
  // The checkpoint file detects the change first; without a file the signature does.
  expectBad(reopenAndVerify(), 40, "its signed checkpoint has another hash");
  checkpoints_.clear();
  expectBad(verifyNow(), 41, "found changed here");
}

// The ledger must not sign foreign entries when opened and continued.
TEST_F(AuditVerify, FindsAChainComputedAnewWithoutACheckpointFile) {
  checkpoints_.clear();
  open();
  model::AuditEntry last = store_->audit(store::Scope::allTenants(), 39, 1).value().front();
  close();
  last.event.subject = "forged";
  const std::string hash = base::sha256Hex(model::canonicalForm(last));
  sql("UPDATE audit SET subject='forged',hash='" + hash + "' WHERE seq=40;" +
      "UPDATE audit_head SET hash='" + hash + "'");
  expectBad(reopenAndVerify(), 41, "signature of the head is not valid");
}

TEST_F(AuditVerify, FindsAForgedHeadWithoutACheckpointFile) {
  checkpoints_.clear();
  open();
  sql("UPDATE audit_head SET signature="
      "iif(substr(signature,1,1)='/','A','/')||substr(signature,2)");
  expectBad(verifyNow(), 40, "signature that is not valid");
}

TEST_F(AuditVerify, FindsACutTailWhileTheLedgerIsOpen) {
  open();
  sql("DELETE FROM audit WHERE seq>35");
  expectBad(verifyNow(), 36, "missing");
}

TEST_F(AuditVerify, FindsACutTailAfterTheLedgerWasOpenedAgain) {
  sql("DELETE FROM audit WHERE seq>35");
  const Report report = reopenAndVerify();
  expectBad(report, 36, "found changed here");
  EXPECT_THAT(report.problem, HasSubstr("ends at entry 35"));
  EXPECT_THAT(report.problem, HasSubstr("signed head is entry 40"));
  close();
  expectBad(reopenAndVerify(), 36, "found changed here");  // permanent, and reported once
  EXPECT_EQ(store_->audit(store::Scope::allTenants(), 0, 1000)->size(), 36U);
}

TEST_F(AuditVerify, FindsRowsPastTheSignedHead) {
  open();
  const auto last = store_->audit(store::Scope::allTenants(), 39, 1).value().front();
  model::AuditEntry next = last;
  next.seq = 41;
  next.prev = last.hash;
  sql("INSERT INTO audit SELECT 41,at,action,subject,tenant,app,agent,user,key_id,details,'" +
      next.prev + "','" + base::sha256Hex(model::canonicalForm(next)) +
      "',41 FROM audit WHERE seq=40");
  expectBad(verifyNow(), 41, "past the signed head");
}

TEST_F(AuditVerify, FindsAnOlderCopyPutBack) {
  fs::copy_file(dir_.file("ledger.db"), dir_.file("old.db"));
  open();
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(store::testing::append(*store_, "later", "acme"));
  close();
  fs::copy_file(dir_.file("old.db"), dir_.file("ledger.db"), fs::copy_options::overwrite_existing);
  const Report report = reopenAndVerify();
  expectBad(report, 41, "found changed here");
  EXPECT_THAT(report.problem, HasSubstr("the checkpoint file speaks of entry 45"));
}

TEST_F(AuditVerify, FindsAnEmptyLedgerPutInItsPlace) {
  fs::remove(dir_.file("ledger.db"));
  // The first mention is a checkpoint of the first entry, if an earlier checkpoint was made as
  // well.
  expectBad(reopenAndVerify(), 1, "checkpoint");
  checkpoints_.clear();
  expectBad(verifyNow(), 1, "found changed here");
}

TEST_F(AuditVerify, FindsAChangedCheckpointFile) {
  const std::string text = base::readFile(checkpoints_).value();
  std::string changed = text;
  changed[changed.find("\"hash\":\"") + 8] ^= 1;
  open();
  ASSERT_TRUE(base::writeFileAtomic(checkpoints_, changed, 0600));
  EXPECT_FALSE(verifyNow().ok);
  EXPECT_THAT(verifyNow().problem, HasSubstr("signature that is not valid"));
  ASSERT_TRUE(base::writeFileAtomic(checkpoints_, "no line\n" + text, 0600));
  EXPECT_THAT(verifyNow().problem, HasSubstr("line 1 is not a checkpoint"));
  ASSERT_TRUE(base::writeFileAtomic(checkpoints_, text + text.substr(0, 30), 0600));
  EXPECT_TRUE(verifyNow().ok);  // an unfinished line is a crash's
  const auto other = base::SigningKey::generate();
  EXPECT_THAT(verify(*store_, other.verifyKey(), checkpoints_, "").problem,
              HasSubstr("another key"));
}

TEST_F(AuditVerify, FindsAChangedRecord) {
  struct Case {
    std::string change;
    std::string problem;
  };
  const std::vector<Case> cases = {
      {"UPDATE executions SET record=replace(record,'\"exit_code\":0','\"exit_code\":1')",
       "not the one of audit entry"},
      {"UPDATE executions SET status='failed'", "its status failed has no audit entry"},
      {"UPDATE executions SET state_row=accepted_row", "its status completed has no audit entry"},
      {"UPDATE executions SET accepted_row=9999", "its acceptance has no audit entry"},
      {"UPDATE executions SET tenant='rival'", "its columns are not those of its record"},
      {"UPDATE outputs SET out=x'686f0a'", "its kept output"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.change);
    fs::copy_file(dir_.file("ledger.db"), dir_.file("good.db"),
                  fs::copy_options::overwrite_existing);
    const bool output = one.change.starts_with("UPDATE outputs");
    sql(one.change + " WHERE " + (output ? "execution" : "seq") + "=5");
    expectBad(reopenAndVerify(), 0, one.problem);
    EXPECT_THAT(verifyNow().problem, HasSubstr("execution " + ids_[4]));
    close();
    fs::copy_file(dir_.file("good.db"), dir_.file("ledger.db"),
                  fs::copy_options::overwrite_existing);
  }
}

// A run's approval is part of its record.
TEST_F(AuditVerify, FindsAChangedEscalation) {
  open();
  store::NewEscalation asked;
  asked.escalation.operation = "run";
  asked.escalation.requester = store::testing::principal("acme");
  asked.escalation.execution_id = ids_[4];
  asked.event = {.action = "escalation.requested",
                 .subject = "",
                 .principal = asked.escalation.requester,
                 .details = {}};
  const auto made = store::testing::commit(*store_, store::addEscalation, asked);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(verifyNow().ok) << verifyNow().problem;
  close();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"record=replace(record,'\"run\"','\"ran\"')", "not the one of audit entry"},
      {"status='approved'", "its status approved has no audit entry"},
      {"created_row=1", "its request has no audit entry"},
      {"state_row=0", "its status pending has no audit entry"},
      {"tenant='rival'", "its columns are not those of its record"},
      {"execution='" + ids_[5] + "'", "it names another execution"},
  };
  for (const auto& [change, problem] : cases) {
    SCOPED_TRACE(change);
    fs::copy_file(dir_.file("ledger.db"), dir_.file("good.db"),
                  fs::copy_options::overwrite_existing);
    sql("UPDATE escalations SET " + change);
    expectBad(reopenAndVerify(), 0, problem);
    EXPECT_THAT(verifyNow().problem, HasSubstr("escalation " + made->id));
    close();
    fs::copy_file(dir_.file("good.db"), dir_.file("ledger.db"),
                  fs::copy_options::overwrite_existing);
  }
}

TEST_F(AuditVerify, FindsAnApprovalThatWasPutBack) {
  open();
  store::NewEscalation asked;
  asked.escalation.operation = "run";
  asked.escalation.requester = store::testing::principal("acme");
  asked.event = {.action = "escalation.requested",
                 .subject = "",
                 .principal = asked.escalation.requester,
                 .details = {}};
  const auto made = store::testing::commit(*store_, store::addEscalation, asked);
  ASSERT_TRUE(made);
  const auto becomes = [&](model::EscalationStatus status) {
    store::EscalationChange change;
    change.tenant = "acme";
    change.id = made->id;
    change.apply = [status](model::Escalation& now) -> Result<model::AuditEvent> {
      now.status = status;
      return model::AuditEvent{.action = "escalation.changed",
                               .subject = now.id,
                               .principal = now.requester,
                               .details = {}};
    };
    return store::testing::commit(*store_, store::changeEscalation, change);
  };
  ASSERT_TRUE(becomes(model::EscalationStatus::kApproved));
  sql("CREATE TABLE kept AS SELECT * FROM escalations");
  ASSERT_TRUE(becomes(model::EscalationStatus::kUsed));
  EXPECT_TRUE(verifyNow().ok) << verifyNow().problem;
  close();
  sql("DELETE FROM escalations; INSERT INTO escalations SELECT * FROM kept");
  expectBad(reopenAndVerify(), 0, "the audit log has a newer record of it");
}

TEST_F(AuditVerify, FindsARecordThatWasNeverAccepted) {
  sql("INSERT INTO executions SELECT NULL,'exec_forged',status,tenant,app,agent,user,session_id,"
      "NULL,request_sha256,finished_at,archived_at,accepted_row,state_row,record,encrypted"
      " FROM executions WHERE seq=3");
  expectBad(reopenAndVerify(), 0, "execution exec_forged: its acceptance has no audit entry");
}

TEST_F(AuditVerify, FindsARecordThatWasRemoved) {
  sql("DELETE FROM executions WHERE id='" + ids_[4] + "'");
  expectBad(reopenAndVerify(), 0, "execution " + ids_[4] + ": its record, of audit entry ");
}

TEST_F(AuditVerify, TellsWhatRetentionRemovedFromWhatAHandDid) {
  open();
  const auto retained = store::testing::retain(*store_, {.keep_at_most = 7});
  ASSERT_TRUE(retained) << retained.error().message;
  ASSERT_EQ(retained->deleted, 3U);
  EXPECT_TRUE(verifyNow().ok);
  close();
  sql("DELETE FROM executions WHERE id='" + ids_[8] + "'");
  expectBad(reopenAndVerify(), 0, "execution " + ids_[8]);
}

TEST_F(AuditVerify, NamesTheRowOfAByteFlippedInTheFileItself) {
  std::string bytes = base::readFile(dir_.file("ledger.db")).value();
  const size_t marker = bytes.find("on " + subject(4));  // details of entry 35
  ASSERT_NE(marker, std::string::npos);
  bytes[marker] ^= 1;
  ASSERT_TRUE(base::writeFileAtomic(dir_.file("ledger.db"), bytes, 0600));
  expectBad(reopenAndVerify(), 35, "do not match its hash");
}

// Any page of the file may be ruined: that is a report or a refusal to open, never a crash, and
// never "ok" when the page held entries.
TEST_F(AuditVerify, ARuinedPageIsReported) {
  const std::string good = base::readFile(dir_.file("ledger.db")).value();
  constexpr size_t kPage = 4096;
  size_t with_entries = 0;
  for (size_t page = 0; page * kPage < good.size(); ++page) {
    SCOPED_TRACE(page);
    std::string bytes = good;
    bytes.replace(page * kPage + (page == 0 ? 100 : 0), kPage - 100, kPage - 100, '\xff');
    ASSERT_TRUE(base::writeFileAtomic(dir_.file("ledger.db"), bytes, 0600));
    const bool held_entries =
        good.substr(page * kPage, kPage).find("\"note\":\"on marker-") != std::string::npos;
    with_entries += held_entries ? 1 : 0;
    auto opened = store::openSqlite(options());
    if (!opened) {
      EXPECT_EQ(opened.error().code, Code::kInternal) << opened.error().message;
      continue;
    }
    const Report report = verify(**opened, key_->verifyKey(), checkpoints_, "");
    if (held_entries) EXPECT_FALSE(report.ok);
    if (!report.ok) EXPECT_FALSE(report.problem.empty());
  }
  EXPECT_GE(with_entries, 1U);
}

TEST_F(AuditVerify, GoesOnWhileTheLogGrows) {
  open();
  std::atomic<bool> stop = false;
  std::jthread writer([&] {
    for (int i = 0; i < 200 && !stop; ++i)  // each makes the next verification longer
      EXPECT_TRUE(store::testing::append(*store_, "more", "acme"));
  });
  for (int i = 0; i < 20; ++i) {
    const Report report = verifyNow();
    EXPECT_TRUE(report.ok) << report.problem;
  }
  stop = true;
}

TEST_F(AuditVerify, TheScriptSaysTheSame) {
  open();
  ASSERT_TRUE(store::testing::append(*store_, "ä \" \\ \n \x01 \x7f €", "acme"));
  const std::string log = exported();
  const std::string key = key_->verifyKey().base64();
  const std::string signed_by = " --checkpoints " + checkpoints_ + " --key ";
  EXPECT_EQ(runScript(kScript, log), 0);
  EXPECT_EQ(runScript(kScript, log + signed_by + key), 0);
  EXPECT_EQ(runScript(kScript, log + signed_by + base::SigningKey::generate().verifyKey().base64()),
            1);

  const std::string good = base::readFile(log).value();
  const auto withText = [&](const std::string& text) {
    EXPECT_TRUE(base::writeFileAtomic(log, text, 0600));
    return log;
  };
  std::string flipped = good;
  flipped[flipped.find("marker-4")] = 'M';
  EXPECT_EQ(runScript(kScript, withText(flipped)), 1);
  const size_t second = good.find('\n') + 1;
  const size_t third = good.find('\n', second) + 1;
  EXPECT_EQ(runScript(kScript, withText(good.substr(0, second) + good.substr(third))), 1);
  EXPECT_EQ(runScript(kScript, withText(good.substr(second, third - second) +
                                        good.substr(0, second) + good.substr(third))),
            1);
  const std::string cut = good.substr(0, good.find("\"seq\":30,") - 1);
  EXPECT_EQ(runScript(kScript, withText(cut)),
            0);  // the chain alone cannot show the cut; the signature can
  EXPECT_EQ(runScript(kScript, log + signed_by + key), 1);
}

TEST_F(AuditVerify, TheScriptRefusesCheckpointsThatVerifyNothing) {
  open();
  const std::string log = exported();
  const std::string arguments = log + " --key " + key_->verifyKey().base64() + " --checkpoints ";
  EXPECT_EQ(runScript(kScript, arguments + checkpoints_), 0);
  ASSERT_TRUE(base::writeFileAtomic(dir_.file("nothing"), "", 0600));
  EXPECT_EQ(runScript(kScript, arguments + dir_.file("nothing")), 1);
  EXPECT_THAT(base::readFile(dir_.file("said")).value(),
              HasSubstr("the file of checkpoints is empty"));
  EXPECT_NE(runScript(kScript, arguments + "''"), 0);
}

TEST_F(AuditVerify, TheScriptRefusesAMemberGivenTwice) {
  open();
  const std::string log = exported();
  const auto twice = [](std::string text) {
    return text.replace(text.rfind("\"seq\":"), 0, "\"seq\":9999,");
  };
  const std::string points = base::readFile(checkpoints_).value();
  ASSERT_TRUE(base::writeFileAtomic(dir_.file("points"), twice(points), 0600));
  EXPECT_EQ(runScript(kScript, log + " --key " + key_->verifyKey().base64() + " --checkpoints " +
                                   dir_.file("points")),
            1);
  EXPECT_THAT(base::readFile(dir_.file("said")).value(),
              HasSubstr("the member 'seq' is there twice"));
  ASSERT_TRUE(base::writeFileAtomic(log, twice(base::readFile(log).value()), 0600));
  EXPECT_EQ(runScript(kScript, log), 1);
  EXPECT_THAT(base::readFile(dir_.file("said")).value(),
              HasSubstr("the member 'seq' is there twice"));
}

// A log with a refusal, entry 41, whose text is a secret.
class AuditSealed : public AuditVerify {
 protected:
  static constexpr const char* kSecret = "hunter2 in clear";

  void SetUp() override {
    AuditVerify::SetUp();
    open();
    add("agent.violation", {{"what", kSecret}, {"reason", "why"}, {"level", "standard"}}, "acme");
  }

  void add(const std::string& action, base::json::object details, const std::string& tenant) {
    const auto added = store::testing::commit(*store_, store::appendEvent,
                                              {.action = action,
                                               .subject = "agent:acme/alice",
                                               .principal = store::testing::principal(tenant),
                                               .details = std::move(details)});
    ASSERT_TRUE(added) << added.error().message;
  }

  Result<void> redact(uint64_t seq, const std::string& member,
                      const store::Scope& scope = store::Scope::allTenants()) {
    return store::testing::commit(
        *store_, store::redact, scope, seq, member,
        {.action = "audit.redacted",
         .subject = "audit:" + std::to_string(seq),
         .principal = store::testing::principal("ops"),
         .details = {{"of", seq}, {"member", member}, {"reason", "a password"}}});
  }

  model::AuditEntry entry(uint64_t seq) {
    return store_->audit(store::Scope::allTenants(), seq - 1, 1).value().at(0);
  }
};

TEST_F(AuditSealed, TextIsBesideTheEntryAndShownInItsPlace) {
  const model::AuditEntry it = entry(41);
  EXPECT_THAT(model::canonicalForm(it), testing::Not(HasSubstr(kSecret)));
  EXPECT_THAT(model::canonicalForm(it), HasSubstr(R"("level":"standard")"));
  EXPECT_THAT(exportLine(it, store::Scope::allTenants()), HasSubstr(kSecret));
  EXPECT_EQ(model::shownDetails(it).at("what"), kSecret);
  EXPECT_EQ(model::shownDetails(it).at("reason"), "why");
  add("agent.violation", {{"what", kSecret}, {"reason", "why"}}, "acme");
  EXPECT_NE(it.event.details.at("what"), entry(42).event.details.at("what")) << "salted";
  EXPECT_TRUE(verifyNow().ok) << verifyNow().problem;
  EXPECT_EQ(runScript(kScript, exported()), 0);
}

TEST_F(AuditSealed, WhatWasRedactedIsGoneAndTheLogIsWhole) {
  const std::string hash = entry(41).hash;
  ASSERT_TRUE(redact(41, "what"));
  EXPECT_EQ(redact(41, "what").error().code, Code::kNotFound) << "once";
  const model::AuditEntry it = entry(41);
  EXPECT_EQ(it.hash, hash);
  EXPECT_THAT(exportLine(it, store::Scope::allTenants()), testing::Not(HasSubstr(kSecret)));
  EXPECT_EQ(model::sealIn(model::shownDetails(it).at("what")).size(), 64U);
  EXPECT_EQ(model::shownDetails(it).at("reason"), "why") << "the other stays";
  EXPECT_EQ(model::shownDetails(entry(42)).at("reason"), "a password");
  EXPECT_TRUE(verifyNow().ok) << verifyNow().problem;
  EXPECT_EQ(runScript(kScript, exported() + " --checkpoints " + checkpoints_ + " --key " +
                                   key_->verifyKey().base64()),
            0);
  close();
  EXPECT_THAT(base::readFile(dir_.file("ledger.db")).value(), testing::Not(HasSubstr(kSecret)));
  EXPECT_TRUE(reopenAndVerify().ok);
}

TEST_F(AuditSealed, OnlyWhatIsSealedWithinTheScopeIsRedacted) {
  store::Scope rival = store::Scope::of(store::testing::principal("rival"));
  for (const auto& [seq, member, scope] :
       {std::tuple(uint64_t{41}, "level", store::Scope::allTenants()),
        std::tuple(uint64_t{41}, "what", rival), std::tuple(uint64_t{7}, "what", rival),
        std::tuple(uint64_t{999}, "what", store::Scope::allTenants())}) {
    EXPECT_EQ(redact(seq, member, scope).error().code, Code::kNotFound) << seq << member;
  }
  EXPECT_EQ(store_->head().value()->seq, 41U) << "nothing was recorded";
}

TEST_F(AuditSealed, TamperedTextIsFound) {
  ASSERT_TRUE(redact(41, "reason"));
  close();
  fs::copy(dir_.file("ledger.db"), dir_.file("good.db"));
  const auto after = [&](const std::string& attack) {
    fs::copy(dir_.file("good.db"), dir_.file("ledger.db"), fs::copy_options::overwrite_existing);
    sql(attack);
    Report report = reopenAndVerify();
    close();
    return report;
  };
  expectBad(after("UPDATE audit_sealed SET value='\"sudo true\"' WHERE seq=41"), 41,
            "its sealed \"what\" is another");
  expectBad(after("UPDATE audit_sealed SET value='{' WHERE seq=41"), 41, "is another");
  expectBad(after("UPDATE audit_sealed SET salt='00' WHERE seq=41"), 41, "is another");
  expectBad(after("UPDATE audit_sealed SET name='level' WHERE seq=41"), 41,
            "its sealed \"level\" is another");
  expectBad(after("INSERT INTO audit_sealed VALUES(41, 'reason', '00', '1', 0)"), 41, "is another");
  expectBad(after("DELETE FROM audit_sealed WHERE seq=41"), 41,
            "its sealed \"what\" is gone, and no entry says that it was redacted");
  EXPECT_TRUE(after("SELECT 1").ok);
}

TEST(CanonicalForm, IsAsDocumented) {
  model::AuditEntry entry{.seq = 7,
                          .at = 1'700'000'000'000'000,
                          .event = {.action = "execution.accepted",
                                    .subject = "exec_1",
                                    .principal = {.tenant = "acme",
                                                  .app = "app",
                                                  .agent = "a\"b",
                                                  .user = "",
                                                  .roles = model::Role::kAgent,
                                                  .key_id = "key_1"},
                                    .details = {{"z", 1},
                                                {"a", base::json::array{true, nullptr, "é\x01\n"}},
                                                {"Z", {{"b", UINT64_MAX}, {"a", -1}}}}},
                          .prev = std::string(64, '0'),
                          .hash = {}};
  EXPECT_EQ(model::canonicalForm(entry),
            R"json({"seq":7,"at":1700000000000000,"action":"execution.accepted",)json"
            R"json("subject":"exec_1","tenant":"acme","app":"app","agent":"a\"b","user":"",)json"
            R"json("key":"key_1","details":{"Z":{"a":-1,"b":18446744073709551615},)json"
            R"json("a":[true,null,"é\u0001\n"],"z":1},"prev":")json" +
                std::string(64, '0') + "\"}");
}

}  // namespace
}  // namespace cloister::audit
