// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/toolchain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::orchestrator {
namespace {

using model::Finding;
using testing::HasSubstr;

model::NodeOffer offer() {
  model::NodeOffer made;
  made.findings = {{.area = "language", .name = "python", .detail = "Python 3", .remedy = {}},
                   {.area = "language",
                    .name = "c",
                    .state = Finding::State::kMissing,
                    .detail = "C: no /usr/bin/gcc",
                    .remedy = "apt-get install gcc"},
                   {.area = "isolation",
                    .name = "r",
                    .state = Finding::State::kMissing,
                    .detail = "R",
                    .remedy = {}}};
  model::OfferedImage image;
  image.name = "small";
  image.languages = {"bash", "c"};
  made.images = {image};
  image.name = "bare";
  image.languages = {};
  made.images.push_back(image);
  return made;
}

Result<> check(std::string_view language, std::string image = "host",
               std::string runtime = "process") {
  model::PermitFields permit;
  permit.image = std::move(image);
  permit.runtime = std::move(runtime);
  return checkToolchain(offer(), language, permit);
}

const std::string kDigest = "@sha256:" + std::string(64, 'a');

TEST(Toolchain, WhatTheNodeLacksIsRefusedByName) {
  const auto refused = check("c");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_EQ(refused.error().field, "language");
  EXPECT_THAT(refused.error().message, HasSubstr("C: no /usr/bin/gcc"));
  EXPECT_THAT(refused.error().message, HasSubstr("apt-get install gcc"));
  EXPECT_FALSE(check("c", "host", "gvisor"));
  EXPECT_TRUE(check("c", "host", "microvm"));  // has an image of its own
  for (const std::string_view there : {"python", "r", "unheard-of", ""})
    EXPECT_TRUE(check(there)) << there;
}

TEST(Toolchain, AnImageHasItsOwn) {
  EXPECT_TRUE(check("c", "small" + kDigest));
  const auto refused = check("python", "small" + kDigest, "microvm");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "language");
  EXPECT_THAT(refused.error().message, HasSubstr("image small has no toolchain for python"));
  EXPECT_THAT(refused.error().message, HasSubstr("bash, c"));
  EXPECT_TRUE(check("python", "gone" + kDigest));  // reported elsewhere
}

}  // namespace
}  // namespace cloister::orchestrator
