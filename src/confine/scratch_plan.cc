// SPDX-License-Identifier: Apache-2.0
// The file systems that each sandbox has of its own: /proc, and what is writable.
#include "confine/mount_plan.h"
#include "confine/mount_steps.h"
#include "linux/encrypted_disk.h"
#include "model/writable.h"

namespace cloister::runtime {
namespace {

using Op = MountStep::Op;
using linux::kNoDev;
using linux::kNoExec;
using linux::kNoSuid;
using linux::kReadOnly;

}  // namespace

std::vector<MountStep> procSteps(const std::vector<MountStep>& masks) {
  std::vector<MountStep> steps;
  steps.push_back({.op = Op::kNew,
                   .target = "proc",
                   .source = "proc",
                   .why = "the sandbox's own processes",
                   .attributes = kNoSuid | kNoDev | kNoExec});
  steps.insert(steps.end(), masks.begin(), masks.end());
  return steps;
}

std::vector<MountStep> shareSteps(uint64_t memory, uint32_t cpus) {
  constexpr std::string_view kWhy = "the sandbox's share, not the machine";
  std::vector<MountStep> steps;
  if (memory > 0) {
    // A small file system of its own, which the scratch steps cover.
    steps.push_back({.op = Op::kNew,
                     .target = "workspace",
                     .source = "tmpfs",
                     .why = kWhy,
                     .options = {{"size", "4k"}, {"nr_inodes", "2"}, {"mode", "755"}},
                     .attributes = kNoSuid | kNoDev | kNoExec});
    steps.push_back(file("workspace/meminfo", meminfoOf(memory), kWhy));
    steps.push_back({.op = Op::kSeal, .target = "workspace", .why = kWhy, .attributes = kReadOnly});
    steps.push_back(place(Op::kMask, "workspace/meminfo", "proc/meminfo", kWhy));
  }
  if (cpus == 0 || cpus > kMostShownCpus) return steps;
  const std::string from = std::string(kCpus) + "/" + std::to_string(cpus);
  for (const std::string name : {"cpuinfo", "stat"})
    steps.push_back(place(Op::kMask, from + "/" + name, "proc/" + name, kWhy));
  return steps;
}

namespace {

// Adds the writable directories, once their file system is at /workspace. `from`: path within that
// file system.
void addScratch(std::vector<MountStep>& steps, const std::string& from, std::string_view why) {
  steps.push_back(directory(from + "/tmp", why, 01777));
  steps.push_back(directory(from + "/shm", why, 01777));
  steps.push_back(directory(from + "/home", why, 0755));
  steps.push_back(directory(from + "/workspace", why, 0755));
  steps.push_back(place(Op::kPlace, from + "/tmp", "tmp", why));
  steps.push_back(place(Op::kPlace, from + "/shm", "dev/shm", why));
  steps.push_back(place(Op::kPlace, from + "/home", std::string(model::kHome.substr(1)), why));
  steps.push_back(place(Op::kPlace, from + "/workspace", "workspace", why));
  steps.push_back({.op = Op::kNew,
                   .target = "dev/pts",
                   .source = "devpts",
                   .why = "terminals of its own: no other sandbox's and none of the host's",
                   .options = {{"max", "64"}, {"mode", "600"}, {"ptmxmode", "666"}},
                   .attributes = kNoSuid | kNoExec});
}

}  // namespace

std::vector<MountStep> scratchSteps(uint64_t bytes, uint64_t inodes, uint64_t attributes) {
  std::vector<MountStep> steps;
  steps.push_back({.op = Op::kNew,
                   .target = "workspace",
                   .source = "tmpfs",
                   .why = "one bounded file system for all that is writable",
                   .options = {{"size", std::to_string(bytes)},
                               {"nr_inodes", std::to_string(inodes)},
                               {"mode", "755"}},
                   .attributes = kNoSuid | kNoDev | attributes});
  addScratch(steps, "workspace", "bounded together, charged to the sandbox's memory");
  return steps;
}

std::vector<MountStep> diskSteps(int mount) {
  std::vector<MountStep> steps;
  steps.push_back({.op = Op::kAttach,
                   .target = "workspace",
                   .source = "ext4",
                   .why = "one bounded file system on disk for all that is writable",
                   .mount = mount});
  addScratch(steps, std::string("workspace/") + linux::kEncryptedDirectory,
             "bounded together, encrypted under a key that goes with the sandbox");
  return steps;
}

MountStep sharedStep(int mount) {
  return {.op = Op::kAttach,
          .target = "workspace",
          .why = "the workspace of the session that it is for",
          .mount = mount};
}

}  // namespace cloister::runtime
