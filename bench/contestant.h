// SPDX-License-Identifier: Apache-2.0
// The contestants of bench/run_bench.cc and bench/warm_bench.cc: ways to run a program in
// isolation, each behind the same interface.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace cloister::bench {

// A program, in both forms that contestants need.
struct Work {
  std::string name;
  std::vector<std::string> argv;  // argv[0] absolute
  std::string request;            // the same as a run request's body
  std::string output;             // the expected output
};

// Runs works in turn; one thread.
class Client {
 public:
  virtual ~Client() = default;
  // Runs the work and gives its output; an error unless the exit code is 0.
  virtual Result<std::string> run(const Work& work) = 0;
};

class Contestant {
 public:
  virtual ~Contestant() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  // The process that serves the clients, the topmost; 0 if none.
  [[nodiscard]] virtual pid_t server() const { return 0; }
  // A client of its own for each thread. Thread-safe.
  virtual Result<std::unique_ptr<Client>> client() = 0;
};

// posix_spawn of the program itself.
std::unique_ptr<Contestant> bare();
// bubblewrap with every namespace, /usr read-only, fresh /tmp, /workspace, /proc and /dev.
std::unique_ptr<Contestant> bubblewrap();
// crun with an OCI bundle of the same shape, and the cgroup limits of a default run request. Makes
// the bundles in `dir`. Single-threaded: may change the mounts seen by the process.
Result<std::unique_ptr<Contestant>> crun(const std::string& dir, const std::vector<Work>& works);
// `runsc do`: gVisor with its defaults, with the host's root, read-only below an overlay in memory.
std::unique_ptr<Contestant> runscDo();
// `cloister serve` from directory `bin`, private to the process, with its state in `dir`; a fresh
// sandbox for each run, requested over a kept HTTP connection for each client. `pool`: sandboxes
// are made ahead, as by default.
Result<std::unique_ptr<Contestant>> cloister(const std::string& bin, const std::string& dir,
                                             bool pool);
// The same server, in `dir` as above; each client has a session of `language` for all of its runs.
std::unique_ptr<Contestant> inSession(const std::string& dir, const std::string& language);

// Starts argv with a bare environment; reads the output to the end. For contestants that are
// programs.
Result<std::string> spawn(const std::vector<std::string>& argv);

}  // namespace cloister::bench
