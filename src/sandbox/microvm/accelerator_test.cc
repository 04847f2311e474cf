// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/accelerator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::runtime::microvm {
namespace {

using model::Accelerator;
using testing::HasSubstr;
using Way = Choice::Way;

const KvmFound kWorks{true, "booted in 200 ms", ""};
const KvmFound kFails{false, "/dev/kvm is there, but booted no kernel within 10 s", "use another"};

Choice choose(Accelerator wanted, bool may_emulate, const KvmFound& found) {
  return chooseAccelerator(wanted, may_emulate, true, [&] { return found; });
}

TEST(Accelerator, IsKvmWhereItWorks) {
  for (const Accelerator wanted : {Accelerator::kAuto, Accelerator::kKvm}) {
    for (const bool may_emulate : {false, true}) {
      const Choice choice = choose(wanted, may_emulate, kWorks);
      EXPECT_EQ(choice.way, Way::kKvm);
      EXPECT_THAT(choice.detail, HasSubstr("booted in 200 ms"));
      EXPECT_EQ(choice.remedy, "");
    }
  }
}

TEST(Accelerator, IsEmulationWhereThatIsAllowedAndSaysWhy) {
  const Choice choice = choose(Accelerator::kAuto, true, kFails);
  EXPECT_EQ(choice.way, Way::kTcg);
  EXPECT_THAT(choice.detail, HasSubstr("emulated, as /dev/kvm is there, but booted no kernel"));
  EXPECT_EQ(choice.remedy, "use another");
}

TEST(Accelerator, IsNoneWhereNeitherCanBe) {
  const Choice choice = choose(Accelerator::kAuto, false, kFails);
  EXPECT_EQ(choice.way, Way::kNone);
  EXPECT_EQ(choice.detail, kFails.detail);
  EXPECT_THAT(choice.remedy, HasSubstr("use another, or set microvm.emulate to true"));
}

TEST(Accelerator, NeverFallsBackFromKvm) {
  for (const bool may_emulate : {false, true}) {
    const Choice choice = choose(Accelerator::kKvm, may_emulate, kFails);
    EXPECT_EQ(choice.way, Way::kNone);
    EXPECT_EQ(choice.detail, kFails.detail);
    EXPECT_EQ(choice.remedy, "use another");
  }
}

TEST(Accelerator, DoesNotAskAboutKvmForNothing) {
  int asked = 0;
  const auto ask = [&] {
    asked++;
    return kWorks;
  };
  EXPECT_EQ(chooseAccelerator(Accelerator::kTcg, true, true, ask).way, Way::kTcg);
  const Choice none = chooseAccelerator(Accelerator::kTcg, false, true, ask);
  EXPECT_EQ(none.way, Way::kNone);
  EXPECT_THAT(none.remedy, HasSubstr("microvm.emulate"));
  EXPECT_EQ(asked, 0);
  chooseAccelerator(Accelerator::kAuto, true, true, ask);
  EXPECT_EQ(asked, 1);
}

TEST(Accelerator, IsNoneWithoutKvmForAVmmThatEmulatesNothing) {
  const auto ask = [] { return kFails; };
  for (const Accelerator wanted : {Accelerator::kAuto, Accelerator::kKvm}) {
    const Choice choice = chooseAccelerator(wanted, true, false, ask);
    EXPECT_EQ(choice.way, Way::kNone);
    EXPECT_EQ(choice.remedy, "use another");
  }
  EXPECT_THAT(chooseAccelerator(Accelerator::kTcg, true, false, ask).remedy,
              HasSubstr("microvm.accelerator"));
}

}  // namespace
}  // namespace cloister::runtime::microvm
