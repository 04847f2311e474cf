// SPDX-License-Identifier: Apache-2.0
// Part of StoreSuite: secrets of tenants.
#pragma once

#include <string>
#include <vector>

#include "store/rows/secrets.h"
#include "store/secret_store.h"
#include "store/suite/fixture.h"

namespace cloister::store {

namespace secrets {

inline model::AuditEvent event(const std::string& action, const SecretName& of) {
  return {.action = action, .subject = secretSubject(of), .principal = admin(), .details = {}};
}

inline Result<SecretInfo> put(Store& store, const SecretName& of, const std::string& value,
                              int64_t at = 10, int64_t expires_at = 0, uint64_t most = 100) {
  return commit(store, putSecret, {.of = of, .value = value, .expires_at = expires_at, .at = at},
                most, event("secret.set", of));
}

inline Result<void> remove(Store& store, const SecretName& of) {
  return commit(store, removeSecret, of, int64_t{99}, event("secret.deleted", of));
}

inline std::vector<std::string> names(Store& store, const std::string& tenant) {
  std::vector<std::string> all;
  for (const SecretInfo& each : store.secrets().list(tenant).value())
    all.push_back(each.name);
  return all;
}

}  // namespace secrets

TEST_P(StoreSuite, SecretsAreKeptByteForByteUnderVersions) {
  const std::string value("line\n\xff\0 end", 11);
  const auto first = secrets::put(*store_, {"acme", "KEY"}, value, 10, 77);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(*first, (SecretInfo{.name = "KEY",
                                .version = 1,
                                .created_at = 10,
                                .updated_at = 10,
                                .updated_by = admin().key_id,
                                .expires_at = 77,
                                .last_used_at = 0}));
  const auto stored = store_->secrets().value({"acme", "KEY"});
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(stored->value, value);
  EXPECT_EQ(stored->info, *first);
  const auto second = secrets::put(*store_, {"acme", "KEY"}, "next", 20);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->version, 2U);
  EXPECT_EQ(second->created_at, 10);
  EXPECT_EQ(second->updated_at, 20);
  EXPECT_EQ(second->expires_at, 0);
  EXPECT_EQ(store_->secrets().value({"acme", "KEY"})->value, "next");
  EXPECT_EQ(store_->secrets().info({"acme", "KEY"}), *second);
}

TEST_P(StoreSuite, ADeletedSecretIsGoneAndItsVersionsStay) {
  ASSERT_TRUE(secrets::put(*store_, {"acme", "KEY"}, "first value"));
  ASSERT_TRUE(secrets::remove(*store_, {"acme", "KEY"}));
  EXPECT_EQ(store_->secrets().value({"acme", "KEY"}).error().code, Code::kNotFound);
  EXPECT_EQ(store_->secrets().info({"acme", "KEY"}).error().code, Code::kNotFound);
  EXPECT_TRUE(secrets::names(*store_, "acme").empty());
  EXPECT_EQ(secrets::remove(*store_, {"acme", "KEY"}).error().code, Code::kNotFound);
  const auto again = secrets::put(*store_, {"acme", "KEY"}, "second value", 30);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->version, 2U) << "a record of version 1 never means another value";
  EXPECT_EQ(again->created_at, 30);
}

TEST_P(StoreSuite, SecretsOfAnotherTenantAreNone) {
  ASSERT_TRUE(secrets::put(*store_, {"acme", "KEY"}, "of acme"));
  ASSERT_TRUE(secrets::put(*store_, {"rival", "OTHER"}, "of rival"));
  EXPECT_EQ(store_->secrets().value({"rival", "KEY"}).error().code, Code::kNotFound);
  EXPECT_EQ(secrets::remove(*store_, {"rival", "KEY"}).error().code, Code::kNotFound);
  EXPECT_EQ(secrets::names(*store_, "rival"), std::vector<std::string>{"OTHER"});
  EXPECT_EQ(store_->secrets().value({"acme", "KEY"})->value, "of acme");
}

TEST_P(StoreSuite, SecretsAreListedByNameAndBounded) {
  for (const char* name : {"C", "A", "B"})
    ASSERT_TRUE(secrets::put(*store_, {"acme", name}, "some value", 10, 0, 3));
  EXPECT_EQ(secrets::names(*store_, "acme"), (std::vector<std::string>{"A", "B", "C"}));
  EXPECT_EQ(store_->secrets().list("acme", "A", 1)->front().name, "B");
  const auto full = secrets::put(*store_, {"acme", "D"}, "some value", 10, 0, 3);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kQuota);
  EXPECT_TRUE(full.error().message.contains("secrets.per_tenant"));
  EXPECT_TRUE(secrets::put(*store_, {"acme", "A"}, "another", 11, 0, 3)) << "its own place";
  EXPECT_TRUE(secrets::put(*store_, {"rival", "D"}, "another", 11, 0, 3));
  ASSERT_TRUE(secrets::remove(*store_, {"acme", "B"}));
  EXPECT_TRUE(secrets::put(*store_, {"acme", "D"}, "another", 11, 0, 3));
}

TEST_P(StoreSuite, ChangesAndUsesOfSecretsHaveAuditRowsWithoutTheValue) {
  const size_t before = auditAll().size();
  const SecretName of{"a/b", "KEY"};
  ASSERT_TRUE(secrets::put(*store_, of, "Xylophonist"));
  ASSERT_TRUE(commit(*store_, noteSecretsUsed, "a/b", std::vector<std::string>{"KEY", "GONE"},
                     int64_t{50}, secrets::event("secret.used", of)));
  EXPECT_EQ(store_->secrets().info(of)->last_used_at, 50);
  ASSERT_TRUE(secrets::remove(*store_, of));
  EXPECT_FALSE(secrets::remove(*store_, of));
  const auto entries = auditAll();
  ASSERT_EQ(entries.size(), before + 3) << "what was refused has no row";
  EXPECT_EQ(entries[before].event.action, "secret.set");
  EXPECT_EQ(entries[before].event.subject, "secret:a%2Fb/KEY");
  EXPECT_EQ(entries[before].event.details, (base::json::object{{"version", 1}}));
  EXPECT_EQ(entries[before + 1].event.action, "secret.used");
  EXPECT_EQ(entries[before + 2].event.action, "secret.deleted");
}

}  // namespace cloister::store
