// SPDX-License-Identifier: Apache-2.0
// The settings of a node's engine, for the runtimes of one host. Values only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sandbox/host/disks.h"
#include "sandbox/host/guest.h"
#include "sandbox/host/lock_watch.h"
#include "sandbox/host/pressure.h"

namespace cloister::runtime {

// An interpreter that can run as a zygote (zygote.h).
struct ZygoteConfig {
  std::vector<std::string> argv;     // of its programs: interpreter and file
  std::vector<std::string> imports;  // modules imported before copying
  std::string library;               // path of the module that implements the zygote
  std::string preparation;           // path of the script that prepares the zygote
};

// How a language's programs are started. A program started ahead of its code also has `ahead_env`,
// in which "{file}" is the path of a file with `ahead_text`.
struct LanguageCommand {
  std::string language;
  std::vector<std::string> argv;
  std::vector<std::string> ahead_env{};  // NAME=VALUE
  std::string ahead_text{};
};

struct ProcessConfig {
  std::string node = "local";
  std::string runner;                               // path of cloister-runner
  std::string spawner;                              // path of cloister-spawner
  std::string seccomp_policy;                       // path of policies/seccomp/sandbox.json
  DiskConfig disk;                                  // workspaces on disk
  std::string image_root;                           // "" = the host's /usr; otherwise a directory
  bool require_verified = false;                    // sandboxes wait for the image's digest
  std::chrono::milliseconds read_after{2'000};      // ImageWatchConfig::quiet
  std::chrono::milliseconds verify_every{600'000};  // interval between verifications
  // Idle time after which an imported image's place is removed.
  std::chrono::milliseconds image_idle{30'000};
  std::string layers;  // path of the store of dependency layers, an existing directory; "": none
  std::string cgroup_parent = "cloister";
  uint32_t uid_base = 1'879'048'192;  // first host uid of the sandboxes' range
  uint32_t uids_each = 16;
  uint32_t max_sandboxes = 256;
  LockWatchConfig lock_watch;
  uint32_t ready = 8;                            // maximum made ahead of demand (see pool.h)
  std::chrono::milliseconds ready_idle{30'000};  // how long ready sandboxes stay without demand
  uint32_t ready_floor = 0;                      // minimum of ready sandboxes of each requested
                                                 // kind, also without demand
  PressureConfig pressure;                       // bounds of the machine's load, beyond which none
                                                 // are made
  std::vector<LanguageCommand> languages;        // languages whose programs may be started ahead
  std::vector<ZygoteConfig> interpreters;
  uint32_t zygotes = 4;
  uint32_t zygote_copies = 1000;
  bool zygote_per_tenant = false;
  // Timeout for immediate answers of a runner, on a machine without overload.
  std::chrono::milliseconds runner_patience{30'000};
  // A spawner or zygote without an answer for this long is stuck, and is killed. A process takes
  // milliseconds to make; but killing ends all its sandboxes, and a zygote waits for a new process
  // that is given up after runner_patience. So the value exceeds runner_patience.
  std::chrono::milliseconds spawn_patience{45'000};
  std::vector<std::shared_ptr<const Guest>> guests;  // further available runtimes
};

}  // namespace cloister::runtime
