// SPDX-License-Identifier: Apache-2.0
// Part of StoreSuite: API keys with roles, addresses, successors and their last use.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "base/crypto.h"
#include "store/rows/keys.h"
#include "store/suite/fixture.h"

namespace cloister::store {

inline KeyRecord keyOf(const std::string& id, model::Roles roles, const std::string& tenant) {
  KeyRecord key;
  key.id = id;
  key.sha256 = base::sha256Hex(id);
  key.name = "test";
  key.principal = principal(tenant);
  key.principal.roles = roles;
  key.created_at = base::wallMicros();
  return key;
}
inline model::AuditEvent keyEvent(std::string action, const std::string& id) {
  return {.action = std::move(action), .subject = id, .principal = admin(), .details = {}};
}
inline Result<void> put(Store& store, const KeyRecord& key) {
  return commit(store, putKey, key, keyEvent("key.created", key.id));
}
inline Result<void> revoke(Store& store, const Scope& scope, const std::string& id) {
  return commit(store, revokeKey, scope, id, keyEvent("key.revoked", id));
}
inline Result<void> rotate(Store& store, const Scope& scope, const KeyRecord& key,
                           int64_t ends_at) {
  return commit(store, rotateKey, scope, key, ends_at, keyEvent("key.rotated", key.id));
}

TEST_P(StoreSuite, KeepsRolesAndAddresses) {
  KeyRecord key =
      keyOf("key_a", model::Roles(model::Role::kAgent).with(model::Role::kViewer), "acme");
  key.networks = {base::Network::parse("10.0.0.0/8").value(),
                  base::Network::parse("2001:db8::/32").value()};
  ASSERT_TRUE(put(*store_, key));
  const auto found = store_->key(all_, "key_a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->principal.roles, key.principal.roles);
  EXPECT_EQ(found->networks, key.networks);
  EXPECT_EQ(found->last_used_at, 0);
  EXPECT_FALSE(put(*store_, keyOf("key_none", {}, "acme"))) << "a key without a role";
}

TEST_P(StoreSuite, TheLastAdministratorStays) {
  const int64_t now = base::wallMicros();
  ASSERT_TRUE(put(*store_, keyOf("key_1", model::Role::kAdmin, "ops")));
  KeyRecord expired = keyOf("key_2", model::Role::kAdmin, "ops");
  expired.expires_at = now - 1;
  ASSERT_TRUE(put(*store_, expired));
  ASSERT_TRUE(put(*store_, keyOf("key_3", model::Role::kTenantAdmin, "ops")));
  EXPECT_EQ(revoke(*store_, all_, "key_1").error().code, Code::kConflict);
  EXPECT_TRUE(revoke(*store_, all_, "key_2")) << "it is worth nothing";
  EXPECT_EQ(store_->key(all_, "key_1")->revoked_at, 0);
  ASSERT_TRUE(put(*store_, keyOf("key_4", model::Role::kAdmin, "other")));
  EXPECT_TRUE(revoke(*store_, all_, "key_1"));
  EXPECT_EQ(revoke(*store_, all_, "key_4").error().code, Code::kConflict);
}

TEST_P(StoreSuite, ASuccessorEndsTheOldKeyLater) {
  const int64_t later = base::wallMicros() + 60'000'000;
  ASSERT_TRUE(put(*store_, keyOf("key_a", model::Role::kAgent, "acme")));
  KeyRecord next = keyOf("key_b", model::Role::kAgent, "acme");
  next.replaces = "key_a";
  EXPECT_EQ(rotate(*store_, Scope::of(testing::principal("rival")), next, later).error().code,
            Code::kNotFound);
  EXPECT_FALSE(store_->key(all_, "key_b"));
  ASSERT_TRUE(rotate(*store_, Scope::of(testing::principal("acme")), next, later));
  EXPECT_EQ(store_->key(all_, "key_a")->expires_at, later);
  EXPECT_EQ(store_->key(all_, "key_b")->replaces, "key_a");
  KeyRecord third = keyOf("key_c", model::Role::kAgent, "acme");
  third.replaces = "key_a";
  ASSERT_TRUE(rotate(*store_, all_, third, later + 1));
  EXPECT_EQ(store_->key(all_, "key_a")->expires_at, later) << "never longer than before";
  EXPECT_EQ(store_->key(all_, "key_a")->given_expires_at, 0) << "it was given for ever";
  ASSERT_TRUE(revoke(*store_, all_, "key_a"));
  third.id = "key_d";
  third.sha256 = base::sha256Hex("key_d");
  const auto again = rotate(*store_, all_, third, later);
  EXPECT_EQ(again.error().code, Code::kConflict);
  EXPECT_TRUE(again.error().message.contains("; rotate key_")) << again.error().message;
  EXPECT_EQ(auditAll().back().event.action, "key.revoked") << "what did not happen is not told";
}

TEST_P(StoreSuite, RotationsKeepTheExpiryThatAKeyWasGiven) {
  const int64_t now = base::wallMicros();
  constexpr int64_t kHour = int64_t{3600} * 1'000'000;
  KeyRecord key = keyOf("key_a", model::Role::kAgent, "acme");
  key.expires_at = now + 90 * kHour;
  ASSERT_TRUE(put(*store_, key));
  EXPECT_EQ(store_->key(all_, "key_a")->given_expires_at, now + 90 * kHour);
  for (const auto& [id, ends_at] :
       {std::pair("key_b", now + 2 * kHour), std::pair("key_c", now + kHour)}) {
    KeyRecord next = keyOf(id, model::Role::kAgent, "acme");
    next.replaces = "key_a";
    ASSERT_TRUE(rotate(*store_, all_, next, ends_at));
    const KeyRecord old = store_->key(all_, "key_a").value();
    EXPECT_EQ(old.expires_at, ends_at);
    EXPECT_EQ(old.given_expires_at, now + 90 * kHour);
  }
  EXPECT_EQ(store_->key(all_, "key_c")->given_expires_at, 0);
}

// A key's work continues under the key's successor, and ends with the successor.
TEST_P(StoreSuite, ACredentialStandsInItsSuccessor) {
  const int64_t past = base::wallMicros() - 1;
  const auto succeed = [&](const std::string& id, const std::string& old, int64_t ends_at) {
    KeyRecord next = keyOf(id, model::Role::kAgent, "acme");
    next.replaces = old;
    ASSERT_TRUE(rotate(*store_, all_, next, ends_at));
  };
  ASSERT_TRUE(put(*store_, keyOf("key_a", model::Role::kAgent, "acme")));
  EXPECT_TRUE(stillHolds(*store_, "key_a"));
  EXPECT_TRUE(stillHolds(*store_, "jwt_1")) << "no key: it was good at the start";
  succeed("key_b", "key_a", past);
  succeed("key_c", "key_b", past);
  EXPECT_TRUE(stillHolds(*store_, "key_a")) << "by key_b, by key_c";
  EXPECT_FALSE(isRevoked(*store_, "key_a").value());
  ASSERT_TRUE(revoke(*store_, all_, "key_c"));
  EXPECT_EQ(stillHolds(*store_, "key_a").error().code, Code::kDenied);
  EXPECT_TRUE(isRevoked(*store_, "key_a").value());
}

// A tenant's other keys do not matter; the limit bounds the keys read at each check.
TEST_P(StoreSuite, SuccessorsAreThoseOfOneKeyAndBounded) {
  const int64_t past = base::wallMicros() - 1;
  const auto succeed = [&](const std::string& id, const std::string& old) {
    KeyRecord next = keyOf(id, model::Role::kAgent, "acme");
    next.replaces = old;
    ASSERT_TRUE(rotate(*store_, all_, next, past));
  };
  const auto found = [&](const std::string& id, uint32_t limit) {
    std::vector<std::string> ids;
    for (const KeyRecord& key : store_->successors(id, base::wallMicros(), limit).value())
      ids.push_back(key.id);
    std::ranges::sort(ids);
    return ids;
  };
  ASSERT_TRUE(put(*store_, keyOf("key_0", model::Role::kAgent, "acme")));
  ASSERT_TRUE(put(*store_, keyOf("key_other", model::Role::kAgent, "acme")));
  succeed("key_1", "key_0");
  succeed("key_2", "key_1");
  EXPECT_EQ(found("key_0", 10), (std::vector<std::string>{"key_1", "key_2"}));
  EXPECT_EQ(found("key_1", 10), std::vector<std::string>{"key_2"});
  EXPECT_EQ(found("key_other", 10), std::vector<std::string>{});
  EXPECT_EQ(found("key_0", 1).size(), 1U);
  for (uint32_t at = 3; at <= kMostSuccessors + 1; ++at)
    succeed("key_" + std::to_string(at), "key_" + std::to_string(at - 1));
  EXPECT_EQ(stillHolds(*store_, "key_0").error().code, Code::kDenied) << "too far from it";
  EXPECT_TRUE(isRevoked(*store_, "key_0").value());
  EXPECT_TRUE(stillHolds(*store_, "key_2"));
}

TEST_P(StoreSuite, ExpiryIsNoRevocation) {
  KeyRecord expired = keyOf("key_a", model::Role::kAgent, "acme");
  expired.expires_at = base::wallMicros() - 1;
  ASSERT_TRUE(put(*store_, expired));
  EXPECT_EQ(stillHolds(*store_, "key_a").error().code, Code::kDenied);
  EXPECT_FALSE(isRevoked(*store_, "key_a").value());
  ASSERT_TRUE(put(*store_, keyOf("key_b", model::Role::kAgent, "acme")));
  KeyRecord next = keyOf("key_c", model::Role::kAgent, "acme");
  next.replaces = "key_b";
  ASSERT_TRUE(rotate(*store_, all_, next, base::wallMicros() + 60'000'000));
  ASSERT_TRUE(revoke(*store_, all_, "key_b"));
  EXPECT_FALSE(stillHolds(*store_, "key_b")) << "revoked is revoked, whatever came after it";
  EXPECT_TRUE(isRevoked(*store_, "key_b").value());
}

TEST_P(StoreSuite, NotesTheLastUse) {
  const auto use = [&](int64_t at) { return commit(*store_, noteKeyUse, "key_a", at); };
  ASSERT_TRUE(put(*store_, keyOf("key_a", model::Role::kAgent, "acme")));
  const size_t rows = auditAll().size();
  ASSERT_TRUE(use(2 * kUseGrain));
  ASSERT_TRUE(use(kUseGrain)) << "a clock that was set back";
  EXPECT_EQ(store_->key(all_, "key_a")->last_used_at, 2 * kUseGrain);
  EXPECT_EQ(auditAll().size(), rows);
}

}  // namespace cloister::store
