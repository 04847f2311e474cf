// SPDX-License-Identifier: Apache-2.0
#include "auth/auth.h"

#include <filesystem>
#include <future>
#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "store/open.h"
#include "store/rows/keys.h"
#include "store/rows/ui_sessions.h"

namespace cloister::auth {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

model::Principal tenant(const std::string& name) {
  model::Principal principal;
  principal.tenant = name;
  return principal;
}

model::AuditEvent event(const std::string& action) {
  model::AuditEvent event;
  event.action = action;
  event.principal = tenant("t");
  return event;
}

TEST(Key, IsLongRandomAndKeptOnlyAsItsHash) {
  std::set<std::string> secrets;
  for (int i = 0; i < 100; ++i) {
    const NewKey key = makeKey(tenant("t"), "laptop", 7);
    EXPECT_THAT(key.secret, ::testing::MatchesRegex("clo_[0-9a-f]{64}"));
    EXPECT_TRUE(secrets.insert(key.secret).second);
    EXPECT_EQ(key.record.sha256, base::sha256Hex(key.secret));
    EXPECT_EQ(key.record.principal.key_id, key.record.id);
    EXPECT_EQ(key.record.name, "laptop");
    EXPECT_EQ(key.record.expires_at, 7);
    EXPECT_THAT(key.record.id, Not(HasSubstr(key.secret.substr(4))));
  }
}

class AuthenticatorTest : public ::testing::Test {
 protected:
  AuthenticatorTest() {
    std::string name = ::testing::TempDir() + "auth-XXXXXX";
    dir_ = ::mkdtemp(name.data());
    store::SqliteOptions options;
    options.path = dir_ + "/ledger.db";
    store_ = store::openSqlite(options).value();
  }
  ~AuthenticatorTest() override {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }

  template <class Write>
  void write(const Write& start) {
    std::promise<bool> done;
    start([&](const Result<void>& result) { done.set_value(result.has_value()); });
    ASSERT_TRUE(done.get_future().get());
  }
  void put(const store::KeyRecord& record) {
    write([&](auto done) {
      store_->write(store::writing(store::putKey, record, event("key.created")), done);
    });
  }
  void revoke(const std::string& id) {
    write([&](auto done) {
      store_->write(
          store::writing(store::revokeKey, store::Scope::allTenants(), id, event("key.revoked")),
          done);
    });
  }

  std::string dir_;
  std::unique_ptr<store::Store> store_;
};

TEST_F(AuthenticatorTest, KnowsAStoredKey) {
  NewKey key = makeKey(tenant("acme"), "ci", 0);
  put(key.record);
  Authenticator authenticator(*store_);
  for (int i = 0; i < 2; ++i) {  // from the ledger, then from the cache
    const auto principal = authenticator.authenticate(key.secret);
    ASSERT_TRUE(principal);
    EXPECT_EQ(principal->tenant, "acme");
    EXPECT_EQ(principal->key_id, key.record.id);
    EXPECT_FALSE(principal->isAdmin());
  }
}

TEST_F(AuthenticatorTest, ASignInRefersToTheSessionThatItReplaces) {
  Authenticator authenticator(*store_);
  WebSessions& sessions = authenticator.sessions();
  const NewWebSession mine = sessions.ofUser(tenant("acme"), "ann");
  const NewWebSession theirs = sessions.ofUser(tenant("acme"), "bob");
  for (const NewWebSession* each : {&mine, &theirs}) {
    write([&](auto done) {
      store_->write(store::writing(store::putUiSession, each->session, sessions.room(),
                                   event("ui.signed_in")),
                    done);
    });
  }
  const std::string reference = WebSessions::referenceTo(mine.session);
  const auto found = sessions.referred(reference);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, mine.session.id);
  EXPECT_THAT(reference, Not(HasSubstr(mine.session.sha256)));
  const std::string proof = reference.substr(mine.session.id.size());
  for (const std::string& wrong :
       {std::string(), mine.session.id, mine.session.id + "-", theirs.session.id + proof}) {
    EXPECT_FALSE(sessions.referred(wrong)) << wrong;
  }
  write([&](auto done) {
    store_->write(store::writing(store::removeUiSession, mine.session.id, event("ui.signed_out")),
                  done);
  });
  EXPECT_FALSE(sessions.referred(reference)) << "it has ended";
}

TEST_F(AuthenticatorTest, NoCredentialIsForWhatTheServiceItselfIs) {
  model::Principal agent = tenant("acme");
  agent.agent = "cloister.deps";
  const NewKey of_tenant = makeKey(tenant(std::string(model::kInstallerTenant)), "", 0);
  const NewKey of_agent = makeKey(agent, "", 0);
  const NewKey alike = makeKey(tenant("cloister"), "", 0);
  for (const NewKey* key : {&of_tenant, &of_agent, &alike})
    put(key->record);
  Authenticator authenticator(*store_);
  const auto known = [&](const NewKey& key) {
    boost::asio::io_context io;
    auto who = boost::asio::co_spawn(io, authenticator.identify(key.secret, std::nullopt),
                                     boost::asio::use_future);
    io.run();
    return who.get().has_value();
  };
  EXPECT_FALSE(known(of_tenant));
  EXPECT_FALSE(known(of_agent));
  EXPECT_TRUE(known(alike));
}

