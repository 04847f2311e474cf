// SPDX-License-Identifier: Apache-2.0
// Jail: the real runner in throw-away namespaces, for tests. The runner kills every visible
// process, so a runner never starts outside a pid namespace of its own. The test plays the node.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "wire/frame.h"
#include "wire/runner.h"

namespace cloister::runner::testing {

struct Frame {
  wire::FromRunner type{};
  uint32_t channel = 0;
  std::string payload;
};

// A program's behaviour, from kStarted to kExited.
struct Ended {
  std::string out;
  std::string err;
  bool signaled = false;
  uint32_t code = 0;  // exit code or signal
  uint32_t reaped = 0;
  uint64_t stdin_taken = 0;
  int start_errno = 0;  // set if the start failed
};

// A frame of spec/wire/gen-N, header and payload; empty when there is no such file.
std::string goldenFrame(const std::string& name);

class Jail {
 public:
  // An Error on a machine without user namespaces for this account.
  static Result<std::unique_ptr<Jail>> start(const std::string& runner_path);
  ~Jail();

  void send(wire::ToRunner type, uint32_t channel, std::string_view payload = {});
  void sendRaw(std::string_view bytes);
  // kGroups with these descriptors.
  void sendGroups(uint32_t channel, const std::vector<int>& fds);
  // The next frame; waits for at most 20 s. An Error when the runner has gone.
  Result<Frame> next();
  // The runner's wait status, after its end.
  int wait();
  void hangUp() { socket_.reset(); }

  // Sends kText for each string and kStart.
  void startProgram(uint32_t channel, const std::vector<std::string>& argv, uint8_t flags,
                    std::string_view cwd = {});
  // Reads the channel's frames up to its end.
  Ended finish(uint32_t channel);
  // Calls startProgram and finish on channel 1, killing leftovers.
  Ended run(const std::vector<std::string>& argv);
  Ended shell(const std::string& script) { return run({"/bin/sh", "-c", script}); }
  void file(std::string_view path, std::string_view content, uint32_t mode = 0644);

 private:
  Jail(pid_t pid, Fd socket) : pid_(pid), socket_(std::move(socket)) {}
  pid_t pid_;
  Fd socket_;
  std::string received_;
};

}  // namespace cloister::runner::testing
