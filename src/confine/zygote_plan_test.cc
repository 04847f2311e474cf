// SPDX-License-Identifier: Apache-2.0
#include "confine/zygote_plan.h"

#include <gtest/gtest.h>

#include "linux/message.h"

namespace cloister::runtime {
namespace {

ZygotePlan plan() {
  return {{"python3", "main.py"}, {"A=1", "B="}, {{"one.py", "x = 1\n"}, {"two.so", "\x7f\0"}}};
}

Confinement confinement() {
  Confinement confinement;
  confinement.landlock = landlockRules();
  confinement.landlock_abi = 3;
  confinement.filter = {{0x20, 0, 0, 4}, {0x15, 1, 2, 0xC000003E}, {0x06, 0, 0, 0x7FFF0000}};
  return confinement;
}

std::string encoded() {
  return encodeZygotePlan(plan(), confinement(), procSteps(findProcMasks()));
}

TEST(ZygotePlan, ComesBackAsItWas) {
  const auto read = decodeZygotePlan(encoded());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->plan.argv, plan().argv);
  EXPECT_EQ(read->plan.env, plan().env);
  ASSERT_EQ(read->plan.files.size(), 2U);
  EXPECT_EQ(read->plan.files[1].content, plan().files[1].content);
  // Encoding again detects any other lost field.
  EXPECT_EQ(encodeZygotePlan(read->plan, read->confinement, read->confinement.root), encoded());
}

TEST(ZygotePlan, ACutOneIsRefused) {
  const std::string whole = encoded();
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decodeZygotePlan(std::string_view(whole).substr(0, size))) << size;
  EXPECT_FALSE(decodeZygotePlan(whole + "x"));
}

TEST(ZygotePlan, IsReadFromASealedFile) {
  const auto file = linux::sealedData(encoded());
  ASSERT_TRUE(file) << file.error().message;
  for (int again = 0; again < 2; ++again)
    EXPECT_TRUE(readZygotePlan(file->get()));
}

}  // namespace
}  // namespace cloister::runtime
