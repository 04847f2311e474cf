// SPDX-License-Identifier: Apache-2.0
// Run: one exec in a sandbox, from its files to its Outcome. Several causes can end a Run; the
// first cause is kept, and the kernel's report counts more than the runner's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "model/exec_spec.h"
#include "model/outcome.h"
#include "runtime/runtime.h"
#include "sandbox/box/housing.h"
#include "sandbox/box/limit_hits.h"

namespace cloister::runtime {

class Run : public std::enable_shared_from_this<Run> {
 public:
  // `spec` and `observer` outlive go(). `on_started`: the program, or its compiler, runs now.
  Run(std::shared_ptr<Housing> housing, const model::ExecSpec& spec, ExecObserver& observer,
      std::function<void()> on_started);

  Task<Result<model::Outcome>> go();
  // Ends the run with cause `end`, unless another cause came first.
  void stop(model::End end, std::string message = {});

 private:
  // Frames stay in frames_ until there are many, or until an answer is needed.
  Task<Result<>> flush();
  Task<Result<>> addFiles();
  Task<void> compile();
  Task<void> program();
  Task<bool> waitingProgram();
  Task<bool> relay(uint32_t channel);
  // False if the command did not exit; `cause_` is then set.
  Task<bool> command(const model::Command& command, uint32_t channel);
  Task<bool> onFrame(const RunnerFrame& frame);
  Task<void> onOutput(model::Stream stream, std::string_view bytes);
  void onStarted();
  bool addInput(std::string& out, uint32_t channel, std::string_view& rest, size_t most);
  Task<void> feed(uint32_t channel, std::string_view rest);
  void askForArtifacts();
  Task<void> collect();
  Task<Result<bool>> onCollectFrame(const RunnerFrame& frame);

  void watchMemory();
  void watchUsage();
  void checkUsage();
  void armWall(std::chrono::milliseconds after);
  void stopForMemory();
  void compose();
  void judgeExit();
  void addHits(const linux::CgroupEvents& events);
  void measure();

  std::shared_ptr<Housing> housing_;
  const model::ExecSpec& spec_;
  ExecObserver& observer_;
  std::function<void()> on_started_;
  model::Outcome outcome_;
  std::optional<model::End> cause_;   // once set, the sandbox has been killed
  std::optional<ExitReport> report_;  // of the last command that ended
  std::string program_;               // program name of the last command that ended
  Scratch scratch_;
  TooManyOpenFiles too_many_;
  NoSpaceLeft no_space_;
  std::string frames_;
  bool asked_ = false;  // for artifacts
  bool compiling_ = false;
  bool started_ = false;
  bool done_ = false;
  std::chrono::milliseconds wall_{0};  // of the running command
  base::Monotonic started_at_{};
  linux::CgroupUsage peak_;  // where usage is polled
  linux::IoBytes io_;        // the same for storage traffic
  base::Monotonic io_due_{};

  boost::asio::steady_timer wall_timer_;
  boost::asio::steady_timer usage_timer_;
  std::optional<boost::asio::posix::stream_descriptor> oom_;

  async::Signal stdin_changed_;
  uint64_t stdin_window_ = 0;
  bool stdin_stop_ = false;
  bool feeding_ = false;

  // State of the artifact being received.
  uint32_t files_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t file_left_ = 0;
  bool in_file_ = false;
};

}  // namespace cloister::runtime
