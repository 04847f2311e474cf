// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/host.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "async/signal.h"
#include "async/spawn.h"

namespace cloister::orchestrator {
namespace {

using model::Outcome;

// A program without its sandbox waits this long for the reason.
constexpr Millis kReasonPatience{1'000};

class OwnHost final : public Host {
 public:
  OwnHost(const NodeState& node, Places& places, Need need)
      : node_(node), places_(places), need_(need) {}

  [[nodiscard]] bool startsAtOnce() const override { return false; }
  Result<> admit() override { return {}; }
  void occupy() override { places_.takeRun(need_); }
  void vacate() override { places_.giveRun(need_); }

  Task<Result<runtime::SandboxInfo>> prepare(model::SignedPermit permit,
                                             const model::ExecSpec& /*spec*/) override {
    if (node_.runtime == nullptr) co_return fail(Code::kUnavailable, "no node is connected");
    sandbox_ = CO_TRY(co_await node_.runtime->provision(permit));
    co_return sandbox_->info();
  }

  Task<Result<Outcome>> run(const model::ExecSpec& spec, runtime::ExecObserver& observer) override {
    return sandbox_->exec(spec, observer);
  }

  void cancel() override {
    if (sandbox_) sandbox_->cancel();
  }

  Task<Result<>> release() override {
    if (!sandbox_) co_return Result<>{};
    auto done = co_await sandbox_->teardown();
    sandbox_.reset();
    co_return done;
  }

 private:
  const NodeState& node_;
  Places& places_;
  Need need_;
  std::unique_ptr<runtime::Sandbox> sandbox_;
};

// A program of a session, and its messages to the observer. May outlive its host, because a
// destroyed sandbox may still refer to the program.
class Program final : public runtime::ExecObserver {
 public:
  Program(const boost::asio::any_io_executor& executor, std::unique_ptr<runtime::Exec> exec)
      : exec_(std::move(exec)), changed_(executor) {}

  [[nodiscard]] runtime::Exec& exec() { return *exec_; }
  async::Signal& changed() { return changed_; }
  std::optional<Result<Outcome>>& outcome() { return outcome_; }
  void listen(runtime::ExecObserver* observer) { observer_ = observer; }
  // Holds the turn until the program has started, or never will.
  void holdUntilStarted(std::shared_ptr<void> turn) { turn_ = std::move(turn); }

  static Task<void> run(std::shared_ptr<Program> self) {
    self->outcome_ = co_await self->exec_->run(*self);
    self->turn_.reset();
    self->changed_.notify();
  }
  static Task<Result<>> input(std::shared_ptr<Program> self, std::string bytes) {
    co_return co_await self->exec_->input(std::move(bytes));
  }

  void onStarted() override {
    turn_.reset();
    if (observer_ != nullptr) observer_->onStarted();
  }
  Task<void> onOutput(model::Stream stream, std::string_view bytes) override {
    if (observer_ != nullptr) co_await observer_->onOutput(stream, bytes);
  }
  Task<void> onFileBegin(std::string path, uint64_t size) override {
    if (observer_ != nullptr) co_await observer_->onFileBegin(std::move(path), size);
  }
  Task<void> onFileData(std::string_view bytes) override {
    if (observer_ != nullptr) co_await observer_->onFileData(bytes);
  }
  Task<void> onFileEnd() override {
    if (observer_ != nullptr) co_await observer_->onFileEnd();
  }
  void onUsage(const model::Usage& usage) override {
    if (observer_ != nullptr) observer_->onUsage(usage);
  }

 private:
  std::unique_ptr<runtime::Exec> exec_;
  runtime::ExecObserver* observer_ = nullptr;
  std::shared_ptr<void> turn_;
  std::optional<Result<Outcome>> outcome_;
  async::Signal changed_;
};

bool isLost(const Result<Outcome>& outcome) {
  return !outcome || outcome->end == model::End::kRunnerLost;
}

class SessionHost final : public Host {
 public:
  SessionHost(boost::asio::any_io_executor executor, std::shared_ptr<Home> home, WhenHeld when_held)
      : executor_(std::move(executor)), home_(std::move(home)), when_held_(std::move(when_held)) {}

  [[nodiscard]] bool startsAtOnce() const override { return true; }
  Result<> admit() override { return home_->admit(); }
  void occupy() override {
    entered_ = true;
    home_->enter();
  }
  void vacate() override {
    if (std::exchange(entered_, false)) home_->leave();
  }
  void pass() override { passes_ = true; }

  Task<Result<runtime::SandboxInfo>> prepare(model::SignedPermit permit,
                                             const model::ExecSpec& spec) override {
    const std::shared_ptr<void> turn = CO_TRY(co_await this->turn());
    const std::shared_ptr<runtime::Sandbox> sandbox = home_->sandbox();
    if (!sandbox) co_return fail(Code::kConflict, "running in a session: it has ended");
    auto exec = CO_TRY(co_await sandbox->open(permit, spec));
    program_ = std::make_shared<Program>(executor_, std::move(exec));
    co_return sandbox->info();
  }

  Task<Result<Outcome>> run(const model::ExecSpec& /*spec*/,
                            runtime::ExecObserver& observer) override {
    // The workspace may have become held since prepare(): the node has the program, but may not
    // start the program yet.
    std::shared_ptr<void> turn = CO_TRY(co_await this->turn());
    const std::shared_ptr<Program> program = program_;
    program->holdUntilStarted(std::move(turn));
    program->listen(&observer);
    async::spawn(executor_, Program::run(program));
    while (!program->outcome() && base::monotonicNow() < home_->giveUp())
      co_await program->changed().wait(home_->giveUp());
    program->listen(nullptr);
    auto outcome = std::exchange(program->outcome(), std::nullopt);
    if (!outcome) {
      co_return fail(Code::kInternal, "running in a session: it ended, and did not say how");
    }
    // The sandbox may have ended with the program; the session reports the cause.
    if (isLost(*outcome)) co_await home_->ended(base::monotonicNow() + kReasonPatience);
    co_return *std::move(outcome);
  }

  void cancel() override {
    cancelled_ = true;
    home_->wake();
    if (!program_) return;
    program_->exec().cancel();
    program_->changed().notify();  // the session may have ended, too
  }

  Task<Result<>> release() override {
    program_.reset();
    co_return Result<>{};
  }

  Task<Result<>> input(std::string bytes) override {
    if (!program_) return Host::input(std::move(bytes));
    return Program::input(program_, std::move(bytes));
  }
  Result<> signal(int number) override {
    return program_ ? program_->exec().signal(number) : Host::signal(number);
  }
  Result<> resize(model::TerminalSize size) override {
    return program_ ? program_->exec().resize(size) : Host::resize(size);
  }

  [[nodiscard]] Cause cause() const override { return home_->cause(); }
  // Clients notified of the end find the place free.
  void tell(const model::Execution& execution) override {
    home_->tell(execution);
    if (model::isTerminal(execution.status)) vacate();
  }

 private:
  // While the result lives, the session's workspace is held for no other program; null: the program
  // passes.
  Task<Result<std::shared_ptr<void>>> turn() {
    if (passes_) co_return std::shared_ptr<void>();
    const std::shared_ptr<Home> home = home_;
    if (!when_held_.waits) CO_TRY(home->notHeld());
    std::shared_ptr<void> turn = co_await home->unheld(
        [this] { return cancelled_ || (when_held_.over && when_held_.over()); });
    if (!turn) {
      co_return fail(Code::kConflict, "running in a session: it was ended before it could start");
    }
    // The session is there until then.
    co_return std::shared_ptr<void>(turn.get(), [home, turn](void*) mutable { turn.reset(); });
  }

  boost::asio::any_io_executor executor_;
  std::shared_ptr<Home> home_;
  const WhenHeld when_held_;
  std::shared_ptr<Program> program_;
  bool entered_ = false;
  bool passes_ = false;
  bool cancelled_ = false;
};

}  // namespace

Task<Result<>> Host::input(std::string /*bytes*/) {
  co_return fail(Code::kConflict, "sending input: the program takes none now");
}

Result<> Host::signal(int /*number*/) {
  return fail(Code::kConflict, "sending a signal: the program takes none now");
}

void Host::complete(model::Execution& /*execution*/) {}

Result<> Host::resize(model::TerminalSize /*size*/) {
  return fail(Code::kConflict, "resizing a terminal: the program has none now");
}

void Host::tell(const model::Execution& /*execution*/) {}

std::unique_ptr<Host> makeOwnHost(const NodeState& node, Places& places, Need need) {
  return std::make_unique<OwnHost>(node, places, need);
}

std::unique_ptr<Host> makeSessionHost(boost::asio::any_io_executor executor,
                                      std::shared_ptr<Home> home, WhenHeld when_held) {
  return std::make_unique<SessionHost>(std::move(executor), std::move(home), std::move(when_held));
}

}  // namespace cloister::orchestrator
