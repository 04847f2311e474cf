// SPDX-License-Identifier: Apache-2.0
// The supervisor of `cloister serve`: one thread, one poll loop, over two children. It holds what
// must outlive them: the state directory's lock, the listening socket, and the write end of the
// lifeline, a pipe whose end of file tells the children that the supervisor is gone, however it
// went, and the read end of a pipe on which the control plane says that the node hangs, which is
// killed then. As pid 1 of a container it reaps orphans too.
//
// Start: both children at once. A child that dies before it was ever ready ends the service with
// its reason; later deaths are answered by restarts. Stop: the control plane drains first, then the
// node.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "supervisor/child.h"
#include "supervisor/sd_notify.h"
#include "supervisor/signals.h"

namespace cloister::supervisor {

struct SupervisorConfig {
  Program control;           // cloisterd, with its listeners
  Program node;              // cloister-node
  int lifeline = -1;         // of our own parent: its end of file stops us; -1 for none
  Millis drain{30'000};      // for cloisterd to end
  Millis node_stop{10'000};  // for the node to end
  std::function<bool(int interrupt)> probe;  // true once the service answers that it is ready
  std::function<Result<>()> on_ready;        // once, at the first readiness
};

class Supervisor {
 public:
  static Result<Supervisor> make(SupervisorConfig config);
  // Until told to stop. An error when the service never came up.
  Result<> run();

 private:
  enum class Phase { kRunning, kDraining, kStoppingNode };

  Supervisor(SupervisorConfig config, Signals signals, Pipe lifeline, Pipe hung);
  Result<> startDue();
  Result<> announce();
  void wait();
  void takeSignals();
  void killHungNode();
  Result<> reap();
  void stop(std::string_view why);
  void advanceStop();
  void beat();
  void killAll();
  [[nodiscard]] bool finished() const;
  [[nodiscard]] Millis untilNextEvent() const;

  SupervisorConfig config_;
  Signals signals_;
  Pipe lifeline_;
  Pipe hung_;
  Notifier notifier_;
  Child control_;
  Child node_;
  Phase phase_ = Phase::kRunning;
  bool announced_ = false;  // READY=1 was sent
  bool answering_ = false;  // the probe succeeded since the last death
  bool told_to_stop_ = false;
  base::Monotonic deadline_;  // of the phase
  base::Monotonic next_beat_;
  // The parts meet within a few milliseconds, and a private server's run waits for it.
  static constexpr Millis kFirstProbePause{1};
  static constexpr Millis kLongestProbePause{20};
  base::Monotonic next_probe_;
  Millis probe_pause_ = kFirstProbePause;
};

}  // namespace cloister::supervisor
