// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/process_session.h"

#include <signal.h>

#include <map>
#include <tuple>
#include <utility>

#include "async/spawn.h"
#include "model/image_name.h"
#include "sandbox/box/hold.h"
#include "sandbox/box/session_run.h"
#include "sandbox/box/switchboard.h"
#include "sandbox/box/then_remove.h"
#include "sandbox/box/within.h"
#include "wire/files.h"
#include "wire/kernel.h"
#include "wire/node.h"

namespace cloister::runtime {
namespace {

// Less than the runner's number of channels; a program needs a single channel at a time.
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

// Reads and drops a program's output, since unread output would stop the program.
Task<void> ignore(std::shared_ptr<Switchboard> board, std::shared_ptr<Line> line) {
  for (;;) {
    const auto frame = co_await board->next(*line);
    if (!frame || frame->type == wire::FromRunner::kExited) break;
  }
  board->close(line);
}

// The sandbox in use, which resume() replaces.
struct Present {
  std::shared_ptr<Live> live;
  std::shared_ptr<Switchboard> board;
  // Lines of interpreters that run in a resumed sandbox, by directory, until a client attaches.
  std::map<std::string, std::shared_ptr<Line>> kernels = {};
};

class ProcessSession final : public Sandbox {
 public:
  ProcessSession(std::shared_ptr<Live> live, SandboxInfo info, SessionTraits traits)
      : present_(std::make_shared<Present>(live, std::make_shared<Switchboard>(live))),
        info_(std::move(info)),
        traits_(std::move(traits)),
        programs_(std::make_shared<size_t>(0)),
        sharing_(std::make_shared<size_t>(0)),
        saving_(std::make_shared<size_t>(0)),
        holding_(std::make_shared<size_t>(0)),
        gate_(std::make_shared<HoldGate>(present_->live->executor())) {
    present_->board->start();
  }
  ProcessSession(const ProcessSession&) = delete;
  ProcessSession& operator=(const ProcessSession&) = delete;
  ~ProcessSession() override {
    present_->board->hangUp();
    present_->live->kill();
    async::spawn(present_->live->executor(), bury(present_->live));
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
    if (present_->board->ended()) {
      co_return fail(Code::kConflict, "running in a session: it has ended");
    }
    if (*programs_ >= kMaxPrograms) {
      co_return fail(Code::kQuota, "running in a session: " + std::to_string(kMaxPrograms) +
                                       " programs run in it already");
    }
    if (spec.for_files && !spec.run.argv.empty()) {
      if (spec.run.argv[0] == wire::files::kCheckpoint) co_return checkpoint();
      if (spec.run.argv[0] == wire::files::kResume) co_return resume();
      if (spec.run.argv[0] == wire::files::kLayer) co_return layer(spec.run.argv);
    }
    used_ = true;
    model::ExecSpec own = spec;
    model::addImageEnv(traits_.env, own.env);
    if (fields.nested && (!traits_.nests || spec.for_files)) {
      co_return fail(Code::kDenied, "running in a session: it has no sandboxes within it");
    }
    if (fields.fresh) co_return fresh(fields, own);
    if (fields.nested) {
      auto apart = withinOf(present_->live, present_->board, withinTraits(fields));
      co_return makeExecApart(std::move(apart), std::move(own), takePlace());
    }
    const bool saves =
        spec.for_files && !spec.run.argv.empty() && spec.run.argv[0] == wire::files::kSave;
    if (saves) CO_TRY(mayBeSaved());
    const bool holds =
        spec.for_files && !spec.run.argv.empty() && spec.run.argv[0] == wire::files::kHold;
    if (holds) co_return hold(fields, std::move(own));
    auto kernel = takeKernel(spec);
    auto program = std::make_shared<SessionRun>(present_->live, present_->board, std::move(own),
                                                fields.limits, std::move(kernel), gate_);
    co_return removing(std::make_unique<ProcessExec>(std::move(program),
                                                     saves ? countedPlace(saving_) : takePlace()),
                       spec);
  }

  [[nodiscard]] std::optional<model::Usage> used() const override {
    return last_used_ ? last_used_ : present_->live->used();
  }

