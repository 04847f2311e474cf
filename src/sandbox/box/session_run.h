// SPDX-License-Identifier: Apache-2.0
// SessionRun: one exec in a session's sandbox, beside others. On a machine with cgroups the exec
// has a cgroup of its own within the sandbox's. The exec's cgroup counts the usage and serves to
// kill all processes of the exec. Always in a shared_ptr. One thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "model/exec_spec.h"
#include "model/outcome.h"
#include "runtime/runtime.h"
#include "sandbox/box/hold.h"
#include "sandbox/box/limit_hits.h"
#include "sandbox/box/live.h"
#include "sandbox/box/switchboard.h"

namespace cloister::runtime {

class SessionRun : public std::enable_shared_from_this<SessionRun> {
 public:
  // Wall time and processor time of `limits` apply to this program alone. `attached`: the line of
  // an interpreter that already runs in a sandbox resumed from a memory image. `gate`: no start
  // while closed, unless already closed at construction. Waits some seconds in total, then fails
  // with kConflict.
  SessionRun(std::shared_ptr<Live> live, std::shared_ptr<Switchboard> board, model::ExecSpec spec,
             model::Limits limits, std::shared_ptr<Line> attached = nullptr,
             std::shared_ptr<HoldGate> gate = nullptr);
  SessionRun(const SessionRun&) = delete;
  SessionRun& operator=(const SessionRun&) = delete;
  ~SessionRun();

  // The functions of Exec.
  Task<Result<model::Outcome>> run(ExecObserver& observer);
  void cancel() { stop(model::End::kCancelled); }
  Task<Result<>> input(std::string bytes);
  Result<> signal(int number);
  Result<> resize(model::TerminalSize size);

 private:
  // Ends the program with cause `end`, unless another cause came first.
  void stop(model::End end, std::string message = {});
  Task<void> compile(ExecObserver& observer);
  // False if the command did not exit; `cause_` is then set.
  Task<bool> command(const model::Command& command, bool with_input, ExecObserver& observer);
  Task<Result<>> start(const model::Command& command, bool with_input);
  Task<Result<Switchboard::Turn>> turn();
  Task<void> attach(ExecObserver& observer);
  Task<Result<>> sendFiles();
  Task<void> relay(ExecObserver& observer);
  Task<bool> onFrame(const Line::Kept& frame, ExecObserver& observer);
  void onStarted(ExecObserver& observer);
  Task<void> onOutput(model::Stream stream, std::string_view bytes, ExecObserver& observer);
  Task<void> feedFirst();
  Task<Result<>> feed(std::string_view bytes);
  Task<Result<>> endInput();
  Task<void> clear();

  void kill();
  static Task<void> killUntilReported(std::weak_ptr<SessionRun> weak,
                                      boost::asio::any_io_executor executor);
  static Task<void> killUntilGone(std::shared_ptr<Live> live, std::shared_ptr<linux::Cgroup> group);
  void armWall(std::chrono::milliseconds after);
  void watchUsage(ExecObserver& observer);
  void checkUsage(ExecObserver& observer);
  void beginCell(std::string_view kernel);
  linux::CgroupUsage usedByCell(linux::IoBytes& io, bool with_io);
  void measure(model::Usage& usage, bool with_io);
  [[nodiscard]] uint64_t outOfMemory() const;
  void compose();
  void judgeExit();

  std::shared_ptr<Live> live_;
  std::shared_ptr<Switchboard> board_;
  const model::ExecSpec spec_;
  const model::Limits limits_;
  model::Outcome outcome_;
  std::optional<model::End> cause_;
  std::optional<ExitReport> report_;  // of the last command that ended
  std::string program_;               // program name of the last command that ended
  std::optional<Scratch> scratch_;
  TooManyOpenFiles too_many_;
  NoSpaceLeft no_space_;
  std::shared_ptr<linux::Cgroup> group_;  // shared with live_, which removes the group's
                                          // directories
  linux::CgroupEvents before_;            // of the whole sandbox
  linux::IoBytes io_;                     // at the least
  linux::IoBytes reported_io_;            // by the runner, of all commands
  base::Monotonic io_due_{};
  // For a cell, whose work happens in its interpreter: usage of the interpreter before the cell.
  // Without a group per program, usage of the whole sandbox.
  struct Meter {
    std::shared_ptr<linux::Cgroup> kernel;  // nullptr: the sandbox
    linux::CgroupUsage before;
    linux::CgroupUsage most;  // seen
    linux::IoBytes io_before;
    linux::IoBytes io_most;
  };
  std::optional<Meter> cell_;
  std::shared_ptr<Line> line_;  // of the running command
  std::shared_ptr<HoldGate> gate_;
  uint64_t passes_;                            // number of the closing to ignore; 0: none
  std::optional<base::Monotonic> gate_until_;  // end of waiting for the gate, after the first wait
  std::optional<Error> refused_;               // set when the gate did not open in time
  std::shared_ptr<void> starting_;             // counted in `gate_`
  bool attached_ = false;                      // the line's program started before this object
  bool is_program_ = true;                     // not an interpreter or a file service
  bool begun_ = false;                         // something of the command was sent
  bool files_sent_ = false;
  bool compiling_ = false;
  bool started_ = false;
  bool done_ = false;
  bool feeding_ = false;
  std::chrono::milliseconds wall_{0};
  base::Monotonic started_at_{};
  boost::asio::steady_timer wall_timer_;
  boost::asio::steady_timer usage_timer_;
  async::Signal input_changed_;  // notified when a user of the input is done
};

}  // namespace cloister::runtime
