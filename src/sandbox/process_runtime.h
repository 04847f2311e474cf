// SPDX-License-Identifier: Apache-2.0
// The process runtime: Linux namespaces, cgroups, seccomp and Landlock, nothing else. See
// ARCHITECTURE.md "Process runtime" for the order of a start.
//
//   node ──socketpair──▶ spawner (single-threaded, own pid namespace, already in the finished root)
//                            └─clone3─▶ confine() ─execveat─▶ cloister-runner ─▶ the program
//
// The spawner dies with the node and, being pid 1 of its pid namespace, takes every sandbox with
// it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/result.h"
#include "model/plan.h"
#include "runtime/runtime.h"
#include "sandbox/guest.h"
#include "sandbox/host/disks.h"
#include "sandbox/host/lock_watch.h"
#include "sandbox/host/pressure.h"

namespace cloister::runtime {

// An interpreter that can be a zygote (zygote.h).
struct ZygoteConfig {
  std::vector<std::string> argv;     // of the programs that it is for: interpreter and file
  std::vector<std::string> imports;  // modules it has before it is copied
  std::string library;               // path of the module that makes it one
  std::string preparation;           // path of the script that prepares it
};

// What a language's programs are started as. One that is started ahead of its code has `ahead_env`
// besides, in which "{file}" is the path of a file with `ahead_text`.
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
  DiskConfig disk;                                  // those
  std::string image_root;                           // "" = the host's /usr; otherwise a directory
  bool require_verified = false;                    // sandboxes wait for the digest of that
  std::chrono::milliseconds read_after{2'000};      // ImageWatchConfig::quiet
  std::chrono::milliseconds verify_every{600'000};  // that digest
  // An imported image that has had no sandbox for so long is given up.
  std::chrono::milliseconds image_idle{30'000};
  std::string cgroup_parent = "cloister";
  uint32_t uid_base = 1'879'048'192;  // first host uid of the sandboxes' range
  uint32_t uids_each = 16;
  uint32_t max_sandboxes = 256;
  LockWatchConfig lock_watch;
  uint32_t ready = 8;                            // made ahead of demand, at most (see pool.h)
  std::chrono::milliseconds ready_idle{30'000};  // and kept for as long as nobody wants them
  uint32_t ready_floor = 0;                      // of each kind that was asked for, kept even so
  PressureConfig pressure;                       // of the machine, while which none are made
  std::vector<LanguageCommand> languages;        // those whose programs may be started ahead
  std::vector<ZygoteConfig> interpreters;
  uint32_t zygotes = 4;
  uint32_t zygote_copies = 1000;
  bool zygote_per_tenant = false;
  // How long a runner may take over what it does at once on a machine that is not overloaded.
  std::chrono::milliseconds runner_patience{30'000};
  // A spawner or zygote that gives no answer for this long is stopped or hangs, and is killed. It
  // makes a process in milliseconds; but its sandboxes end with it, and a zygote waits for the one
  // it has just made, which is given up after runner_patience: so longer than that.
  std::chrono::milliseconds spawn_patience{45'000};
  std::vector<std::shared_ptr<const Guest>> guests;  // other runtimes that it serves
};

// The early half: forks the spawner, which must happen before the caller has threads or an
// io_context. Builds the root, compiles the policy, probes what the machine offers.
class ProcessHost;
Result<std::shared_ptr<ProcessHost>> startProcessHost(const ProcessConfig& config);

// What this machine offers and lacks, as seen by the host.
void describe(const ProcessHost& host, model::NodeOffer& offer);

// The runtime over a started host, and those of its guests: permits say which. `images`: those that
// were imported; nullptr: none are.
class ImageSource;
std::unique_ptr<Runtime> makeProcessRuntime(boost::asio::any_io_executor executor,
                                            std::shared_ptr<ProcessHost> host,
                                            std::shared_ptr<ImageSource> images = nullptr);

}  // namespace cloister::runtime
