// SPDX-License-Identifier: Apache-2.0
// What bench/run_bench.cc and bench/warm_bench.cc compare: ways to run one program in isolation,
// each behind one interface.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace cloister::bench {

// One program, said in both ways that contestants need.
struct Work {
  std::string name;
  std::vector<std::string> argv;  // argv[0] absolute
  std::string request;            // the same as a run request's body
  std::string output;             // what it must print
};

// Runs works one after the other; one thread.
class Client {
 public:
  virtual ~Client() = default;
  // Runs it and gives what it printed; an error if it did not end with exit code 0.
  virtual Result<std::string> run(const Work& work) = 0;
};

class Contestant {
 public:
  virtual ~Contestant() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  // The process that serves its clients, above all others that do; 0 where there is none.
  [[nodiscard]] virtual pid_t server() const { return 0; }
  // A client of its own for each thread. Thread-safe.
  virtual Result<std::unique_ptr<Client>> client() = 0;
};

// posix_spawn of the program itself.
std::unique_ptr<Contestant> bare();
// bubblewrap with every namespace, /usr read-only, fresh /tmp, /workspace, /proc and /dev.
std::unique_ptr<Contestant> bubblewrap();
// crun with an OCI bundle of the same shape, and the cgroup limits of a default run request. The
// bundles are made in `dir`. Single-threaded: it may change the mounts that this process sees.
Result<std::unique_ptr<Contestant>> crun(const std::string& dir, const std::vector<Work>& works);
// `runsc do`: gVisor as it comes, with the host's root, read-only below an overlay in memory.
std::unique_ptr<Contestant> runscDo();
// `cloister serve` of directory `bin`, private to this process, with its state in `dir`; a fresh
// sandbox for each run, asked for over one kept HTTP connection for each client. `pool`: it makes
// sandboxes ahead, as it does by default.
Result<std::unique_ptr<Contestant>> cloister(const std::string& bin, const std::string& dir,
                                             bool pool);
// The same server, in `dir` as above, where each client has a session of `language` and runs all in
// that.
std::unique_ptr<Contestant> inSession(const std::string& dir, const std::string& language);

// Starts argv with a bare environment; its output is read to the end. Used by those that are
// programs.
Result<std::string> spawn(const std::vector<std::string>& argv);

}  // namespace cloister::bench
