// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/hold.h"

#include <chrono>
#include <functional>
#include <utility>

#include "base/clock.h"

namespace cloister::runtime {
namespace {

class Closed {
 public:
  Closed(std::shared_ptr<Live> live, std::shared_ptr<HoldGate> gate)
      : live_(std::move(live)), gate_(std::move(gate)) {
    gate_->closed = true;
    ++gate_->count;
  }
  Closed(const Closed&) = delete;
  Closed& operator=(const Closed&) = delete;
  ~Closed() {
    live_->thaw();
    gate_->closed = false;
    gate_->changed.notify();
  }

 private:
  std::shared_ptr<Live> live_;
  std::shared_ptr<HoldGate> gate_;
};

class Hold final : public Exec {
 public:
  Hold(std::unique_ptr<Exec> exec, std::shared_ptr<Live> live, std::shared_ptr<HoldGate> gate,
       bool freezes)
      : exec_(std::move(exec)), live_(std::move(live)), gate_(std::move(gate)), freezes_(freezes) {}
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() override { Hold::cancel(); }

  // Its own group is made after the others are frozen.
  Task<Result<model::Outcome>> run(ExecObserver& observer) override {
    const std::shared_ptr<Exec> exec = exec_;
    const auto live = live_;
    const auto gate = gate_;
    const bool freezes = freezes_;
    const auto stage = stage_;
    const Closed closed(live, gate);
    const std::function<bool()> over = [stage] { return *stage == Stage::kCancelled; };
    CO_TRY(co_await started(*gate, over));
    if (freezes && !over()) CO_TRY(co_await live->freeze(over));
    if (over()) {
      model::Outcome never;
      never.end = model::End::kCancelled;
      co_return never;
    }
    *stage = Stage::kRuns;
    co_return co_await exec->run(observer);
  }
  // Forwards cancel() only to a program already begun: a program not yet begun reports no end.
  void cancel() override {
    if (*stage_ == Stage::kRuns) return exec_->cancel();
    *stage_ = Stage::kCancelled;
    gate_->changed.notify();
  }
  Task<Result<>> input(std::string bytes) override { return exec_->input(std::move(bytes)); }
  Result<> signal(int number) override { return exec_->signal(number); }
  Result<> resize(model::TerminalSize size) override { return exec_->resize(size); }

 private:
  enum class Stage : uint8_t { kWaits, kCancelled, kRuns };

  static Task<Result<>> started(HoldGate& gate, const std::function<bool()>& over) {
    constexpr std::chrono::seconds kPatience{10};
    const auto until = base::monotonicNow() + kPatience;
    while (gate.starting > 0 && !over() && base::monotonicNow() < until)
      co_await gate.changed.wait(until);
    if (gate.starting == 0 || over()) co_return Result<>{};
    co_return fail(Code::kUnavailable,
                   "holding the workspace: a program has not started yet; try again after that");
  }

  std::shared_ptr<Exec> exec_;
  std::shared_ptr<Live> live_;
  std::shared_ptr<HoldGate> gate_;
  bool freezes_;
  std::shared_ptr<Stage> stage_ = std::make_shared<Stage>(Stage::kWaits);
};

}  // namespace

std::unique_ptr<Exec> makeHold(std::unique_ptr<Exec> exec, std::shared_ptr<Live> live,
                               std::shared_ptr<HoldGate> gate, bool freezes) {
  return std::make_unique<Hold>(std::move(exec), std::move(live), std::move(gate), freezes);
}

}  // namespace cloister::runtime
