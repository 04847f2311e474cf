// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/process_session.h"

#include <tuple>
#include <utility>

#include "model/image_name.h"
#include "runtime/process/session_run.h"
#include "runtime/process/switchboard.h"
#include "runtime/process/within.h"
#include "runtime/spawn.h"
#include "wire/node.h"

namespace cloister::runtime {
namespace {

// Below what the runner has channels for, of which a program needs one at a time.
constexpr size_t kMaxPrograms = 24;

class ProcessExec final : public Exec {
 public:
  ProcessExec(std::shared_ptr<SessionRun> program, std::shared_ptr<void> place)
      : program_(std::move(program)), place_(std::move(place)) {}
  ProcessExec(const ProcessExec&) = delete;
  ProcessExec& operator=(const ProcessExec&) = delete;
  ~ProcessExec() override { program_->cancel(); }

  Task<Result<model::Outcome>> run(ExecObserver& observer) override {
    return program_->run(observer);
  }
  void cancel() override { program_->cancel(); }
  Task<Result<>> input(std::string bytes) override { return program_->input(std::move(bytes)); }
  Result<> signal(int number) override { return program_->signal(number); }
  Result<> resize(model::TerminalSize size) override { return program_->resize(size); }

 private:
  std::shared_ptr<SessionRun> program_;
  std::shared_ptr<void> place_;
};

class ProcessSession final : public Sandbox {
 public:
  ProcessSession(std::shared_ptr<Live> live, SandboxInfo info, SessionTraits traits)
      : live_(std::move(live)),
        board_(std::make_shared<Switchboard>(live_)),
        info_(std::move(info)),
        traits_(std::move(traits)),
        programs_(std::make_shared<size_t>(0)) {
    board_->start();
  }
  ProcessSession(const ProcessSession&) = delete;
  ProcessSession& operator=(const ProcessSession&) = delete;
  ~ProcessSession() override {
    board_->hangUp();
    live_->kill();
    spawn(live_->executor(), bury(live_));
  }

  [[nodiscard]] const SandboxInfo& info() const override { return info_; }

  Task<Result<model::Outcome>> exec(const model::ExecSpec& /*spec*/,
                                    ExecObserver& /*observer*/) override {
    co_return fail(Code::kDenied, "running: the sandbox is a session's");
  }

  void cancel() override {}

  Task<Result<std::unique_ptr<Exec>>> open(const model::SignedPermit& permit,
                                           const model::ExecSpec& spec) override {
    const model::PermitFields fields = CO_TRY(wire::decodePermit(permit.encoded));
    if (board_->ended()) co_return fail(Code::kConflict, "running in a session: it has ended");
    if (*programs_ >= kMaxPrograms) {
      co_return fail(Code::kQuota, "running in a session: " + std::to_string(kMaxPrograms) +
                                       " programs run in it already");
    }
    model::ExecSpec own = spec;
    model::addImageEnv(traits_.env, own.env);
    if (fields.nested && (!traits_.nests || spec.for_files)) {
      co_return fail(Code::kDenied, "running in a session: it has no sandboxes within it");
    }
    if (fields.nested) {
      co_return makeExecWithin(live_, board_, std::move(own),
                               {fields.limits, traits_.runs_own, takePlace()});
    }
    auto program = std::make_shared<SessionRun>(live_, board_, std::move(own), fields.limits);
    co_return std::make_unique<ProcessExec>(std::move(program), takePlace());
  }

  Task<model::SandboxEnd> died() override {
    const std::shared_ptr<Switchboard> board = board_;
    co_await board->waitEnd();
    co_return board->why();
  }

  Task<Result<>> teardown() override {
    board_->hangUp();
    co_return co_await live_->bury();
  }

 private:
  // One of kMaxPrograms, until it is let go.
  std::shared_ptr<void> takePlace() {
    ++*programs_;
    return {nullptr, [programs = programs_](void*) { --*programs; }};
  }

  static Task<void> bury(std::shared_ptr<Live> live) { std::ignore = co_await live->bury(); }

  std::shared_ptr<Live> live_;
  std::shared_ptr<Switchboard> board_;
  SandboxInfo info_;
  SessionTraits traits_;
  std::shared_ptr<size_t> programs_;
};

}  // namespace

std::unique_ptr<Sandbox> makeProcessSession(std::shared_ptr<Live> live, SandboxInfo info,
                                            SessionTraits traits) {
  return std::make_unique<ProcessSession>(std::move(live), std::move(info), std::move(traits));
}

}  // namespace cloister::runtime
