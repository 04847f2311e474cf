// SPDX-License-Identifier: Apache-2.0
// Holds the rules of a door to spec/nft: door.hex has the bytes for the kernel, and door.nft what
// nft(8) reads back from the kernel. CLOISTER_WRITE_GOLDEN=1 writes the files anew.
#include "confine/door_rules.h"

#include <linux/netlink.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/file.h"
#include "confine/door_link.h"
#include "linux/in_network.h"
#include "linux/netlink.h"

namespace cloister::runtime {
namespace {

std::string goldenFile(const std::string& name) {
  return std::string(CLOISTER_SOURCE_DIR) + "/spec/nft/" + name;
}

void holdTo(const std::string& name, const std::string& now) {
  const std::string path = goldenFile(name);
  if (std::getenv("CLOISTER_WRITE_GOLDEN") != nullptr) {
    ASSERT_TRUE(base::writeFileAtomic(path, now, 0644));
  }
  EXPECT_EQ(base::readFile(path).value_or("missing"), now) << path;
}

DoorOrder sampleOrder() {
  constexpr uint16_t kPorts[] = {80, 443};
  return doorOrder("198.18.0.0/15", kPorts).value_or(DoorOrder());
}

TEST(DoorRules, AreTheKnownBytes) {
  const std::string bytes = linux::nft::encodeChain(doorRules(sampleOrder(), true));
  std::string lines;
  for (size_t at = 0; at < bytes.size(); at += 32)
    lines += base::toHex(std::string_view(bytes).substr(at, 32)) + "\n";
  holdTo("door.hex", lines);
}

std::string outputOf(const char* command) {
  std::string text;
  FILE* const pipe = ::popen(command, "r");
  if (pipe == nullptr) return text;
  char part[4096];
  for (size_t n = 0; (n = ::fread(part, 1, sizeof part, pipe)) > 0;)
    text.append(part, n);
  ::pclose(pipe);
  return text;
}

// The rules as nft(8) lists them, held to the golden file.
void holdToNft(const std::string& name, const DoorOrder& order) {
  constexpr char kNft[] = "/usr/sbin/nft";
  if (::access(kNft, X_OK) != 0) GTEST_SKIP() << "nft is not installed";
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd from(ends[0]);
  Fd to(ends[1]);
  const int code = linux::inNetwork([&] {
    const auto netlink = linux::netlinkSocket(NETLINK_NETFILTER);
    if (!netlink || !linux::nft::install(netlink->get(), doorRules(order, true))) return 1;
    const std::string text = outputOf("/usr/sbin/nft -n list ruleset");
    return ::write(to.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 2;
  });
  if (code == linux::kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  ASSERT_EQ(code, 0);
  to.reset();
  std::string text(size_t{64} << 10, '\0');
  text.resize(
      static_cast<size_t>(std::max<ssize_t>(::read(from.get(), text.data(), text.size()), 0)));
  holdTo(name, text);
}

TEST(DoorRules, AreWhatNftReadsBack) {
  holdToNft("door.nft", sampleOrder());
}

TEST(DoorRules, OfAMachineAreWhatNftReadsBack) {
  DoorOrder order = sampleOrder();
  order.linked = true;
  holdToNft("door-of-a-machine.nft", order);
}

TEST(DoorRules, EachRuleSaysWhy) {
  for (const linux::nft::Rule& rule : doorRules(sampleOrder(), true).rules) {
    EXPECT_FALSE(rule.why.empty());
    EXPECT_FALSE(rule.expressions.empty());
  }
}

size_t countOf(const linux::nft::Chain& chain, const std::string& name) {
  size_t count = 0;
  for (const linux::nft::Rule& rule : chain.rules) {
    count += static_cast<size_t>(
        std::ranges::count(rule.expressions, name, &linux::nft::Expression::name));
  }
  return count;
}

TEST(DoorRules, ListenToThePortsOfTheOrder) {
  const DoorOrder any = *doorOrder("10.0.0.0/8", {});
  EXPECT_EQ(countOf(doorRules(any, true), "tproxy"), 2U) << "DNS, and every port";
  EXPECT_EQ(countOf(doorRules(sampleOrder(), true), "tproxy"), 4U) << "DNS, two, and the proxy";
  EXPECT_EQ(countOf(doorRules(any, true), "log"), 3U);
  EXPECT_EQ(countOf(doorRules(any, false), "log"), 0U);
  EXPECT_EQ(countOf(doorRules(any, false), "reject"), 3U);
}

TEST(DoorRules, OfAMachineBoundItsLinkFirst) {
  DoorOrder order = sampleOrder();
  const linux::nft::Chain plain = doorRules(order, true);
  order.linked = true;
  const linux::nft::Chain linked = doorRules(order, true);
  const std::vector<linux::nft::Rule> bounds = linkRules(order);
  ASSERT_EQ(bounds.size(), 5U);
  ASSERT_EQ(linked.rules.size(), plain.rules.size() + bounds.size());
  const linux::nft::Expression drop = linux::nft::drop();
  for (size_t i = 0; i < bounds.size(); ++i) {
    EXPECT_EQ(linked.rules[i].why, bounds[i].why);
    EXPECT_EQ(linked.rules[i].expressions.back().attributes, drop.attributes) << bounds[i].why;
  }
}

TEST(DoorRules, StandingOnesHaveTheHooksOfADoor) {
  const int code = linux::inNetwork([] {
    for (int i = 0; i < 2; ++i) {
      const auto netlink = linux::netlinkSocket(NETLINK_NETFILTER);
      const auto done = linux::nft::install(netlink->get(), standingRules());
      if (i == 0 ? !done : done || done.error().code != Code::kConflict) return 1 + i;
    }
    return 0;
  });
  if (code == linux::kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

TEST(DoorOrders, ArePoolsOfIpv4) {
  const auto order = doorOrder("100.64.0.0/10", {});
  ASSERT_TRUE(order);
  EXPECT_EQ(order->pool, 0x64400000U);
  EXPECT_EQ(order->pool_bits, 10U);
  EXPECT_EQ(order->port_count, 0U);
  for (const char* odd : {"", "198.18.0.0", "198.18.0.0/25", "198.18.0.1/15", "0.0.0.0/0",
                          "2001:db8::/32", "198.18.0.0/15x", "128.0.0.0/7"}) {
    EXPECT_FALSE(doorOrder(odd, {})) << odd;
  }
}

TEST(DoorOrders, MorePortsThanFitAreEveryPort) {
  std::vector<uint16_t> ports;
  for (uint16_t port = 1; port <= DoorOrder::kMaxPorts; ++port)
    ports.push_back(port);
  EXPECT_EQ(doorOrder("198.18.0.0/15", ports)->port_count, DoorOrder::kMaxPorts);
  ports.push_back(9999);
  EXPECT_EQ(doorOrder("198.18.0.0/15", ports)->port_count, 0U);
  EXPECT_EQ(doorOrder("198.18.0.0/15", ports)->only_ports, 0U);
}

TEST(DoorOrders, FirstPortsAreCutAndLeaveTheOthersOpen) {
  const std::vector<uint16_t> many(DoorOrder::kMaxPorts + 1, 443);
  const auto order = doorOrderForAll("198.18.0.0/15", many);
  ASSERT_TRUE(order);
  EXPECT_EQ(order->port_count, DoorOrder::kMaxPorts);
  EXPECT_EQ(order->only_ports, 0U);
}

}  // namespace
}  // namespace cloister::runtime
