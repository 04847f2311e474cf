// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/door_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::runtime {
namespace {

using State = model::Finding::State;
using testing::HasSubstr;

DoorAnswer answerWith(bool transparent, bool log, std::vector<std::string> weakened) {
  DoorSockets door;
  door.transparent = transparent;
  if (log) door.log.reset(::dup(2));
  door.weakened = std::move(weakened);
  return answerOf(door);
}

TEST(DoorProbe, NamesTheMissingPartAndItsRemedy) {
  const auto no_tproxy = doorFinding(answerWith(false, false, {"no tproxy", "no IPv6"}));
  EXPECT_EQ(no_tproxy.state, State::kReduced);
  EXPECT_EQ(no_tproxy.detail, "no tproxy;no IPv6");
  EXPECT_THAT(no_tproxy.remedy, HasSubstr("CONFIG_NFT_TPROXY"));
  const auto no_log = doorFinding(answerWith(true, false, {"no log"}));
  EXPECT_EQ(no_log.state, State::kReduced);
  EXPECT_THAT(no_log.remedy, HasSubstr("nfnetlink_log"));
  const auto no_ipv6 = doorFinding(answerWith(true, true, {"no IPv6"}));
  EXPECT_EQ(no_ipv6.state, State::kReduced);
  EXPECT_THAT(no_ipv6.remedy, HasSubstr("IPv6"));
  EXPECT_EQ(doorFinding(answerWith(true, true, {})).state, State::kOk);
}

}  // namespace
}  // namespace cloister::runtime
