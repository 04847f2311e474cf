// SPDX-License-Identifier: Apache-2.0
// The host of a cell: waits for the cell's turn in its kernel, starts a missing kernel, and makes
// sure that the cell ends.
#include <signal.h>

#include <tuple>
#include <utility>

#include "async/spawn.h"
#include "orchestrator/sessions/cell_frames.h"
#include "orchestrator/sessions/kernel.h"

namespace cloister::orchestrator {
namespace {

using model::End;
using model::Outcome;

// For passing on remaining output after the kernel's end.
constexpr Millis kDrain{2'000};

class CellHost final : public Host {
 public:
  CellHost(const boost::asio::any_io_executor& executor, std::shared_ptr<Home> home,
           std::shared_ptr<Kernel> kernel, const model::Limits& limits)
      : executor_(executor),
        inner_(makeSessionHost(executor, home)),
        home_(std::move(home)),
        kernel_(std::move(kernel)),
        wall_(limits.wall),
        cpu_(limits.cpu_time) {}
  CellHost(const CellHost&) = delete;
  CellHost& operator=(const CellHost&) = delete;
  ~CellHost() override { kernel_->leave(this); }

  [[nodiscard]] bool startsAtOnce() const override { return true; }
  Result<> admit() override { return inner_->admit(); }
  void pass() override { inner_->pass(); }
  void occupy() override {
    inner_->occupy();
    kernel_->join(this);
  }
  void vacate() override {
    inner_->vacate();
    kernel_->leave(this);
  }
  Task<Result<runtime::SandboxInfo>> prepare(model::SignedPermit permit,
                                             const model::ExecSpec& spec) override {
    return inner_->prepare(std::move(permit), spec);
  }
  Task<Result<Outcome>> run(const model::ExecSpec& spec, runtime::ExecObserver& observer) override;
  void cancel() override;
  Task<Result<>> release() override { return inner_->release(); }
  Task<Result<>> input(std::string bytes) override { return inner_->input(std::move(bytes)); }
  Result<> signal(int number) override;
  void complete(model::Execution& execution) override;
  [[nodiscard]] Cause cause() const override { return inner_->cause(); }
  void tell(const model::Execution& execution) override {
    if (model::isTerminal(execution.status)) kernel_->leave(this);
    inner_->tell(execution);
  }

 private:
  enum class Stage : uint8_t { kRuns, kInterrupted, kStopping };

  Task<void> watch();
  base::Monotonic step(base::Monotonic until);
  bool usedUp();
  [[nodiscard]] End endOr(End otherwise) const;
  Task<Result<Outcome>> judge(Outcome met);
  Task<void> loseKernel();
  Task<void> keepFigures(runtime::ExecObserver& observer);
  [[nodiscard]] Outcome ofKernel(Outcome met) const;
  [[nodiscard]] bool isOver() const { return *cancelled_ || home_->cause() != Cause::kNone; }
  // The cell waits for the end of the hold on the session's workspace: its time has not begun.
  [[nodiscard]] bool waits() const { return !frames_->started() && !home_->notHeld(); }

  boost::asio::any_io_executor executor_;
  std::unique_ptr<Host> inner_;
  std::shared_ptr<Home> home_;
  std::shared_ptr<Kernel> kernel_;
  Millis wall_;
  Millis cpu_;
  Millis cpu_before_{0};  // of the kernel, before the cell
  std::optional<CellFrames> frames_;
  uint64_t number_ = 0;
  Stage stage_ = Stage::kRuns;
  int pending_signal_ = 0;  // until the cell begins
  // Shared with the start of the kernel, which may outlive the host.
  const std::shared_ptr<bool> cancelled_ = std::make_shared<bool>(false);
  bool timed_out_ = false;
  std::optional<model::LimitHit> cpu_hit_;
  bool told_ = false;               // the cell's program, of the kernel's end
  bool lost_ = false;               // with this cell
  std::optional<std::string> why_;  // why state of this or earlier cells is lost
  bool done_ = false;
  bool watching_ = false;
};

Task<Result<Outcome>> CellHost::run(const model::ExecSpec& spec, runtime::ExecObserver& observer) {
  while (!kernel_->isNext(this) && !isOver())
    co_await kernel_->changed().wait();
  if (!isOver()) {
    number_ = CO_TRY(co_await kernel_->ensure([cancelled = cancelled_] { return *cancelled; }));
  }
  if (isOver()) {
    Outcome never;
    never.end = End::kCancelled;
    co_return never;
  }
  cpu_before_ = kernel_->cpu();
  frames_.emplace(observer, kernel_->bounds(), [this] { kernel_->changed().notify(); });
  if ((why_ = kernel_->takeLoss())) {
    frames_->sayFirst("cloister: the kernel ended before this cell (" + *why_ +
                      "); its state is lost, and this cell has a fresh one\n");
  }
  watching_ = true;
  async::spawn(executor_, watch());
  auto met = co_await inner_->run(spec, *frames_);
  done_ = true;
  kernel_->changed().notify();
  while (watching_)
    co_await kernel_->changed().wait();
  if (!met) co_return std::unexpected(std::move(met).error());
  auto outcome = co_await judge(*std::move(met));
  if (lost_ && home_->cause() == Cause::kNone) {
    co_await observer.onOutput(model::Stream::kStderr,
                               "cloister: the kernel ended with this cell (" + *why_ +
                                   "); its state is lost, and the next cell gets a fresh one\n");
  }
  kernel_->leave(this);
  co_await keepFigures(observer);
  co_return outcome;
}

// Keeps figures as files, except figures shown by the answer.
Task<void> CellHost::keepFigures(runtime::ExecObserver& observer) {
  const KernelBounds& bounds = kernel_->bounds();
  size_t shown = 0;
  size_t place = 0;
  for (const base::json::value& result : frames_->results()) {
    const std::optional<model::Figure> figure = model::figureOf(result);
    const size_t at = place++;
    if (!figure) continue;
    if (figure->bytes.size() <= bounds.inline_figure_bytes && shown < bounds.inline_figures) {
      ++shown;
      continue;
    }
    co_await observer.onFileBegin(model::figurePath(number_, at, figure->type),
                                  figure->bytes.size());
    co_await observer.onFileData(figure->bytes);
    co_await observer.onFileEnd();
  }
}

// Its time, its cancellation, the end of its kernel: as long as the cell runs.
Task<void> CellHost::watch() {
  base::Monotonic until = base::monotonicNow() + wall_;
  for (bool waited = true; !done_;) {
    if (std::exchange(waited, waits())) until = base::monotonicNow() + wall_;
    until = step(until);
    if (!done_) co_await kernel_->changed().wait(until);
  }
  watching_ = false;
  kernel_->changed().notify();
}

// Returns when to look again at the latest.
base::Monotonic CellHost::step(base::Monotonic until) {
  const base::Monotonic now = base::monotonicNow();
  if (frames_->begun() && pending_signal_ != 0) kernel_->signal(std::exchange(pending_signal_, 0));
  if (frames_->broken()) kernel_->stop("it did not keep to its protocol");
  if (home_->cause() != Cause::kNone) {
    inner_->cancel();
    return base::Monotonic::max();
  }
  if (!kernel_->runs()) {
    if (!std::exchange(told_, true)) {
      if (inner_->signal(SIGTERM)) return now + kDrain;
    } else if (now < until) {
      return until;
    }
    inner_->cancel();
    return base::Monotonic::max();
  }
  if (waits()) {
    if (*cancelled_) inner_->cancel();
    return *cancelled_ ? base::Monotonic::max() : now + wall_;
  }
  if (stage_ == Stage::kRuns && (*cancelled_ || now >= until || usedUp())) {
    timed_out_ = !*cancelled_ && !cpu_hit_;
    stage_ = Stage::kInterrupted;
    std::ignore = signal(SIGINT);
    return now + kernel_->bounds().interrupt;
  }
  if (stage_ == Stage::kInterrupted && now >= until) {
    stage_ = Stage::kStopping;
    kernel_->stop("its cell did not yield when it was interrupted");
    return base::Monotonic::max();
  }
  return until;
}

// True if the kernel has used more processor time since the cell's begin than the cell may use.
bool CellHost::usedUp() {
  const Millis used = kernel_->cpu() - cpu_before_;
  if (cpu_.count() == 0 || used < cpu_) return false;
  cpu_hit_ = {.limit = std::string(model::limit_name::kCpuTime),
              .value = static_cast<uint64_t>(cpu_.count()),
              .used = static_cast<uint64_t>(used.count()),
              .unit = "ms",
              .fatal = true};
  return true;
}

// The end caused by the service, if any.
End CellHost::endOr(End otherwise) const {
  return cpu_hit_      ? End::kLimit
         : timed_out_  ? End::kTimedOut
         : *cancelled_ ? End::kCancelled
                       : otherwise;
}

Task<void> CellHost::loseKernel() {
  lost_ = true;
  kernel_->stop("it did not say how its cell ended");
  co_await kernel_->stopped();
  why_ = kernel_->sayLoss();
}

// The cell's outcome, from its program's report and from the kernel's outcome.
Task<Result<Outcome>> CellHost::judge(Outcome met) {
  if (home_->cause() != Cause::kNone) co_return met;
  if (stage_ == Stage::kStopping) co_await loseKernel();  // also when the cell's last word came yet
  if (const auto code = frames_->exitCode()) {
    met.end = endOr(End::kExited);
    met.exit_code = *code;
    met.signal = 0;
    std::erase_if(met.limits, [](const model::LimitHit& hit) { return hit.fatal; });
    if (cpu_hit_) met.limits.push_back(*cpu_hit_);
    co_return met;
  }
  const bool by_itself = !kernel_->runs() && stage_ == Stage::kRuns;
  co_await loseKernel();
  met.limits.clear();
  met.exit_code = 0;
  met.signal = 0;
  if (by_itself) co_return ofKernel(std::move(met));
  if (cpu_hit_) met.limits.push_back(*cpu_hit_);
  met.end = endOr(End::kSignaled);
  if (met.end != End::kCancelled) met.signal = SIGKILL;
  co_return met;
}

Outcome CellHost::ofKernel(Outcome met) const {
  const Result<Outcome>* outcome = kernel_->outcome();
  if (outcome == nullptr || !*outcome) {
    met.end = End::kRunnerLost;
    met.message = outcome == nullptr ? "the kernel was lost" : outcome->error().message;
    return met;
  }
  const Outcome& kernel = **outcome;
  met.end = kernel.end;
  met.exit_code = kernel.exit_code;
  met.signal = kernel.signal;
  met.message = kernel.message;
  met.limits = kernel.limits;
  return met;
}

void CellHost::cancel() {
  if (home_->cause() != Cause::kNone) {
    inner_->cancel();
  } else {
    *cancelled_ = true;
    home_->wake();  // its kernel may wait there
  }
  kernel_->changed().notify();
}

// Sends the signal to the interpreter and its children; an early signal waits for the cell's begin.
Result<> CellHost::signal(int number) {
  if (!frames_ || frames_->exitCode()) return Host::signal(number);
  if (frames_->begun()) {
    kernel_->signal(number);
  } else {
    pending_signal_ = number;
  }
  return {};
}

void CellHost::complete(model::Execution& execution) {
  execution.cell = model::Cell{
      .kernel = kernel_->name(),
      .number = number_,
      .state_lost = why_.has_value(),
      .lost_before = why_.has_value() && !lost_,
      .lost_why = why_.value_or(""),
  };
  if (frames_) {
    execution.results = std::move(frames_->results());
    execution.results_bytes = frames_->resultsBytes();
    execution.results_truncated = frames_->resultsTruncated();
    execution.results_left_out = std::move(frames_->leftOut());
  }
  if (!execution.error) return;
  execution.error->details["state_lost"] = why_.has_value();
  if (lost_) {
    execution.error->message += "; its kernel ended with it, and what that kept is lost";
  } else if (timed_out_ || cpu_hit_) {
    execution.error->message += "; its kernel goes on, with what it keeps";
  }
}

}  // namespace

std::unique_ptr<Host> Kernel::hostOf(std::shared_ptr<Home> home, const model::Limits& limits) {
  return std::make_unique<CellHost>(changed_.executor(), std::move(home), shared_from_this(),
                                    limits);
}

}  // namespace cloister::orchestrator
