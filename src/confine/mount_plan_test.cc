// SPDX-License-Identifier: Apache-2.0
#include "confine/mount_plan.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/id.h"

namespace cloister::runtime {
namespace {

namespace fs = std::filesystem;

// An image whose own places are links into the host must not bring the host along.
TEST(MountPlan, LinksOfAnImageAreNotFollowed) {
  const fs::path root = "/tmp/cloister-test-" + base::randomHex(8);
  fs::create_directories(root / "usr/bin");
  fs::create_symlink("/", root / "var");
  fs::create_symlink("/etc", root / "etc");
  fs::create_symlink("/", root / "opt");
  const auto steps = rootSteps({.image_root = root, .layered = true, .whole = true});
  fs::remove_all(root);
  const auto from = [&](std::string_view name) {
    return std::ranges::count_if(steps, [&](const MountStep& step) {
      const bool reads = step.op == MountStep::Op::kBind || step.op == MountStep::Op::kCopy;
      return reads && step.source == root.string() + "/" + std::string(name);
    });
  };
  const auto reads = std::ranges::count_if(steps, [](const MountStep& step) {
    return step.op == MountStep::Op::kBind || step.op == MountStep::Op::kCopy;
  });
  EXPECT_EQ(from("usr"), 1);
  EXPECT_EQ(reads, 1) << "nothing else is read";
}

TEST(MountPlan, AnImageIsTakenWhole) {
  const fs::path root = "/tmp/cloister-test-" + base::randomHex(8);
  for (const char* name :
       {"usr", "opt", "var/lib", "var/tmp", "etc", "proc", "tmp", "home/node", "home/user"})
    fs::create_directories(root / name);
  std::ofstream(root / "etc/passwd") << "x";
  std::ofstream(root / "etc/own.conf") << "x";
  const auto steps = rootSteps({.image_root = root, .layered = false, .whole = true});
  fs::remove_all(root);
  std::vector<std::string> read;
  for (const MountStep& step : steps) {
    if (step.source.starts_with(root.string())) read.push_back(step.target);
  }
  EXPECT_EQ(read, (std::vector<std::string>{"opt", "usr", "var/lib", "home/node", "etc/own.conf"}));
}

TEST(MountPlan, WhatIsShownIsTheShare) {
  const auto covered = [](uint64_t memory, uint32_t cpus) {
    std::vector<std::string> targets;
    for (const MountStep& step : shareSteps(memory, cpus)) {
      if (step.op == MountStep::Op::kMask) targets.push_back(step.target);
    }
    return targets;
  };
  using Targets = std::vector<std::string>;
  EXPECT_EQ(covered(0, 0), Targets{});
  EXPECT_EQ(covered(1 << 20, 0), Targets{"proc/meminfo"});
  EXPECT_EQ(covered(0, 1), (Targets{"proc/cpuinfo", "proc/stat"}));
  EXPECT_EQ(covered(0, kMostShownCpus + 1), Targets{});
  const auto steps = shareSteps(uint64_t{300} << 20, 0);
  const auto made = std::ranges::find(steps, MountStep::Op::kFile, &MountStep::op);
  ASSERT_NE(made, steps.end());
  EXPECT_THAT(made->content, testing::StartsWith("MemTotal: 307200 kB\n"));
  for (const MountStep& step : rootSteps({.image_root = ""})) {
    if (step.target == "run/masked/cpus/1/stat") {
      EXPECT_THAT(step.content, testing::HasSubstr("\ncpu0 "));
      EXPECT_THAT(step.content, testing::Not(testing::HasSubstr("cpu1")));
    }
  }
}

TEST(MountPlan, ASandboxHasItsOwnOfEachLayer) {
  const auto root = rootSteps({.image_root = ""});
  const auto own = ownRootSteps(root, {{.op = MountStep::Op::kMask, .target = "proc/sys"}});
  const auto overlays = [](const std::vector<MountStep>& steps) {
    std::vector<std::string> targets;
    for (const MountStep& step : steps) {
      if (step.source == "overlay") targets.push_back(step.target);
    }
    return targets;
  };
  std::vector<std::string> expected = overlays(root);
  ASSERT_THAT(expected, testing::Contains("usr"));
  expected.insert(expected.begin(), "");
  EXPECT_EQ(overlays(own), expected);
  EXPECT_EQ(own.back().op, MountStep::Op::kPivot) << "nothing of the common root is left";
  EXPECT_EQ(own[own.size() - 2].target, "proc/sys");
  // Each layer is mounted by the root, and the layers differ.
  std::set<std::string> lower;
  for (const MountStep& step : own) {
    if (step.source != "overlay") continue;
    const std::string& layers = step.options.front().second;
    const std::string place = layers.substr(1, layers.find(':') - 1);
    EXPECT_THAT(root, testing::Contains(testing::Field(&MountStep::target, place)));
    EXPECT_TRUE(lower.insert(place).second) << place;
  }
}

TEST(MountPlan, ConfigurationOfTheHostIsHidden) {
  const fs::path root = "/tmp/cloister-test-" + base::randomHex(8);
  const auto is_mask = [](const MountStep& step) {
    return step.op == MountStep::Op::kMask && step.target == "usr/local/etc";
  };
  const auto hides = [&](bool whole) {
    return std::ranges::count_if(rootSteps({.image_root = root, .whole = whole}), is_mask) == 1;
  };
  fs::create_directories(root / "usr/local");
  EXPECT_TRUE(hides(false)) << "it may be made later";
  fs::create_directories(root / "usr/local/etc");
  EXPECT_TRUE(hides(false));
  EXPECT_FALSE(hides(true)) << "an image's is its own";
  const auto steps = rootSteps({.image_root = root});
  const auto own = ownRootSteps(steps, {});
  EXPECT_EQ(std::ranges::count_if(own, is_mask), 1) << "the layers are without it";
  EXPECT_GT(std::ranges::find_if(own, is_mask),
            std::ranges::find(own, std::string("usr"), &MountStep::target));
  // The link's target is outside the sandbox, and must not be covered in the link's place.
  fs::remove(root / "usr/local/etc");
  fs::create_symlink("/etc", root / "usr/local/etc");
  EXPECT_FALSE(hides(false));
  fs::remove_all(root / "usr/local");
  fs::create_symlink("/opt", root / "usr/local");
  EXPECT_FALSE(hides(false));
  fs::remove_all(root);
}

TEST(MountPlan, ARootWithoutLayersIsShared) {
  const auto own =
      ownRootSteps(rootSteps({.image_root = "", .layered = false}), {{.target = "proc"}});
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(own.front().target, "proc");
}

}  // namespace
}  // namespace cloister::runtime
