// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/cursors.h"

#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/file.h"
#include "store/store_testing.h"

namespace cloister::orchestrator {
namespace {

class CursorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(base::makeDirs(dir_.file("keys"), 0700));
    open();
  }
  void open() { keys_ = artifacts::Keyring::open(dir_.file("keys"), {master_}).value(); }

  store::testing::TempDir dir_;
  artifacts::Secret master_ = artifacts::Secret::random();
  std::unique_ptr<artifacts::Keyring> keys_;
};

TEST_F(CursorsTest, AreOpenedAfterARestart) {
  const std::string cursor = Cursors(*keys_).seal("acme", "sessions", 7'000'000'000).value();
  open();
  EXPECT_EQ(Cursors(*keys_).open("acme", "sessions", cursor).value(), 7'000'000'000U);
}

TEST_F(CursorsTest, TellNothing) {
  const Cursors cursors(*keys_);
  const std::string one = cursors.seal("acme", "sessions", 1).value();
  EXPECT_NE(one, cursors.seal("acme", "sessions", 1).value()) << "two of one number are not alike";
  EXPECT_EQ(one.size(), cursors.seal("acme", "sessions", UINT64_MAX).value().size());
  EXPECT_EQ(one.find_first_of("+/="), std::string::npos) << "it stands in a query as it is";
}

TEST_F(CursorsTest, AreOfOneTenantAndOneList) {
  const Cursors cursors(*keys_);
  const std::string cursor = cursors.seal("acme", "sessions", 5).value();
  ASSERT_TRUE(cursors.seal("rival", "sessions", 5));
  std::string other = cursor;
  other[40] = other[40] == 'A' ? 'B' : 'A';
  const std::string before = base::toBase64("before:5");  // the format of earlier versions
  for (const auto& [tenant, list, text] :
       {std::tuple("rival", "sessions", cursor), std::tuple("acme", "executions", cursor),
        std::tuple("nobody", "sessions", cursor), std::tuple("acme", "sessions", other),
        std::tuple("acme", "sessions", before), std::tuple("acme", "sessions", std::string()),
        std::tuple("acme", "sessions", cursor + "AAAA")}) {
    const auto opened = cursors.open(tenant, list, text);
    ASSERT_FALSE(opened) << tenant << " " << list << " " << text;
    EXPECT_EQ(opened.error().code, Code::kInvalid);
    EXPECT_EQ(opened.error().field, "query.cursor");
  }
}

}  // namespace
}  // namespace cloister::orchestrator
