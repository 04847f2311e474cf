// SPDX-License-Identifier: Apache-2.0
#include "auth/certificates.h"

#include <gtest/gtest.h>

namespace cloister::auth {
namespace {

constexpr int64_t kNow = 1'000;
const std::string kDigest = std::string(32, 'a') + std::string(32, 'b');

TEST(Certificates, ARowSaysWhoACertificateIs) {
  const auto rows = Certificates::parse(
      {"uri:spiffe://corp/a?b=c = tenant:acme app:ci agent:alice user:bob roles:agent,viewer",
       "dns:ops.example.com = tenant:acme roles:operator"});
  ASSERT_TRUE(rows) << rows.error().message;
  const auto who = rows->identify(
      {.names = {"dns:unknown", "uri:spiffe://corp/a?b=c"}, .sha256 = kDigest, .not_after = 2'000},
      kNow);
  ASSERT_TRUE(who);
  EXPECT_EQ(who->tenant, "acme");
  EXPECT_EQ(who->app, "ci");
  EXPECT_EQ(who->agent, "alice");
  EXPECT_EQ(who->user, "bob");
  EXPECT_EQ(who->roles, model::Roles(model::Role::kAgent).with(model::Role::kViewer));
  EXPECT_EQ(who->key_id, "cert_" + std::string(32, 'a'));
}

TEST(Certificates, NobodyElseIsAnybody) {
  const auto rows = Certificates::parse({"dns:a.example = tenant:acme roles:agent"});
  ASSERT_TRUE(rows);
  const auto code = [&](std::vector<std::string> names, int64_t not_after) {
    const auto who = rows->identify({std::move(names), kDigest, not_after}, kNow);
    return who ? Code::kInternal : who.error().code;
  };
  EXPECT_EQ(code({"dns:a.example"}, kNow), Code::kUnauthorized) << "it has just expired";
  EXPECT_EQ(code({"uri:a.example"}, 2'000), Code::kUnauthorized) << "a name of another kind";
  EXPECT_EQ(code({"dns:A.example"}, 2'000), Code::kUnauthorized);
  EXPECT_EQ(code({}, 2'000), Code::kUnauthorized);
  EXPECT_EQ(code({"dns:a.example"}, kNow + 1), Code::kInternal) << "still good";
}

TEST(Certificates, RowsThatSaySomethingElseAreRefused) {
  for (const std::string row :
       {"", "dns:a", "dns:a=tenant:t roles:agent", "a = tenant:t roles:agent",
        "dns: = tenant:t roles:agent", "dns:a = roles:agent", "dns:a = tenant:t",
        "dns:a = tenant: roles:agent", "dns:a = tenant:t roles:", "dns:a = tenant:t roles:king",
        "dns:a = tenant:t tenant:u roles:agent", "dns:a = tenant:t colour:red roles:agent",
        "dns:a = tenant:t roles:agent,tenant-admin"}) {
    const auto rows = Certificates::parse({row});
    ASSERT_FALSE(rows) << row;
    EXPECT_EQ(rows.error().field, "tls.clients");
    EXPECT_NE(rows.error().message.find("NAME = tenant:T"), std::string::npos);
  }
  const std::string good = "dns:a = tenant:t roles:agent";
  EXPECT_FALSE(Certificates::parse({good, good}));
}

}  // namespace
}  // namespace cloister::auth
