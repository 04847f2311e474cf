// SPDX-License-Identifier: Apache-2.0
// An approval in a session covers an effect, and the workspace is a part of the effect. The state
// of the workspace is read at the request for the approval. Before the program starts, all other
// programs of the session are stopped, no program is admitted, and the state is read again; both
// hold until the program has ended. A program inside reads the state, and holds the workspace as
// long as it runs (wire::files::kHold); the node stops the other programs, if any.
#include <algorithm>
#include <memory>
#include <utility>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/log.h"
#include "orchestrator/sessions/sessions_impl.h"
#include "policy/approval.h"

namespace cloister::orchestrator {
namespace {

constexpr char kReading[] = "reading the workspace for an approval";
// Bytes of a kept state: its names, and a digest for each name.
constexpr size_t kMostKept = size_t{16} << 20;

// True for a final answer of the file server, until somebody changes something; false for an
// interrupted or unsent request.
bool isForGood(const Error& error) {
  return error.field == "path" && error.code != Code::kUnavailable;
}

Error tooLarge(const EscalationConfig& bounds) {
  return {Code::kTooLarge,
          std::string(kReading) + ": it has more than " +
              std::to_string(bounds.workspace_bytes >> 20) + " MiB or " +
              std::to_string(bounds.workspace_files) +
              " files (escalation.workspace_mb, escalation.workspace_files), or more than " +
              std::to_string(kMostKept >> 20) +
              " MiB of names; remove some, or ask for a run with the files that it needs",
          "path"};
}

// The `change` of the workspace, and a remedy. The service keeps the script of each program with
// code in the workspace, as long as the program runs. A program can give a file such a name, too,
// so these names count like all others.
std::string toldChange(const std::string& change) {
  const std::string_view path = std::string_view(change).substr(0, change.find(' '));
  const bool script = path.starts_with(".cloister-") && !path.contains('/');
  if (script && change.ends_with(" was removed")) {
    return "a program that ran when you asked has ended (its script " + change +
           "); ask anew while none runs";
  }
  if (script && change.ends_with(" is new")) {
    return "a program has started since you asked (its script " + change +
           "); ask anew while none runs";
  }
  return change + "; ask anew";
}

}  // namespace

struct Sessions::Impl::Holding {
  Holding(Impl& sessions, SessionPtr of, const Kernel* kernel, std::string execution)
      : control(sessions.control), session(std::move(of)) {
    session->workspace_held = true;
    session->held_for = std::move(execution);
    session->held_kernel = kernel;
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() {
    call.reset();  // ends the call
    session->workspace_held = false;
    session->held_for.clear();
    session->held_kernel = nullptr;
    session->changed.notify();
    control->changed.notify();
  }

  std::shared_ptr<Control> control;
  SessionPtr session;
  std::shared_ptr<FileCall> call;
  std::function<void()> lost;
};

FileRequest Sessions::Impl::stateRequest(bool hold) const {
  const EscalationConfig& bounds = approvals->escalationConfig();
  const std::string bytes = std::to_string(bounds.workspace_bytes);
  const std::string files = std::to_string(bounds.workspace_files);
  FileRequest request{.argv = {"state", bytes, files}, .takes_input = hold, .action = ""};
  if (hold) request.argv = {wire::files::kHold, wire::files::kHoldAlone, bytes, files};
  request.own = true;
  request.passes = hold;
  request.stays = hold;
  return request;
}

Task<Result<WorkspacePtr>> Sessions::Impl::stateFrom(FileCall& call) const {
  const EscalationConfig& bounds = approvals->escalationConfig();
  const size_t most = size_t{bounds.workspace_files} + 1;  // not counting the workspace itself
  std::vector<wire::files::State> states;
  for (size_t kept = 0;;) {
    auto part = co_await call.next();
    if (!part && part.error().code == Code::kTooLarge && isForGood(part.error())) {
      co_return std::unexpected(tooLarge(bounds));
    }
    if (!part) co_return std::unexpected(std::move(part).error().within(kReading));
    if (*part && std::holds_alternative<wire::files::EndOfEntries>(**part)) break;
    auto* state = *part ? std::get_if<wire::files::State>(&**part) : nullptr;
    if (state == nullptr || states.size() >= most) {
      co_return fail(Code::kInternal, std::string(kReading) + ": not its state");
    }
    kept += state->path.size() + state->sum.size();
    if (kept > kMostKept) co_return std::unexpected(tooLarge(bounds));
    states.push_back(std::move(*state));
  }
  co_return std::make_shared<const WorkspaceState>(std::move(states));
}

// One read after the other, because each read takes a channel of the runner. Callers with the same
// result share one state.
Task<Result<WorkspacePtr>> Sessions::Impl::readWorkspace(SessionPtr session) {
  const auto self = shared_from_this();
  while (session->reading && !session->ending)
    co_await session->changed.wait();
  CO_TRY(session->admitTo(kReading));
  const auto turn = turnToRead(session);
  const auto call =
      CO_TRY(co_await askFiles(session, session->record.principal, stateRequest(false)));
  auto read = co_await stateFrom(*call);
  if (!read) {
    read.error().field.clear();  // no member of the request is wrong
    co_return std::unexpected(std::move(read).error());
  }
  WorkspacePtr state = *std::move(read);
  CO_TRY(co_await call->finish());
  const WorkspacePtr last = session->last_read.lock();
  if (last && last->sha256() == state->sha256()) co_return last;
  session->last_read = state;
  co_return state;
}

// During a read the modes of unreadable files may be changed temporarily.
std::shared_ptr<void> Sessions::Impl::turnToRead(const SessionPtr& session) {
  session->reading = true;
  return {nullptr, [session](void*) {
            session->reading = false;
            session->changed.notify();
          }};
}

// Waits for programs being started, and for reads of the workspace. No other program begins
// meanwhile.
Task<Result<>> Sessions::Impl::quiet(SessionPtr session, std::function<bool()> over) {
  const base::Monotonic until = base::monotonicNow() + config.quiet;
  const auto busy = [&] { return session->opening > 0 || session->reading; };
  while (busy() && !session->ending && !over() && base::monotonicNow() < until)
    co_await session->changed.wait(until);
  if (!busy()) co_return Result<>{};
  co_return fail(Code::kUnavailable,
                 "running in a session: programs that were let in before have not started yet");
}

// True if a program in a separate sandbox has the workspace: the node would not stop the program.
bool Sessions::Impl::isShared(const LiveSession& session) const {
  const auto programs = runs->programsIn(session.record.id);
  return std::ranges::any_of(programs, [](const model::Execution* each) {
    return each->provenance.fresh && each->status == model::Status::kRunning;
  });
}

// An interpreter's state is not in the workspace, and its threads cannot be told from the cell: the
// cell gets a fresh interpreter.
Task<Result<std::shared_ptr<void>>> Sessions::Impl::holdWorkspace(
    SessionPtr session, std::shared_ptr<Kernel> kernel, std::string execution,
    WorkspacePtr as_asked, std::function<void()> lost, std::function<bool()> over) {
  const auto self = shared_from_this();
  CO_TRY(session->opened ? session->notHeld() : session->admit());
  if (isShared(*session)) {
    co_return fail(Code::kUnavailable,
                   "running in a session: a program in a fresh sandbox has its workspace");
  }
  const auto holding =
      std::make_shared<Holding>(*this, session, kernel.get(), std::move(execution));
  CO_TRY(co_await quiet(session, std::move(over)));
  if (kernel && kernel->state().cells > 0) {
    co_return fail(Code::kUnavailable, "running in a session: other cells of its kernel go first");
  }
  if (kernel && kernel->runs()) {
    kernel->stop("a cell that was approved has a fresh one");
    co_await kernel->stopped();
  }
  const WorkspacePtr now = CO_TRY(co_await readHeld(*holding));
  if (const auto change = as_asked->firstChange(*now)) {
    co_return fail(Code::kConflict,
                   "the session's workspace is not as it was when the approval was asked for: " +
                       toldChange(*change),
                   std::string(policy::approval::kMismatch));
  }
  holding->lost = std::move(lost);
  async::spawn(control->executor, watchHold(holding, holding->call->finish()));
  co_return holding;
}

// Reads the state with the program that holds the workspace from now on.
Task<Result<WorkspacePtr>> Sessions::Impl::readHeld(Holding& holding) {
  const auto turn = turnToRead(holding.session);
  holding.call = CO_TRY(
      co_await askFiles(holding.session, holding.session->record.principal, stateRequest(true)));
  auto state = co_await stateFrom(*holding.call);
  if (state) co_return state;
  if (isForGood(state.error())) {
    co_return fail(Code::kConflict,
                   "the session's workspace cannot be held: what else runs there cannot be stopped "
                   "in this runtime, a file cannot be read, or there are too many (" +
                       state.error().message + "); end what runs, and ask anew",
                   std::string(policy::approval::kMismatch));
  }
  // The call was ended, or refused for now.
  if (state.error().code == Code::kConflict) state.error().code = Code::kUnavailable;
  co_return state;
}

// The hold ends with its program. After an earlier end the program continues beside other programs.
Task<void> Sessions::Impl::watchHold(std::weak_ptr<Holding> holding, Task<Result<>> end) {
  const auto ended = co_await std::move(end);
  const auto left = holding.lock();
  if (!left) co_return;
  if (left->session->ending) {
    left->session->pause.reset();
    co_return;
  }
  base::log(base::Level::kWarn, "a workspace is held no longer",
            {{"session", left->session->record.id},
             {"reason", ended ? "its program has ended" : ended.error().message}});
  if (left->lost) left->lost();
}

// --- pauses

// The hold reads the workspace first, whatever its size; a pause has no use for the answer.
Task<Result<>> Sessions::Impl::stopAll(std::shared_ptr<Holding> holding) {
  FileRequest request = stateRequest(true);
  request.argv = {wire::files::kHold, wire::files::kHoldAlone, std::to_string(INT64_MAX),
                  std::to_string(INT32_MAX)};
  const SessionPtr session = holding->session;
  const auto turn = turnToRead(session);
  holding->call = CO_TRY(co_await askFiles(session, session->record.principal, std::move(request)));
  while (true) {
    const auto part = co_await holding->call->next();
    if (part && *part && !std::holds_alternative<wire::files::EndOfEntries>(**part)) continue;
    if (part && *part) co_return Result<>{};
    const std::string why = part ? "the sandbox said nothing" : part.error().message;
    co_return fail(
        Code::kConflict,
        "pausing a session: what runs there cannot be stopped in this runtime (" + why + ")");
  }
}

Task<Result<model::Session>> Sessions::pause(model::Principal principal, std::string id) {
  const std::shared_ptr<Impl> impl = impl_;
  const std::string doing = "pausing a session";
  const SessionPtr session = CO_TRY(impl->findToUse(principal, id, doing));
  CO_TRY(co_await impl->pauseNow(session, std::move(principal)));
  co_return session->shown();
}

Task<Result<>> Sessions::Impl::pauseNow(SessionPtr session, model::Principal by) {
  const auto self = shared_from_this();
  const std::string doing = "pausing a session";
  if (session->paused_at != 0) co_return fail(Code::kConflict, doing + ": it is paused already");
  CO_TRY(session->admitTo(doing));
  if (isShared(*session)) {
    co_return fail(Code::kConflict, doing + ": a program in a fresh sandbox has its workspace");
  }
  const auto holding = std::make_shared<Holding>(*this, session, nullptr, "");
  session->paused_at = base::wallMicros();
  const auto undo = [session](void*) {
    if (!session->pause) session->paused_at = 0;
    session->changed.notify();
  };
  const std::unique_ptr<void, std::function<void(void*)>> unless_done(session.get(), undo);
  CO_TRY(co_await quiet(session, [] { return false; }));
  CO_TRY(co_await stopAll(holding));
  CO_TRY(co_await control->ledger.write(
      store::appendEvent,
      {.action = "session.paused", .subject = session->record.id, .principal = by, .details = {}}));
  if (session->ending) co_return std::unexpected(endedError(doing, session->ending->reason));
  // The end of the session, or of the sandbox, ends the hold.
  holding->lost = [weak = std::weak_ptr(session)] {
    const SessionPtr paused = weak.lock();
    if (!paused) return;
    paused->paused_at = 0;
    paused->pause.reset();
  };
  session->pause = holding;
  async::spawn(control->executor, watchHold(holding, holding->call->finish()));
  session->log->publish(session->shown());
  co_return Result<>{};
}

Task<Result<model::Session>> Sessions::resume(model::Principal principal, std::string id) {
  const std::shared_ptr<Impl> impl = impl_;
  const std::string doing = "resuming a session";
  const SessionPtr session = CO_TRY(impl->findToUse(principal, id, doing));
  // It is shown as paused from the beginning of the pause on.
  while (session->paused_at != 0 && !session->pause && !session->ending)
    co_await session->changed.wait();
  if (session->ending) co_return std::unexpected(endedError(doing, session->ending->reason));
  if (!session->pause) co_return fail(Code::kConflict, doing + ": it is not paused");
  CO_TRY(co_await impl->resumeNow(session, std::move(principal)));
  co_return session->shown();
}

Task<Result<>> Sessions::Impl::resumeNow(SessionPtr session, model::Principal by) {
  const auto self = shared_from_this();
  CO_TRY(co_await control->ledger.write(store::appendEvent, {.action = "session.unpaused",
                                                             .subject = session->record.id,
                                                             .principal = by,
                                                             .details = {}}));
  session->paused_at = 0;
  session->sleeps = false;
  session->pause.reset();
  session->log->publish(session->shown());
  session->changed.notify();
  co_return Result<>{};
}

int64_t Sessions::pausedSince(const std::string& id) const {
  const auto found = impl_->live.find(id);
  return found == impl_->live.end() ? 0 : found->second->paused_at;
}

}  // namespace cloister::orchestrator