  Task<model::SandboxEnd> died() override {
    const std::shared_ptr<Present> present = present_;
    for (;;) {
      const std::shared_ptr<Switchboard> board = present->board;
      co_await board->waitEnd();
      if (board == present->board) co_return board->why();
    }
  }

  Task<Result<>> teardown() override {
    last_used_ = used();
    present_->board->hangUp();
    co_return co_await present_->live->bury();
  }

 private:
  // A slot of kMaxPrograms, held for the lifetime of the result.
  std::shared_ptr<void> takePlace() {
    ++*programs_;
    return {nullptr, [programs = programs_](void*) { --*programs; }};
  }

  [[nodiscard]] WithinTraits withinTraits(const model::PermitFields& fields) const {
    return {.limits = fields.limits,
            .runs_own = traits_.runs_own,
            .writes = traits_.writes,
            .writable = traits_.writable,
            .shares = fields.fresh};
  }

  // In a sandbox of its own, with the workspace.
  Result<std::unique_ptr<Exec>> fresh(const model::PermitFields& fields,
                                      const model::ExecSpec& spec) {
    if (spec.for_files || (!traits_.beside && !traits_.nests)) {
      return fail(Code::kUnsupported,
                  "running in a session: its programs have no sandboxes of their own");
    }
    if (*saving_ > 0) {
      return fail(Code::kUnavailable,
                  "running in a session: its workspace is being saved; try again after that");
    }
    auto apart = traits_.beside ? besideOf(present_->live, fields.limits, traits_.beside)
                                : withinOf(present_->live, present_->board, withinTraits(fields));
    auto exec = makeExecApart(std::move(apart), spec, countedPlace(sharing_));
    return removing(std::move(exec), spec);
  }

  std::unique_ptr<Exec> removing(std::unique_ptr<Exec> exec, const model::ExecSpec& spec) {
    return thenRemove(std::move(exec), present_->live->executor(), present_->board, gate_,
                      spec.temporary);
  }

  // Programs in separate sandboxes prevent saving. Programs in the session's own sandbox are
  // stopped by the saving program.
  [[nodiscard]] Result<> mayBeSaved() const {
    if (*sharing_ == 0) return {};
    return fail(Code::kConflict, "saving the workspace: " + std::to_string(*sharing_) +
                                     " programs in sandboxes of their own may change it "
                                     "meanwhile; wait for them, or cancel them");
  }

  // Stops the session's other programs from the exec's beginning to its end. The caller must wait
  // for programs in separate sandboxes.
  Result<std::unique_ptr<Exec>> hold(const model::PermitFields& fields, model::ExecSpec spec) {
    if (*sharing_ > 0 || *saving_ > 0 || *holding_ > 0) {
      return fail(Code::kUnavailable,
                  "holding the workspace: something else that has the workspace is under way; try "
                  "again after that");
    }
    if (spec.run.argv.size() < 2) return fail(Code::kInvalid, "holding the workspace: how?");
    const bool freezes = present_->live->canFreeze();
    spec.run.argv[1] = freezes ? wire::files::kHoldFrozen : wire::files::kHoldAlone;
    auto program = std::make_shared<SessionRun>(present_->live, present_->board, std::move(spec),
                                                fields.limits);
    return makeHold(std::make_unique<ProcessExec>(std::move(program), countedPlace(holding_)),
                    present_->live, gate_, freezes);
  }

  // takePlace(), counted in `among` as well.
  std::shared_ptr<void> countedPlace(const std::shared_ptr<size_t>& among) {
    ++*among;
    return {nullptr, [place = takePlace(), among](void*) { --*among; }};
  }

  [[nodiscard]] Result<> keepsMemory() const {
    if (traits_.memory) return {};
    return fail(
        Code::kUnsupported,
        "the memory of this session cannot be kept, as its workspace can: " + traits_.no_memory);
  }

  Result<std::unique_ptr<Exec>> checkpoint() {
    TRY(keepsMemory());
    return makeCheckpoint(present_->live, present_->board, traits_.memory, takePlace());
  }

