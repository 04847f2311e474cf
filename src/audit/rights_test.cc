// SPDX-License-Identifier: Apache-2.0
// Keys and policies that an attacker changed in the ledger, and the result of the verification.
#include <functional>
#include <utility>

#include "audit/audit_fixture.h"
#include "base/crypto.h"
#include "store/rows/keys.h"
#include "store/rows/policies.h"
#include "store/rows/ui_sessions.h"

namespace cloister::audit {
namespace {

// A valid key, a revoked key, and two versions of the policy.
class AuditRights : public AuditVerify {
 protected:
  void SetUp() override {
    AuditVerify::SetUp();
    open();
    for (const std::string id : {"key_good", "key_gone"}) {
      store::KeyRecord key;
      key.id = key.name = id;
      key.sha256 = base::sha256Hex(id);
      key.principal = store::testing::principal("acme");
      made(key.id, [&](const model::AuditEvent& event, store::Done<void> done) {
        store_->write(store::writing(store::putKey, key, event), std::move(done));
      });
    }
    const auto revoked =
        store::testing::commit(*store_, store::revokeKey, store::Scope::allTenants(), "key_gone",
                               event("key.revoked", "key_gone"));
    ASSERT_TRUE(revoked) << revoked.error().message;
    for (const std::string text : {"one", "two"}) {
      store::NewPolicy policy;
      policy.policy.document = text;
      policy.policy.sha256 = base::sha256Hex(text);
      policy.keep = 10;
      const auto put =
          store::testing::commit(*store_, store::putPolicy, policy, event("policy.applied", ""));
      ASSERT_TRUE(put) << put.error().message;
    }
    close();
    ASSERT_TRUE(reopenAndVerify().ok);
    close();
  }

  static model::AuditEvent event(const std::string& action, const std::string& about) {
    return {.action = action,
            .subject = about,
            .principal = store::testing::admin(),
            .details = {{"roles", {"agent"}}}};
  }
  void made(const std::string& id,
            const std::function<void(const model::AuditEvent&, store::Done<void>)>& put) {
    const auto done = store::testing::await<void>(
        [&](store::Done<void> then) { put(event("key.created", id), std::move(then)); });
    ASSERT_TRUE(done) << done.error().message;
  }
};

TEST_F(AuditRights, FindsAKeyThatTheLogDoesNotBearOut) {
  const std::pair<std::string, std::string> cases[] = {
      {"UPDATE api_keys SET revoked_at=0", "key key_gone: it is good, though audit entry "},
      {"UPDATE api_keys SET roles='admin' WHERE id='key_good'",
       "key key_good: its roles are not those of audit entry "},
      {"UPDATE api_keys SET id='key_mine' WHERE id='key_good'",
       "key key_mine: no audit entry tells that it was made"}};
  for (const auto& [change, words] : cases) {
    SCOPED_TRACE(change);
    sql("CREATE TABLE kept AS SELECT * FROM api_keys; " + change);
    expectBad(reopenAndVerify(), 0, words);
    close();
    sql("DELETE FROM api_keys; INSERT INTO api_keys SELECT * FROM kept; DROP TABLE kept");
  }
  EXPECT_TRUE(reopenAndVerify().ok);
}

TEST_F(AuditRights, FindsASignInThatTheLogDoesNotBearOut) {
  open();
  store::UiSession session{.id = "uis_a",
                           .sha256 = base::sha256Hex("cookie"),
                           .person = "user_1",
                           .issuer = "https://login.test",
                           .principal = store::testing::principal("acme"),
                           .created_at = 100,
                           .used_at = 100,
                           .ends_at = 1000};
  session.principal.roles = model::Role::kViewer;
  session.principal.key_id = session.id;
  model::AuditEvent begun = event("ui.signed_in", session.id);
  begun.details[store::kSessionRights] = rightsOf(session);
  ASSERT_TRUE(
      store::testing::commit(*store_, store::putUiSession, session, store::UiSessionRoom{}, begun));
  close();
  ASSERT_TRUE(reopenAndVerify().ok);
  close();
  const std::pair<std::string, std::string> cases[] = {
      {"UPDATE ui_sessions SET roles='admin'", "sign-in uis_a: its rights are not those of audit"},
      {"UPDATE ui_sessions SET sha256='" + base::sha256Hex("mine") + "'",
       "sign-in uis_a: its rights are not those of audit"},
      {"UPDATE ui_sessions SET id='uis_mine', credential='key_good', issuer=''",
       "sign-in uis_mine: no audit entry tells that it was begun"}};
  for (const auto& [change, words] : cases) {
    SCOPED_TRACE(change);
    sql("CREATE TABLE kept AS SELECT * FROM ui_sessions; " + change);
    expectBad(reopenAndVerify(), 0, words);
    close();
    sql("DELETE FROM ui_sessions; INSERT INTO ui_sessions SELECT * FROM kept; DROP TABLE kept");
  }
  sql("CREATE TABLE kept AS SELECT * FROM ui_sessions");
  open();
  ASSERT_TRUE(store::testing::commit(*store_, store::removeUiSession, session.id,
                                     event("ui.sign_in_ended", session.id)));
  close();
  sql("INSERT INTO ui_sessions SELECT * FROM kept; DROP TABLE kept");
  expectBad(reopenAndVerify(), 0, "sign-in uis_a: it is open, though audit entry ");
}

TEST_F(AuditRights, FindsAPolicyThatNobodyApplied) {
  sql("UPDATE policies SET sha256='" + base::sha256Hex("three") + "' WHERE version=2");
  expectBad(reopenAndVerify(), 0, "policy version 2: it is not the document of audit entry ");
  close();
  sql("DELETE FROM policies WHERE version=2; UPDATE policies SET version=3");
  expectBad(reopenAndVerify(), 0, "policy version 3: no audit entry tells that it was applied");
}

}  // namespace
}  // namespace cloister::audit
