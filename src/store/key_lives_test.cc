// SPDX-License-Identifier: Apache-2.0
// Upgrades of ledgers from before rotations kept the expiry that a key was given.
#include <cstdint>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "store/open.h"
#include "store/rows/keys.h"
#include "store/sql/raw_testing.h"
#include "store/store_testing.h"

namespace cloister::store {
namespace {

using testing::TempDir;

constexpr int64_t kDay = int64_t{86'400} * 1'000'000;

SqliteOptions ledgerIn(const TempDir& dir) {
  static const auto key = std::make_shared<const base::SigningKey>(base::SigningKey::generate());
  SqliteOptions options;
  options.path = dir.file("ledger.db");
  options.audit_key = key;
  return options;
}

model::AuditEvent noted(const char* action, const std::string& id) {
  return {.action = action, .subject = id, .principal = testing::admin(), .details = {}};
}

KeyRecord keyFor(const std::string& id, int64_t created_at, int64_t days) {
  KeyRecord key;
  key.id = id;
  key.sha256 = base::sha256Hex(id);
  key.principal = testing::principal("acme");
  key.principal.roles = model::Role::kAgent;
  key.created_at = created_at;
  key.expires_at = days == 0 ? 0 : created_at + days * kDay;
  return key;
}

TEST(KeyLives, OfAnOlderLedgerAreThoseOfTheFirstSuccessors) {
  const TempDir dir;
  const int64_t now = base::wallMicros();
  {
    const auto store = openSqlite(ledgerIn(dir)).value();
    for (const auto& [id, days] : {std::pair("key_ever", 0), std::pair("key_brief", 90)}) {
      const KeyRecord key = keyFor(id, now, days);
      ASSERT_TRUE(testing::commit(*store, putKey, key, noted("key.created", id)));
      KeyRecord next = keyFor(std::string(id) + "_next", now, days);
      next.replaces = id;
      ASSERT_TRUE(testing::commit(*store, rotateKey, Scope::allTenants(), next, now + kDay,
                                  noted("key.rotated", next.id)));
    }
  }
  testing::RawFile(dir.file("ledger.db"))
      .run("ALTER TABLE api_keys DROP COLUMN given_expires_at; PRAGMA user_version=26");
  const auto store = openSqlite(ledgerIn(dir)).value();
  const auto given = [&](const char* id) {
    return store->key(Scope::allTenants(), id)->given_expires_at;
  };
  EXPECT_EQ(store->key(Scope::allTenants(), "key_ever")->expires_at, now + kDay);
  EXPECT_EQ(given("key_ever"), 0);
  EXPECT_EQ(given("key_ever_next"), 0);
  EXPECT_EQ(given("key_brief"), now + 90 * kDay);
  EXPECT_EQ(given("key_brief_next"), now + 90 * kDay);
}

}  // namespace
}  // namespace cloister::store
