// SPDX-License-Identifier: Apache-2.0
// The numbers of a tenant's entries: an upgraded ledger, and attackers who have the signing key, so
// that every hash and signature is right.
#include <filesystem>
#include <utility>

#include "audit/audit_fixture.h"
#include "base/file.h"
#include "model/numbering.h"

namespace cloister::audit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kScript = CLOISTER_SOURCE_DIR "/tools/verify_audit.py";

class AuditNumbers : public AuditVerify {
 protected:
  using Entries = std::vector<model::AuditEntry>;

  // Notes of two tenants, as few as a person can check.
  void SetUp() override {
    open();
    for (const char* tenant : {"rival", "acme", "acme", "rival", "acme", "rival"})
      ASSERT_TRUE(store::testing::append(*store_, "s", tenant));
    close();
  }

  // As the ledger of an earlier version: every entry's number is its position.
  void makeOld() {
    Entries entries = read();
    for (model::AuditEntry& entry : entries)
      entry.seq = entry.position;
    write(std::move(entries));
    sql("ALTER TABLE audit DROP COLUMN number; CREATE INDEX audit_by_tenant ON audit(tenant, seq);"
        "DROP TABLE audit_roots; DROP TABLE ui_sessions; DROP TABLE documents; DROP TABLE layers;"
        "DROP TABLE bills; DROP TABLE secrets;"
        "DROP INDEX sessions_by_name; ALTER TABLE sessions DROP COLUMN name;"
        "ALTER TABLE api_keys DROP COLUMN given_expires_at;"
        "DROP TABLE escalation_workspaces; PRAGMA user_version=17");
  }

  Entries read() {
    open();
    Entries entries = store_->audit(store::Scope::allTenants(), 0, 1000).value();
    close();
    return entries;
  }

  // Replaces the whole log by the entries, with new positions, links, hashes and signed head.
  void write(Entries entries) {
    std::string rows = "DELETE FROM audit;";
    std::string prev(64, '0');
    for (size_t i = 0; i < entries.size(); ++i) {
      model::AuditEntry& e = entries[i];
      e.position = i + 1;
      e.prev = prev;
      e.hash = prev = base::sha256Hex(model::canonicalForm(e));
      const model::Principal& who = e.event.principal;
      rows += "INSERT INTO audit VALUES(" + std::to_string(e.position) + "," +
              std::to_string(e.at) + ",'" + e.event.action + "','" + e.event.subject + "','" +
              who.tenant + "','" + who.app + "','" + who.agent + "','" + who.user + "','" +
              who.key_id + "','" + model::canonicalJson(e.event.details) + "','" + e.prev + "','" +
              e.hash + "'," + std::to_string(e.seq) + ");";
    }
    store::Checkpoint head{.seq = entries.size(),
                           .hash = prev,
                           .at = entries.back().at,
                           .key_id = key_->verifyKey().id(),
                           .signature = {}};
    head.signature = base::toBase64(key_->sign(store::checkpointText(head)));
    sql(rows + "UPDATE audit_head SET seq=" + std::to_string(head.seq) + ",hash='" + head.hash +
        "',signature='" + head.signature + "',at=" + std::to_string(head.at));
    std::filesystem::remove(checkpoints_);
  }

  std::vector<uint64_t> numbersOf(const std::string& tenant) {
    std::vector<uint64_t> numbers;
    for (const model::AuditEntry& entry :
         store_->audit(store::Scope::ofTenant(tenant), 0, 1000).value())
      numbers.push_back(entry.seq);
    return numbers;
  }

  // Both verifiers must find the mistake, and use the same words.
  void expectBoth(Entries entries, uint64_t position, const std::string& words) {
    write(std::move(entries));
    expectBad(reopenAndVerify(), position, words);
    EXPECT_EQ(runScript(kScript, exported()), 1);
    EXPECT_THAT(base::readFile(dir_.file("said")).value(),
                HasSubstr("entry " + std::to_string(position) + ": " + words));
    close();
  }

  void expectGood() {
    const Report report = reopenAndVerify();
    EXPECT_TRUE(report.ok) << report.problem;
    EXPECT_EQ(runScript(kScript, exported()), 0) << base::readFile(dir_.file("said")).value();
  }
};

