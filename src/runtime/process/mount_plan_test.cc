// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/mount_plan.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

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
  for (const char* name : {"usr", "opt", "var/lib", "var/tmp", "etc", "proc", "tmp"})
    fs::create_directories(root / name);
  std::ofstream(root / "etc/passwd") << "x";
  std::ofstream(root / "etc/own.conf") << "x";
  const auto steps = rootSteps({.image_root = root, .layered = false, .whole = true});
  fs::remove_all(root);
  std::vector<std::string> read;
  for (const MountStep& step : steps) {
    if (step.source.starts_with(root.string())) read.push_back(step.target);
  }
  EXPECT_EQ(read, (std::vector<std::string>{"opt", "usr", "var/lib", "etc/own.conf"}));
}

}  // namespace
}  // namespace cloister::runtime
