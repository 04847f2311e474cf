// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/spawner.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "sandbox/host/host.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {
namespace {

namespace fs = std::filesystem;

SpawnerPlan plan() {
  SpawnerPlan plan;
  plan.root = rootSteps({"", true});
  plan.confinement.root = ownRootSteps(plan.root, procSteps(findProcMasks()));
  plan.confinement.landlock = landlockRules();
  plan.confinement.landlock_abi = 3;
  plan.confinement.filter = {{0x20, 0, 0, 4}, {0x06, 0, 0, 0x7FFF0000}};
  return plan;
}

TEST(SpawnerPlan, ComesBackAsItWas) {
  const auto read = decodeSpawnerPlan(encodeSpawnerPlan(plan()));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->root.size(), plan().root.size());
  const auto device = std::ranges::find(read->root, MountStep::Op::kDevice, &MountStep::op);
  ASSERT_NE(device, read->root.end());
  EXPECT_EQ(device->major, 1U);
  EXPECT_EQ(device->minor, 3U);
  // Encoding again detects any other lost field.
  EXPECT_EQ(encodeSpawnerPlan(*read), encodeSpawnerPlan(plan()));
}

TEST(SpawnerPlan, ACutOneIsRefused) {
  const std::string whole = encodeSpawnerPlan(plan());
  for (size_t size = 0; size < whole.size(); size += 7)
    EXPECT_FALSE(decodeSpawnerPlan(std::string_view(whole).substr(0, size))) << size;
  EXPECT_FALSE(decodeSpawnerPlan(whole + "x"));
}

TEST(Spawner, SaysWhyItDoesNotStart) {
  SpawnerPlan broken = plan();
  broken.rootless = ::geteuid() != 0;
  broken.confinement.runner.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  broken.program.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto started = Spawner::start(broken);
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find("starting the spawner: execveat"), std::string::npos)
      << started.error().message;
}

TEST(Spawner, MakesNoProcessOfAUserThatIsNotTheNodes) {
  const auto host = startProcessHost(testbed::config());
  ASSERT_TRUE(host) << host.error().message;
  Spawner& spawner = *(*host)->spawner();
  SpawnRequest request;
  request.spec.ids = {.inside = 1000, .outside = 1, .count = 1};
  const Fd none(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int fd = none.get();
  ASSERT_TRUE(spawner.request(request, {&fd, 1}));
  pollfd answered{spawner.socket(), POLLIN, 0};
  ASSERT_EQ(::poll(&answered, 1, 10'000), 1);
  const auto made = spawner.answer();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "spawning: a request that is not sound");
}

// The spawners among this process's children.
std::set<pid_t> spawners() {
  std::set<pid_t> found;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::ifstream children(task.path() / "children");
    for (pid_t pid = 0; children >> pid;) {
      std::ifstream name("/proc/" + std::to_string(pid) + "/comm");
      std::string text;
      if (name >> text && text.starts_with("cloister-spawn")) found.insert(pid);
    }
  }
  return found;
}

TEST(Spawner, HoldsNothingOfTheNode) {
  const Fd secret(::open("/dev/zero", O_RDONLY));  // not even a descriptor that programs would
                                                   // inherit
  const std::set<pid_t> before = spawners();
  const auto host = startProcessHost(testbed::config());
  ASSERT_TRUE(host) << host.error().message;
  std::set<pid_t> own = spawners();
  for (const pid_t pid : before)
    own.erase(pid);
  ASSERT_EQ(own.size(), 1U);
  const std::string proc = "/proc/" + std::to_string(*own.begin());
  std::set<std::string> held;
  for (const auto& fd : fs::directory_iterator(proc + "/fd")) {
    const int number = std::stoi(fd.path().filename());
    const std::string target = fs::read_symlink(fd.path());
    if (number < kSpawnerControl) {
      EXPECT_EQ(target, "/null") << number;
    } else if (target.starts_with("net:[")) {  // made ahead for the next sandbox
      EXPECT_NE(target, fs::read_symlink("/proc/self/ns/net"));
    } else {
      held.insert(target.substr(0, 8));
    }
  }
  EXPECT_EQ(held, (std::set<std::string>{"/memfd:c", "socket:["}));
  std::ifstream environment(proc + "/environ");
  EXPECT_EQ(environment.get(), std::ifstream::traits_type::eof());
}

}  // namespace
}  // namespace cloister::runtime