TEST_F(AuditNumbers, AreTheTenantsOwn) {
  expectGood();
  EXPECT_THAT(numbersOf("rival"), ElementsAre(1, 2, 3));
  EXPECT_THAT(numbersOf("acme"), ElementsAre(1, 2, 3));
  EXPECT_TRUE(verifyNow().notes.empty());
}

TEST_F(AuditNumbers, OnlyReadersOfAllTenantsAreTold) {
  open();
  const auto entry = store_->audit(store::Scope::ofTenant("rival"), 1, 1)->front();
  EXPECT_EQ(exportLine(entry, store::Scope::ofTenant("rival")),
            model::canonicalForm(entry).substr(0, model::canonicalForm(entry).size() - 1) +
                ",\"hash\":\"" + entry.hash + "\"}");
  EXPECT_THAT(exportLine(entry, store::Scope::allTenants()), HasSubstr(R"("position":4)"));
}

TEST_F(AuditNumbers, OfAnUpgradedLedgerGoOnAboveTheOldOnes) {
  makeOld();
  open();
  for (const char* tenant : {"acme", "rival", "new", "rival", "new"})
    ASSERT_TRUE(store::testing::append(*store_, "s", tenant));
  close();
  expectGood();
  EXPECT_THAT(numbersOf("rival"), ElementsAre(1, 4, 6, 7, 8));
  EXPECT_THAT(numbersOf("acme"), ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(numbersOf("new"), ElementsAre(1, 2));
  EXPECT_THAT(numbersOf("system"), ElementsAre(1)) << "the switch is recorded once";
  const auto turn = store_->audit(store::Scope::allTenants(), 6, 1)->front();
  EXPECT_EQ(turn.event.action, model::kRenumbered);
  EXPECT_EQ(turn.event.details.at("through"), 6);
}

TEST_F(AuditNumbers, AnUpgradeKeepsTheBytesOfOldEntries) {
  makeOld();
  const std::vector<std::string> before =
      store::testing::RawFile(dir_.file("ledger.db")).column("SELECT hash FROM audit ORDER BY seq");
  const Entries entries = read();
  ASSERT_EQ(before.size(), 6U);
  ASSERT_EQ(entries.size(), 7U);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(entries[i].hash, before[i]);
    EXPECT_EQ(base::sha256Hex(model::canonicalForm(entries[i])), before[i]);
  }
}

TEST_F(AuditNumbers, OldOnesAreNotTakenAfterTheSwitch) {
  makeOld();
  open();
  ASSERT_TRUE(store::testing::append(*store_, "s", "acme"));
  close();
  const Entries entries = read();
  Entries forged = entries;
  forged[7].seq = 8;  // its position
  expectBoth(forged, 8, "number 6 of tenant acme is missing: number 8 is the next");
  forged.push_back(entries[6]);  // and once more an end of old numbers
  forged[7] = entries[7];
  forged[8].event.details["through"] = int64_t{8};
  write(forged);
  expectBad(reopenAndVerify(), 9, "numbers of the whole log ended before it");
  EXPECT_EQ(runScript(kScript, exported()), 1);
  close();
  forged = entries;
  forged.erase(forged.begin() + 6);  // without the entry that ends the old numbers
  write(forged);
  expectBad(reopenAndVerify(), 7, "no entry ledger.renumbered stands before it");
  EXPECT_EQ(runScript(kScript, exported()), 1);
}

TEST_F(AuditNumbers, ARemovedEntryOfATenantIsNamed) {
  Entries entries = read();
  entries.erase(entries.begin() + 3);
  expectBoth(entries, 5, "number 2 of tenant rival is missing: number 3 is the next");
}

TEST_F(AuditNumbers, ANumberThatIsThereTwiceIsNamed) {
  Entries entries = read();
  entries[5].seq = 2;
  expectBoth(entries, 6, "number 2 of tenant rival is there twice");
}

TEST_F(AuditNumbers, ARemovedEntryBehindTheSwitchIsNamed) {
  makeOld();
  open();
  for (const char* tenant : {"rival", "acme", "rival"})
    ASSERT_TRUE(store::testing::append(*store_, "s", tenant));
  close();
  Entries entries = read();
  entries.erase(entries.begin() + 7);
  expectBoth(entries, 9, "number 7 of tenant rival is missing: number 8 is the next");
}

}  // namespace
}  // namespace cloister::audit
