// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/exec_apart.h"

#include <string>
#include <utility>

#include "sandbox/box/run.h"

namespace cloister::runtime {
namespace {

class ExecApart final : public Exec {
 public:
  ExecApart(std::shared_ptr<Apart> apart, model::ExecSpec spec, std::shared_ptr<void> place)
      : apart_(std::move(apart)),
        spec_(std::make_shared<const model::ExecSpec>(std::move(spec))),
        place_(std::move(place)) {}
  ExecApart(const ExecApart&) = delete;
  ExecApart& operator=(const ExecApart&) = delete;
  ~ExecApart() override { apart_->end(); }

  Task<Result<model::Outcome>> run(ExecObserver& observer) override {
    const auto apart = apart_;
    const auto spec = spec_;
    auto made = co_await apart->make();
    Result<model::Outcome> outcome;
    if (!made) {
      outcome = std::unexpected(std::move(made).error().within("making its sandbox"));
    } else {
      run_ = std::make_shared<Run>(*std::move(made), *spec, observer, [] {});
      if (cancelled_) run_->stop(model::End::kCancelled);
      outcome = co_await run_->go();
      if (outcome) apart->take(outcome->usage);
    }
    co_await apart->bury();
    if (!outcome && cancelled_) {
      outcome = model::Outcome{};
      outcome->end = model::End::kCancelled;
    }
    co_return outcome;
  }

  void cancel() override {
    cancelled_ = true;
    if (run_) return run_->stop(model::End::kCancelled);
    apart_->end();
  }

  Task<Result<>> input(std::string /*bytes*/) override { co_return none("input"); }
  Result<> signal(int /*number*/) override { return none("signals"); }
  Result<> resize(model::TerminalSize /*size*/) override { return none("terminal"); }

 private:
  static std::unexpected<Error> none(std::string_view what) {
    return fail(Code::kConflict,
                "a program in a sandbox of its own in a session takes no " + std::string(what));
  }

  std::shared_ptr<Apart> apart_;
  std::shared_ptr<const model::ExecSpec> spec_;
  std::shared_ptr<void> place_;
  std::shared_ptr<Run> run_;
  bool cancelled_ = false;
};

}  // namespace

std::unique_ptr<Exec> makeExecApart(std::shared_ptr<Apart> apart, model::ExecSpec spec,
                                    std::shared_ptr<void> place) {
  return std::make_unique<ExecApart>(std::move(apart), std::move(spec), std::move(place));
}

}  // namespace cloister::runtime
