// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/door_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::runtime {
namespace {

using State = model::Finding::State;
using testing::HasSubstr;
using testing::Not;

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

TEST(DoorProbe, NamesTheMissingLinkAndItsRemedy) {
  const auto fine = linkFinding("veth", "gvisor", "");
  EXPECT_EQ(fine.state, State::kOk);
  EXPECT_EQ(fine.name, "network veth");
  EXPECT_EQ(fine.remedy, "");
  const auto no_veth = linkFinding("veth", "gvisor", "making it: Operation not supported");
  EXPECT_EQ(no_veth.state, State::kMissing);
  EXPECT_THAT(no_veth.detail, HasSubstr("Operation not supported"));
  EXPECT_THAT(no_veth.remedy, HasSubstr("CONFIG_VETH"));
  const auto no_tap = linkFinding("tap", "microvm", "opening /dev/net: No such file");
  EXPECT_THAT(no_tap.detail, HasSubstr("microvm"));
  EXPECT_THAT(no_tap.remedy, HasSubstr("/dev/net/tun"));
}

// As root and as an ordinary user: each says that the machine can, or what is missing.
TEST(DoorProbe, TriesEachLink) {
  for (const bool rootless : {false, true}) {
    for (const auto& found : {probeVeth(rootless), probeTap(rootless)}) {
      EXPECT_EQ(found.state == State::kOk, found.remedy.empty()) << found.detail;
      EXPECT_THAT(found.detail, Not(HasSubstr("took too long")));
    }
  }
}

}  // namespace
}  // namespace cloister::runtime
