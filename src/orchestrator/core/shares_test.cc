// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/shares.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::orchestrator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SharesTest : public testing::Test {
 protected:
  Result<std::shared_ptr<void>> enter(const std::string& tenant) {
    return shares_.enter(tenant, "uploading", "uploads");
  }
  Shares shares_{{.all = 4, .per_tenant = 3, .key = "artifacts.uploads"}};
};

TEST_F(SharesTest, NoTenantHasAllThePlaces) {
  std::vector<std::shared_ptr<void>> held;
  for (int i = 0; i < 3; ++i)
    held.push_back(enter("greedy").value());
  const auto refused = enter("greedy");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kQuota);
  EXPECT_GT(refused.error().retry_after_seconds, 0);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("artifacts.uploads_per_tenant"), HasSubstr("3 uploads")));
  held.push_back(enter("other").value());
  const auto full = enter("other");
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().message,
              AllOf(HasSubstr("(artifacts.uploads)"), Not(HasSubstr("tenant"))));
  held.erase(held.begin());
  EXPECT_TRUE(enter("other"));
  EXPECT_TRUE(enter("greedy"));
}

TEST_F(SharesTest, APlaceIsGivenBackOnce) {
  auto place = enter("acme").value();
  auto same = place;
  place.reset();
  auto second = enter("acme").value();
  auto third = enter("acme").value();
  EXPECT_FALSE(enter("acme")) << "one is still held";
  same.reset();
  EXPECT_TRUE(enter("acme"));
}

TEST_F(SharesTest, APlaceMayOutliveThem) {
  std::shared_ptr<void> place;
  {
    Shares shares({.all = 1, .per_tenant = 1, .key = "x"});
    place = shares.enter("acme", "x", "x").value();
  }
  place.reset();
}

}  // namespace
}  // namespace cloister::orchestrator
