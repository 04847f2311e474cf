// SPDX-License-Identifier: Apache-2.0
// Part of StoreSuite: sessions of the web interface.
#pragma once

#include "base/crypto.h"
#include "store/rows/ui_sessions.h"
#include "store/suite/fixture.h"

namespace cloister::store {

inline UiSession uiSessionOf(const std::string& id, const std::string& person, int64_t used_at) {
  UiSession session{.id = id,
                    .sha256 = base::sha256Hex(id),
                    .person = person,
                    .issuer = "https://login.test",
                    .principal = principal("acme"),
                    .created_at = 100,
                    .used_at = used_at,
                    .ends_at = 1000};
  session.principal.roles = model::Roles(model::Role::kAgent).with(model::Role::kViewer);
  session.principal.key_id = id;
  return session;
}
inline Result<void> putUi(Store& store, const UiSession& session, const UiSessionRoom& room = {}) {
  return commit(
      store, putUiSession, session, room,
      {.action = "ui.signed_in", .subject = session.id, .principal = admin(), .details = {}});
}

TEST_P(StoreSuite, KeepsUiSessions) {
  const UiSession session = uiSessionOf("uis_a", "user_1", 100);
  ASSERT_TRUE(putUi(*store_, session));
  const auto found = store_->uiSessionByHash(session.sha256);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->id, "uis_a");
  EXPECT_EQ((*found)->person, "user_1");
  EXPECT_EQ((*found)->issuer, "https://login.test");
  EXPECT_EQ((*found)->principal.roles, session.principal.roles);
  EXPECT_EQ((*found)->principal.key_id, "uis_a");
  EXPECT_EQ((*found)->ends_at, 1000);
  EXPECT_FALSE(*store_->uiSessionByHash(base::sha256Hex("other")));
  ASSERT_TRUE(commit(*store_, noteUiSessionUse, std::string("uis_a"), int64_t{200}));
  ASSERT_TRUE(commit(*store_, noteUiSessionUse, std::string("uis_a"), int64_t{150}));
  EXPECT_EQ((*store_->uiSession("uis_a"))->used_at, 200);
  EXPECT_EQ(store_->uiSessions(Scope::of(principal("acme")), 10)->size(), 1U);
  EXPECT_TRUE(store_->uiSessions(Scope::of(principal("rival")), 10)->empty());
  EXPECT_EQ(store_->uiSessions(all_, 10)->at(0).id, "uis_a");
  const model::AuditEvent out{
      .action = "ui.signed_out", .subject = "uis_a", .principal = admin(), .details = {}};
  ASSERT_TRUE(commit(*store_, removeUiSession, std::string("uis_a"), out));
  ASSERT_TRUE(commit(*store_, removeUiSession, std::string("uis_a"), out)) << "twice is once";
  EXPECT_FALSE(*store_->uiSession("uis_a"));
  EXPECT_EQ(store_->audit(all_, 0, 100)->size(), 2U);
}

TEST_P(StoreSuite, BoundsUiSessions) {
  const UiSessionRoom room{.most = 3, .per_person = 2, .unused_since = 50};
  ASSERT_TRUE(putUi(*store_, uiSessionOf("uis_idle", "user_2", 49), room));
  UiSession over = uiSessionOf("uis_over", "user_3", 100);
  over.ends_at = 100;
  ASSERT_TRUE(putUi(*store_, over, room));
  for (const auto& [id, used] :
       {std::pair("uis_a", 70), std::pair("uis_b", 60), std::pair("uis_c", 80)})
    ASSERT_TRUE(putUi(*store_, uiSessionOf(id, "user_1", used), room)) << id;
  EXPECT_FALSE(*store_->uiSession("uis_idle"));
  EXPECT_FALSE(*store_->uiSession("uis_over"));
  EXPECT_FALSE(*store_->uiSession("uis_b")) << "the person's longest unused";
  ASSERT_TRUE(putUi(*store_, uiSessionOf("uis_d", "user_4", 100), room));
  const auto full = putUi(*store_, uiSessionOf("uis_e", "user_5", 100), room);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kQuota);
  EXPECT_TRUE(putUi(*store_, uiSessionOf("uis_f", "user_1", 100), room)) << "in place of uis_a";
  EXPECT_FALSE(*store_->uiSession("uis_a"));
  UiSession nobody = uiSessionOf("uis_n", "user_1", 100);
  nobody.principal.roles = {};
  EXPECT_FALSE(putUi(*store_, nobody, room));
}

TEST_P(StoreSuite, ATenantLeavesPlacesToOthers) {
  const UiSessionRoom room{.most = 8, .per_person = 2, .unused_since = 0};
  const auto begun = [&](const std::string& id, const std::string& tenant,
                         model::Roles roles = model::Role::kViewer) {
    UiSession session = uiSessionOf("uis_" + id, "user_" + id, 100);
    session.principal.tenant = tenant;
    session.principal.roles = roles;
    return putUi(*store_, session, room);
  };
  for (const std::string id : {"a", "b", "c", "d", "e", "f"})
    ASSERT_TRUE(begun(id, "acme")) << id;
  const auto full = begun("g", "acme");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kQuota);
  EXPECT_TRUE(begun("h", "rival"));
  EXPECT_TRUE(begun("i", "third"));
  EXPECT_FALSE(begun("j", "fourth")) << "all places are taken";
  EXPECT_TRUE(begun("k", "acme", model::Role::kAdmin)) << "somebody must be able to help";
}

}  // namespace cloister::store