TEST_F(AuthenticatorTest, RefusesAllElseInTheSameWords) {
  const NewKey expired = makeKey(tenant("t"), "", base::wallMicros() - 1);
  const NewKey revoked = makeKey(tenant("t"), "", 0);
  const NewKey good = makeKey(tenant("t"), "", 0);
  for (const NewKey* key : {&expired, &revoked, &good})
    put(key->record);
  revoke(revoked.record.id);
  Authenticator authenticator(*store_);
  std::set<std::string> messages;
  for (const std::string& secret :
       {std::string(), std::string("clo_"), expired.secret, revoked.secret, good.record.sha256,
        good.secret + "0", good.secret.substr(1), " " + good.secret, std::string(1 << 20, 'a'),
        good.secret + std::string(1, '\0'), std::string("' OR 1=1 --")}) {
    const auto principal = authenticator.authenticate(secret);
    ASSERT_FALSE(principal);
    EXPECT_EQ(principal.error().code, Code::kUnauthorized);
    messages.insert(principal.error().message);
  }
  EXPECT_EQ(messages.size(), 1U);
  EXPECT_TRUE(authenticator.authenticate(good.secret));
}

TEST_F(AuthenticatorTest, ARevokedKeyIsRefusedOnceForgotten) {
  const NewKey key = makeKey(tenant("t"), "", 0);
  put(key.record);
  Authenticator authenticator(*store_);
  ASSERT_TRUE(authenticator.authenticate(key.secret));
  revoke(key.record.id);
  authenticator.forget();
  EXPECT_FALSE(authenticator.authenticate(key.secret));
}

TEST_F(AuthenticatorTest, WhatWasBegunStandsAsLongAsItsCredential) {
  const NewKey key = makeKey(tenant("t"), "", 0);
  put(key.record);
  Authenticator authenticator(*store_);
  int changes = 0;
  authenticator.onChange([&] { ++changes; });
  EXPECT_TRUE(authenticator.stands({key.record.id}));
  EXPECT_TRUE(authenticator.stands({})) << "none was needed";
  revoke(key.record.id);
  authenticator.forget();
  EXPECT_EQ(changes, 1);
  EXPECT_FALSE(authenticator.stands({key.record.id}));
  const int64_t now = base::wallMicros();
  EXPECT_TRUE(authenticator.stands({"jwt_1", now + 60'000'000}));
  EXPECT_FALSE(authenticator.stands({"jwt_1", now}));
  EXPECT_FALSE(authenticator.stands({"uis_gone"})) << "a link of a sign-in that has ended";
}

TEST_F(AuthenticatorTest, ACachedAnswerEndsWithItsKey) {
  const int64_t soon = base::wallMicros() + 50'000;
  const NewKey key = makeKey(tenant("t"), "", soon);
  put(key.record);
  Authenticator authenticator(*store_);
  while (base::wallMicros() < soon) {
    if (!authenticator.authenticate(key.secret)) break;
  }
  EXPECT_GE(base::wallMicros(), soon);
  EXPECT_FALSE(authenticator.authenticate(key.secret));
}

TEST_F(AuthenticatorTest, LimitsWrongCredentialsOfAnAddress) {
  const NewKey key = makeKey(tenant("t"), "", 0);
  put(key.record);
  put(recordFor("made up", tenant("t"), "short"));
  Authenticator authenticator(*store_, {.failures_per_minute = 3});
  const auto offer = [&](std::string_view secret, const char* from) {
    boost::asio::io_context io;
    auto who = boost::asio::co_spawn(io, authenticator.identify(secret, base::Address::parse(from)),
                                     boost::asio::use_future);
    io.run();
    const auto got = who.get();
    return got ? Code::kInternal : got.error().code;
  };
  constexpr Code kGood = Code::kInternal;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(offer("wrong", "10.0.0.1"), Code::kUnauthorized);
  EXPECT_EQ(offer("wrong", "10.0.0.1"), Code::kQuota);
  EXPECT_EQ(offer("clo_" + std::string(64, '0'), "10.0.0.1"), Code::kQuota);
  EXPECT_EQ(offer("made up", "10.0.0.1"), Code::kQuota) << "it could be a guess";
  EXPECT_EQ(offer(key.secret, "10.0.0.1"), kGood) << "it could not";
  EXPECT_EQ(offer("", "10.0.0.1"), Code::kUnauthorized);
  EXPECT_EQ(offer("wrong", "10.0.0.2"), Code::kUnauthorized);
  EXPECT_EQ(offer("made up", "10.0.0.2"), kGood);
}

TEST_F(AuthenticatorTest, AKeyIsGoodFromItsAddresses) {
  NewKey key = makeKey(tenant("t"), "", 0);
  key.record.networks = {base::Network::parse("10.0.0.0/8").value()};
  put(key.record);
  Authenticator authenticator(*store_);
  for (int i = 0; i < 2; ++i) {  // from the ledger, then from the cache
    EXPECT_TRUE(authenticator.authenticate(key.secret, base::Address::parse("10.1.1.1")));
    EXPECT_FALSE(authenticator.authenticate(key.secret, base::Address::parse("11.1.1.1")));
    EXPECT_FALSE(authenticator.authenticate(key.secret)) << "a Unix socket is of this machine";
  }
}

TEST_F(AuthenticatorTest, TakesAnExistingSecret) {
  model::Principal admin = tenant("default");
  admin.roles = model::Role::kAdmin;
  put(recordFor("the secret of admin.key", admin, "admin"));
  Authenticator authenticator(*store_);
  EXPECT_TRUE(authenticator.authenticate("the secret of admin.key")->isAdmin());
}

}  // namespace
}  // namespace cloister::auth