  Result<std::unique_ptr<Exec>> layer(const std::vector<std::string>& argv) {
    if (!traits_.layers) {
      return fail(Code::kUnsupported,
                  "making a layer: this node keeps no dependency layers, or not of this runtime");
    }
    constexpr size_t kArguments = 3;
    if (argv.size() != kArguments) return fail(Code::kInvalid, "making a layer: of what?");
    return makeLayer(present_->live, traits_.layers, argv[1], argv[2], takePlace());
  }

  Result<std::unique_ptr<Exec>> resume() {
    TRY(keepsMemory());
    if (std::exchange(used_, true)) {
      return fail(Code::kConflict, "resuming: something has run in the sandbox");
    }
    const auto& executor = present_->live->executor();
    return makeResume(
        executor, traits_.memory,
        [present = present_](GoneOn next) { return become(present, std::move(next)); },
        takePlace());
  }

  // Replaces and removes the previous sandbox, in which nothing has run.
  static Task<Result<>> become(std::shared_ptr<Present> present, GoneOn next) {
    const std::shared_ptr<Live> before = std::exchange(present->live, std::move(next.live));
    const auto board = std::make_shared<Switchboard>(present->live);
    std::vector<std::shared_ptr<Line>> lines;
    for (const LineState& state : next.lines)
      lines.push_back(board->takeOver(state));
    std::exchange(present->board, board)->hangUp();
    board->start();
    for (size_t i = 0; i < lines.size(); ++i)
      CO_TRY(co_await release(*present, lines[i], next.lines[i].units));
    std::ignore = co_await before->bury();
    co_return Result<>();
  }

  // Lets a resumed program continue without a client. The previous client had taken `units` of
  // output without acknowledging them.
  static Task<Result<>> release(Present& present, std::shared_ptr<Line> line, uint32_t units) {
    const std::shared_ptr<Switchboard> board = present.board;
    std::string frames;
    line->units -= units;
    if (units > 0) addFrame(frames, wire::ToRunner::kTaken, line->number, u32Payload(units));
    if (line->use == LineUse::kFiles) addFrame(frames, wire::ToRunner::kKill, line->number, {});
    if (line->use == LineUse::kTerminal) board->signal(line, SIGHUP);
    const bool reads = line->use == LineUse::kProgram || line->use == LineUse::kCell;
    if (reads && !std::exchange(line->stdin_closed, true)) {
      addFrame(frames, wire::ToRunner::kStdin, line->number, {});
    }
    if (line->use == LineUse::kKernel) {
      present.kernels[line->kernel] = line;
    } else {
      async::spawn(present.live->executor(), ignore(board, line));
    }
    if (!frames.empty()) CO_TRY(co_await board->send(std::move(frames)));
    co_return Result<>();
  }

  // The line of the interpreter for `spec`, if already running.
  std::shared_ptr<Line> takeKernel(const model::ExecSpec& spec) {
    const auto& argv = spec.run.argv;
    if (!spec.for_files || argv.size() < 2 || argv[0] != wire::kernel::kKernel) return nullptr;
    const auto found = present_->kernels.find(argv[1]);
    if (found == present_->kernels.end()) return nullptr;
    const auto line = std::move(found->second);
    present_->kernels.erase(found);
    return line->over ? nullptr : line;
  }

  static Task<void> bury(std::shared_ptr<Live> live) { std::ignore = co_await live->bury(); }

  std::shared_ptr<Present> present_;
  SandboxInfo info_;
  SessionTraits traits_;
  std::shared_ptr<size_t> programs_;
  std::shared_ptr<size_t> sharing_;  // programs in separate sandboxes that share the workspace
  std::shared_ptr<size_t> saving_;   // programs that read a consistent snapshot of the workspace
  std::shared_ptr<size_t> holding_;  // programs that hold the workspace (hold.h)
  std::shared_ptr<HoldGate> gate_;
  bool used_ = false;                      // whether a program has run in the sandbox
  std::optional<model::Usage> last_used_;  // usage before the teardown
};

}  // namespace

std::unique_ptr<Sandbox> makeProcessSession(std::shared_ptr<Live> live, SandboxInfo info,
                                            SessionTraits traits) {
  return std::make_unique<ProcessSession>(std::move(live), std::move(info), std::move(traits));
}

}  // namespace cloister::runtime
