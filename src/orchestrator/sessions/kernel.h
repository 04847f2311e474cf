// SPDX-License-Identifier: Apache-2.0
// Kernel: an interpreter of a session that keeps its state between cells. A kernel is a program of
// the session's sandbox, without a client's request, on a permit of its own. Each cell is an
// execution like any other; the cell's program hands the code to the kernel inside (wire/kernel.h).
// One executor.
//
// A cell waits for earlier cells. A missing kernel is started at the turn of a cell. To end a cell,
// the kernel is first interrupted. If the cell does not yield, or does not report its end, its
// kernel is ended, and the next cell gets a fresh kernel. A kernel's state is lost with the kernel.
// Exactly one cell reports the loss: the cell at which the kernel ended, or else the first cell of
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
  uint32_t max_results = 64;                  // of a cell, as the next two
  uint64_t result_bytes = uint64_t{4} << 20;  // of each
  uint64_t results_bytes = uint64_t{8} << 20;
  uint64_t code_bytes = uint64_t{1} << 20;  // of a cell
  // Bounds of a cell's figures in answers; larger and further figures become artifacts.
  uint32_t inline_figures = 4;
  uint64_t inline_figure_bytes = uint64_t{256} << 10;
  Millis interrupt{2'000};  // for a cell to yield
};

struct KernelState {
  std::string name;
  std::string language;
  bool running = false;    // the interpreter is there
  uint32_t cells = 0;      // running or waiting
  uint64_t number = 0;     // number of the last cell since the kernel's start
  int64_t started_at = 0;  // wall-clock microseconds; 0: not started
};
base::json::object toJsonObject(const KernelState& state);

class Kernel final : public Interpreter, public std::enable_shared_from_this<Kernel> {
 public:
  // A prepared program for the interpreter, not started yet.
  struct Begun {
    std::unique_ptr<Host> host;
    model::ExecSpec spec;
    std::function<void(uint64_t cpu_ms)> charge = {};  // charges the use since the last call
  };
  // Fails instead of waiting once the kernel is no longer wanted: `over`, for which its session is
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
  // The kernel's directory for its cells, inside the sandbox.
  [[nodiscard]] std::string dir() const { return "/tmp/.cloister-kernel-" + name_; }
  [[nodiscard]] KernelState state() const;
  [[nodiscard]] bool runs() const;

  void adapt(const model::ExecRequest& request, model::ExecSpec& spec) const override;
  std::unique_ptr<Host> hostOf(std::shared_ptr<Home> home, const model::Limits& limits) override;

  // The line of its cells.
  void join(const void* cell);
  void leave(const void* cell);
  [[nodiscard]] bool isNext(const void* cell) const;

  // After success an interpreter runs; returns the number of the next cell. Waits for an ending
  // interpreter, and starts another. `over`: the cell has ended.
  Task<Result<uint64_t>> ensure(std::function<bool()> over);
  // The reason for the loss of earlier cells' state, if not reported yet; only once.
  std::optional<std::string> takeLoss() { return std::exchange(loss_, std::nullopt); }
  // The reason of the loss, reported by the cell at which the kernel ended.
  std::string sayLoss();
  // The outcome; null while the kernel runs.
  [[nodiscard]] const Result<model::Outcome>* outcome() const;
  // Processor time of the interpreter and its children, as last reported by the node.
  [[nodiscard]] Millis cpu() const;
  void signal(int number);
  void stop(std::string_view why);  // returns at once; the first cause counts
  Task<void> stopped();             // resumes after the end
  void abandon();                   // its session ends

  // Notified of changes of the kernel or its queue of cells.
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
