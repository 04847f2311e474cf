// SPDX-License-Identifier: Apache-2.0
// Kernel: an interpreter of a session that keeps its state between cells. It is a program of the
// session's sandbox that no client asked for, on a permit of its own; each cell is an execution
// like any other, whose program is the one that meets the kernel inside (wire/kernel.h). One
// executor.
//
// A cell waits for those before it. A kernel that is not there is started for the cell whose turn
// it is. A cell that is to end is interrupted first; if it does not yield, its kernel is ended, and
// so is one whose cell does not say how it ended: the next cell gets a fresh one. What a kernel
// kept is lost with it. One cell says so: the one with which the kernel ended, or else the first of
// the next kernel.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "async/signal.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/exec_spec.h"
#include "model/outcome.h"
#include "model/session.h"
#include "orchestrator/runs/host.h"
#include "orchestrator/runs/programs.h"

namespace cloister::orchestrator {

struct KernelBounds {
  uint32_t max_per_session = 4;
  uint32_t max_results = 64;                  // of one cell, as the next two
  uint64_t result_bytes = uint64_t{4} << 20;  // of each
  uint64_t results_bytes = uint64_t{8} << 20;
  uint64_t code_bytes = uint64_t{1} << 20;  // of one cell
  // Figures of a cell that an answer can show; the others are kept as artifacts, too.
  uint32_t inline_figures = 4;
  uint64_t inline_figure_bytes = uint64_t{256} << 10;
  Millis interrupt{2'000};  // for a cell to yield
};

struct KernelState {
  std::string name;
  std::string language;
  bool running = false;    // the interpreter is there
  uint32_t cells = 0;      // that run or wait
  uint64_t number = 0;     // of the last cell, since it was started
  int64_t started_at = 0;  // wall-clock microseconds; 0: it is not there
};
base::json::object toJsonObject(const KernelState& state);

class Kernel final : public Interpreter, public std::enable_shared_from_this<Kernel> {
 public:
  // What it runs on: prepared, and not started yet.
  struct Begun {
    std::unique_ptr<Host> host;
    model::ExecSpec spec;
    std::function<void(uint64_t cpu_ms)> charge = {};  // for what it has used since the last call
  };
  // Fails where it has to wait once nobody wants it any more: `over`, for which its session is
  // woken.
  using Begin =
      std::function<Task<Result<Begun>>(std::shared_ptr<Kernel>, std::function<bool()> over)>;

  Kernel(boost::asio::any_io_executor executor, std::string name, std::string language,
         KernelBounds bounds, Begin begin);
  ~Kernel() override;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool wasStarted() const { return instance_ != nullptr; }
  [[nodiscard]] const std::string& language() const { return language_; }
  [[nodiscard]] const KernelBounds& bounds() const { return bounds_; }
  // Where it meets its cells, inside the sandbox.
  [[nodiscard]] std::string dir() const { return "/tmp/.cloister-kernel-" + name_; }
  [[nodiscard]] KernelState state() const;
  [[nodiscard]] bool runs() const;

  void adapt(const model::ExecRequest& request, model::ExecSpec& spec) const override;
  std::unique_ptr<Host> hostOf(std::shared_ptr<Home> home, const model::Limits& limits) override;

  // The line of its cells.
  void join(const void* cell);
  void leave(const void* cell);
  [[nodiscard]] bool isNext(const void* cell) const;

  // There is an interpreter when it succeeds; the number of the next cell in it. One that is being
  // ended is waited for, and replaced. `over`: the cell has ended.
  Task<Result<uint64_t>> ensure(std::function<bool()> over);
  // Why what earlier cells kept is lost, where no cell has said so yet; once.
  std::optional<std::string> takeLoss() { return std::exchange(loss_, std::nullopt); }
  // The cell with which it ended says so: why.
  std::string sayLoss();
  // How it ended; nothing while it runs.
  [[nodiscard]] const Result<model::Outcome>* outcome() const;
  // Processor time of the interpreter and what it has started, as the node last told.
  [[nodiscard]] Millis cpu() const;
  void signal(int number);
  void stop(std::string_view why);  // returns at once; the first cause counts
  Task<void> stopped();             // once it has ended
  void abandon();                   // its session ends

  // Something of it, or of its line, has changed.
  async::Signal& changed() { return changed_; }

 private:
  class Instance;

  std::string name_;
  std::string language_;
  KernelBounds bounds_;
  Begin begin_;
  std::deque<const void*> line_;
  std::shared_ptr<Instance> instance_;
  uint64_t number_ = 0;
  bool keeps_ = false;  // a cell has been let into the interpreter, whose loss none has said yet
  std::optional<std::string> loss_;  // for the next cell
  bool abandoned_ = false;
  async::Signal changed_;
};

}  // namespace cloister::orchestrator
