// SPDX-License-Identifier: Apache-2.0
// For tests: one process host with the real runner, and runs in fresh sandboxes of the host.
#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "async/run_task.h"
#include "base/file.h"
#include "base/id.h"
#include "linux/proc_tree.h"
#include "sandbox/process_runtime.h"
#include "wire/node.h"

namespace cloister::runtime::testbed {

inline ProcessConfig config() {
  ProcessConfig config;
  config.runner = base::programDir() + "/cloister-runner";
  config.spawner = base::programDir() + "/cloister-spawner";
  config.seccomp_policy = base::shareDir() + "/policies/seccomp/sandbox.json";
  config.cgroup_parent = "cloister-test";
  config.max_sandboxes = 16;
  config.disk = {.directory = std::filesystem::temp_directory_path(),
                 .over_bytes = uint64_t{1} << 30,
                 .max_bytes = uint64_t{2} << 30,
                 .keep_free_bytes = uint64_t{1} << 30};
  // Do not read the image during a test: the reading process would be counted.
  config.read_after = config.verify_every = std::chrono::hours(1);
  config.ready = 0;  // tests count only sandboxes they made; pool_test.cc tests ready ones
  return config;
}

// The test program's only host, or an error that says why the machine cannot have one.
inline const Result<std::shared_ptr<ProcessHost>>& host() {
  static const auto started = startProcessHost(config());
  return started;
}

// How many sandboxes have a uid range of `host`: it takes those that are free, and gives them back
// in the order in which they were.
inline size_t slotsInUse(ProcessHost& host) {
  std::vector<uint32_t> free;
  while (const auto slot = host.takeSlot())
    free.push_back(*slot);
  for (auto slot = free.rbegin(); slot != free.rend(); ++slot)
    host.returnSlot(*slot);
  return host.config().max_sandboxes - free.size();
}

inline bool hasGroups(ProcessHost& host) {
  return host.describePlan({}, {}, nullptr).at("cgroup").at("version") != "none";
}

inline model::SignedPermit permit(const model::Limits& limits = {}) {
  model::PermitFields fields;
  fields.id = base::newId("permit");
  fields.execution_id = base::newId("exec");
  fields.tenant = "test";
  fields.runtime = "process";
  fields.image = "host";
  fields.network_tier = "none";
  fields.limits = limits;
  model::settle(fields.limits);
  return {wire::encodePermit(fields), {}};
}

inline std::vector<pid_t> childrenOf(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::istringstream words(
      base::readFile(process + "/task/" + std::to_string(pid) + "/children").value_or(""));
  std::vector<pid_t> children;
  for (pid_t child = 0; words >> child;)
    children.push_back(child);
  return children;
}

// Number of processes besides this process and the spawner. Ended processes get a second to go.
inline size_t left() {
  size_t count = 0;
  for (int i = 0; i < 1000; ++i) {
    count = linux::usageOfTree(::getpid()).processes - 2;
    if (count == 0) break;
    ::usleep(1000);
  }
  return count;
}

// Records all events.
class Recorder : public ExecObserver {
 public:
  void onStarted() override {
    started = true;
    if (on_started) on_started();
  }
  Task<void> onOutput(model::Stream stream, std::string_view bytes) override {
    std::string& text = stream == model::Stream::kStdout ? out : err;
    total += bytes.size();
    if (text.size() < (size_t{1} << 20)) text.append(bytes);
    if (on_output) on_output();
    co_return;
  }
  Task<void> onFileBegin(std::string path, uint64_t) override {
    files.emplace_back(std::move(path), "");
    co_return;
  }
  Task<void> onFileData(std::string_view bytes) override {
    files.back().second.append(bytes);
    co_return;
  }
  Task<void> onFileEnd() override { co_return; }

  bool started = false;
  size_t total = 0;
  std::string out;
  std::string err;
  std::vector<std::pair<std::string, std::string>> files;
  std::function<void()> on_started;
  std::function<void()> on_output;
};

inline model::ExecSpec command(std::vector<std::string> argv, std::string input = {}) {
  model::ExecSpec spec;
  spec.run.argv = std::move(argv);
  spec.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/workspace", "LANG=C.UTF-8"};
  spec.input = std::move(input);
  return spec;
}

inline model::ExecSpec shell(std::string script, std::string input = {}) {
  return command({"/bin/sh", "-c", std::move(script)}, std::move(input));
}

}  // namespace cloister::runtime::testbed
