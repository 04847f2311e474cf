// SPDX-License-Identifier: Apache-2.0
#include "confine/spawn_loop.h"

#include <gtest/gtest.h>

#include "confine/gvisor/become_gvisor.h"
#include "confine/gvisor/become_saver.h"
#include "confine/microvm/command.h"

namespace cloister::runtime {
namespace {

using What = SpawnRequest::What;
constexpr IdRange kHostIds{.first = 100'000, .count = 1000};
// The fewest descriptors of each kind.
constexpr uint32_t kFewest[] = {0, 0, kGvisorFds, microvm::kOpened + 1, kSaverFds, 1, 1, 1};

SpawnRequest requestOf(What what, linux::IdMap ids, linux::IdMap root = {},
                       linux::IdMap rest = {}) {
  SpawnRequest request;
  request.what = what;
  if (what <= What::kLayers) request.guest_fds = kFewest[static_cast<size_t>(what)];
  if (what == What::kDoor) request.door = {.pool = 0xC6120000, .pool_bits = 15};
  if (what == What::kLayers) {
    const std::string digest = "sha256:" + std::string(LayerOrder::kDigits, 'a');
    EXPECT_TRUE(addLayer(request.layers, digest, "python"));
  }
  request.spec.ids = ids;
  request.root = root;
  request.rest = rest;
  return request;
}

TEST(IsSound, ASandboxHasIdsOfTheNodesRange) {
  for (const What what : {What::kSandbox, What::kMicrovm}) {
    EXPECT_TRUE(isSound(requestOf(what, {1000, 100'000, 2}), kHostIds));
    EXPECT_TRUE(isSound(requestOf(what, {1000, 100'998, 2}), kHostIds));
    EXPECT_FALSE(isSound(requestOf(what, {1000, 100'999, 2}), kHostIds));
    EXPECT_FALSE(isSound(requestOf(what, {1000, 99'999, 2}), kHostIds));
    EXPECT_FALSE(isSound(requestOf(what, {1000, 0, 1}), kHostIds));
    EXPECT_FALSE(isSound(requestOf(what, {1000, 100'000, 0}), kHostIds));
    EXPECT_FALSE(isSound(requestOf(what, {1000, 100'001, UINT32_MAX}), kHostIds));
  }
}

TEST(IsSound, AnOrdinaryUsersSandboxIsTheOnlyIdThereIs) {
  EXPECT_TRUE(isSound(requestOf(What::kSandbox, {1000, 0, 1}), IdRange{}));
  EXPECT_FALSE(isSound(requestOf(What::kSandbox, {1000, 1, 1}), IdRange{}));
  EXPECT_FALSE(isSound(requestOf(What::kSandbox, {1000, 0, 2}), IdRange{}));
}

TEST(IsSound, AllUsersOfAGuestAndOfAZygoteCount) {
  const linux::IdMap own{1000, 100'000, 2};
  const linux::IdMap root{0, 100'000, 1};
  const linux::IdMap nobody{65'534, 100'001, 1};
  EXPECT_TRUE(isSound(requestOf(What::kGvisor, own, root, nobody), kHostIds));
  EXPECT_TRUE(isSound(requestOf(What::kGvisor, own, root), kHostIds));
  EXPECT_FALSE(isSound(requestOf(What::kGvisor, own, {0, 0, 1}, nobody), kHostIds));
  EXPECT_FALSE(isSound(requestOf(What::kGvisor, own, root, {65'534, 0, 1}), kHostIds));
  EXPECT_FALSE(isSound(requestOf(What::kGvisor, {1000, 0, 1}, root, nobody), kHostIds));
  EXPECT_TRUE(isSound(requestOf(What::kZygote, {}, {0, 100'999, 1}, {1, 100'000, 999}), kHostIds));
  EXPECT_FALSE(isSound(requestOf(What::kZygote, {}, {0, 101'000, 1}), kHostIds));
  EXPECT_FALSE(isSound(requestOf(What::kZygote, {}), kHostIds));
}

TEST(IsSound, CountsHaveRoomAndKindsAreKnown) {
  SpawnRequest request = requestOf(What::kSandbox, {1000, 100'000, 2});
  request.spec.limit_count = SandboxSpec::kMaxLimits;
  EXPECT_TRUE(isSound(request, kHostIds));
  request.spec.limit_count = SandboxSpec::kMaxLimits + 1;
  EXPECT_FALSE(isSound(request, kHostIds));
  EXPECT_TRUE(isSound(requestOf(What::kWorkspace, {}), kHostIds));
  constexpr auto kUnknown = static_cast<What>(static_cast<uint32_t>(What::kLayers) + 1);
  EXPECT_FALSE(isSound(requestOf(kUnknown, {1000, 100'000, 2}), kHostIds));
}

TEST(IsSound, AMachineWithALinkHasItsDevice) {
  SpawnRequest request = requestOf(What::kMicrovm, {1000, 100'000, 2});
  request.spec.guest_link = 0xC6120003;
  for (const Beginning begins : {Beginning::kBoots, Beginning::kKept, Beginning::kResumes}) {
    request.spec.guest_begins = begins;
    request.guest_fds = static_cast<uint32_t>(microvm::linkIndex(request.spec));
    EXPECT_FALSE(isSound(request, kHostIds));
    request.guest_fds++;
    EXPECT_TRUE(isSound(request, kHostIds));
  }
  request.spec.guest_begins = static_cast<Beginning>(9);
  EXPECT_FALSE(isSound(request, kHostIds));
}

TEST(IsSound, EachKindHasTheDescriptorsThatItTakesByNumber) {
  const linux::IdMap own{1000, 100'000, 2};
  const linux::IdMap root{0, 100'000, 1};
  for (uint32_t kind = 0; kind <= static_cast<uint32_t>(What::kLayers); kind++) {
    SpawnRequest request = requestOf(static_cast<What>(kind), own, root);
    EXPECT_TRUE(isSound(request, kHostIds)) << kind;
    const bool exact = kFewest[kind] < kGvisorFds && kFewest[kind] != microvm::kOpened + 1;
    request.guest_fds = kFewest[kind] + 1;
    EXPECT_EQ(isSound(request, kHostIds), !exact) << kind;
    request.guest_fds = kFewest[kind] - 1;
    EXPECT_FALSE(kFewest[kind] > 0 && isSound(request, kHostIds)) << kind;
  }
}

TEST(IsSound, NumbersOfListsAreInTheirLists) {
  SpawnRequest request = requestOf(What::kSandbox, {1000, 100'000, 2});
  request.spec.guest_begins = static_cast<Beginning>(4);
  EXPECT_FALSE(isSound(request, kHostIds));
  request.spec.guest_begins = Beginning::kBoots;
  request.spec.writes = static_cast<model::Walls::Writes>(3);
  EXPECT_FALSE(isSound(request, kHostIds));
}

TEST(IsSound, ADoorsPortsAndPoolAreWithinTheirBounds) {
  SpawnRequest request = requestOf(What::kDoor, {});
  EXPECT_TRUE(isSound(request, kHostIds));
  request.door.port_count = 1;
  EXPECT_FALSE(isSound(request, kHostIds)) << "port 0";
  request.door.ports[0] = 443;
  EXPECT_TRUE(isSound(request, kHostIds));
  request.door.only_ports = 1;
  EXPECT_TRUE(isSound(request, kHostIds));
  request.door.only_ports = 2;
  EXPECT_FALSE(isSound(request, kHostIds));
  request.door.only_ports = 0;
  request.door.port_count = DoorOrder::kMaxPorts + 1;
  EXPECT_FALSE(isSound(request, kHostIds));
  request.door.port_count = 0;
  request.door.only_ports = 1;
  EXPECT_FALSE(isSound(request, kHostIds)) << "no port at all";
  request.door.only_ports = 0;
  for (const uint32_t bits : {0U, 7U, 25U, 32U, UINT32_MAX}) {
    request.door.pool_bits = bits;
    EXPECT_FALSE(isSound(request, kHostIds)) << bits;
  }
  request.door.pool_bits = 14;
  EXPECT_FALSE(isSound(request, kHostIds)) << "bits of the pool beyond its prefix";
}

}  // namespace
}  // namespace cloister::runtime
