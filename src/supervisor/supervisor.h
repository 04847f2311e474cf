// SPDX-License-Identifier: Apache-2.0
// The supervisor of `cloister serve`: one thread, one poll loop, over a table of child processes.
// The supervisor holds the resources that must outlive the children: the lock of the state
// directory, the listening socket, and the write end of the lifeline. The lifeline is a pipe whose
// end of file tells the children that the supervisor has ended, for any reason. As pid 1 of a
// container the supervisor reaps orphans, too.
//
// Start: all children at once. The death of a child before its first readiness ends the service
// with its reason; after a later death the child is started again. Stop: by `stop_turn`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "supervisor/child.h"
#include "supervisor/sd_notify.h"
#include "supervisor/signals.h"

namespace cloister::supervisor {

// A row of the table.
struct Part {
  std::string name;
  Program program;  // without the flags for descriptors, which each start adds
  // Order of stopping: SIGTERM comes when all parts of lower turns have ended, SIGKILL `patience`
  // later.
  int stop_turn = 0;
  Millis patience{10'000};
  Millis longest_delay = kLongestDelay;  // before a restart
  // Asked until true, after all parts have written to their readiness pipes: the part answers
  // requests. Without a probe the pipe is enough.
  std::function<bool(int interrupt)> probe = {};
  // The name of another part. A line with the other part's process id on --hung-fd kills the
  // process.
  std::string watches = {};
};

struct SupervisorConfig {
  std::vector<Part> parts;             // in order of their start
  int lifeline = -1;                   // of our own parent: its end of file stops us; -1 for none
  std::function<Result<>()> on_ready;  // once, at the first readiness
};

class Supervisor {
 public:
  static Result<Supervisor> make(SupervisorConfig config);
  // Runs until a stop signal. An error if the service never became ready.
  Result<> run();

 private:
  enum class Phase { kRunning, kStopping };

  // A part with its process.
  struct Row {
    Part part;
    Child child;
    Pipe hung;                // of a part with `watches`
    base::Monotonic kill_at;  // during its turn
  };

  Supervisor(SupervisorConfig config, std::vector<Row> rows, Signals signals, Pipe lifeline);
  static Result<Row> rowOf(Part part);
  Result<> startDue();
  Result<> announce();
  void wait();
  void takeSignals();
  void killHung(const Row& watcher);
  Result<> reap();
  Result<> buried(Row& row, int wait_status);
  void stop(std::string_view why);
  void beginTurn(int turn);
  void advanceStop();
  void beat();
  void signalAll(int signal) const;
  void killAll();
  [[nodiscard]] bool isRunning() const { return phase_ == Phase::kRunning; }
  [[nodiscard]] bool anyRuns() const;
  [[nodiscard]] bool allReady() const;
  [[nodiscard]] bool allAnswer() const;
  [[nodiscard]] Millis untilNextEvent() const;

  SupervisorConfig config_;  // its parts have moved into `rows_`
  std::vector<Row> rows_;
  Signals signals_;
  Pipe lifeline_;
  Notifier notifier_;
  Phase phase_ = Phase::kRunning;
  int turn_ = 0;            // of stopping
  bool announced_ = false;  // READY=1 was sent
  bool answering_ = false;  // the probes succeeded since the last death
  bool told_to_stop_ = false;
  base::Monotonic next_beat_;
  // The parts are ready within a few milliseconds, and a private server's run waits for readiness.
  static constexpr Millis kFirstProbePause{1};
  static constexpr Millis kLongestProbePause{20};
  base::Monotonic next_probe_;
  Millis probe_pause_ = kFirstProbePause;
};

}  // namespace cloister::supervisor
