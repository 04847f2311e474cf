// SPDX-License-Identifier: Apache-2.0
// An approval in a session is of an effect, which the workspace is a part of. Its state is read
// when the approval is asked for. Before the program starts, all else that runs in the session is
// stopped, nothing new is let in, and the state is read once more; both stay so until the program
// has ended. The reading is done inside, by a program that holds the workspace as long as it runs
// (wire::files::kHold); the node stops the others, or there are none.
#include <algorithm>
#include <utility>

#include "async/spawn.h"
#include "base/log.h"
#include "orchestrator/sessions/sessions_impl.h"
#include "policy/approval.h"

namespace cloister::orchestrator {
namespace {

constexpr char kReading[] = "reading the workspace for an approval";
// What is kept of one state: its names, and a digest for each.
constexpr size_t kMostKept = size_t{16} << 20;

// An answer of the file server that is another only once somebody changes something; not that of
// one that was ended, or did not come to it.
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

// `change` of the workspace, and what helps. The service keeps the script of each program there
// that was sent as code, as long as the program runs. A program can give a file such a name too, so
// that the names are counted like all others.
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
    call.reset();  // which ends it
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
  const size_t most = size_t{bounds.workspace_files} + 1;  // the workspace itself is no file in it
  std::vector<wire::files::State> names;
  for (size_t kept = 0;;) {
    auto part = co_await call.next();
    if (!part && part.error().code == Code::kTooLarge && isForGood(part.error())) {
      co_return std::unexpected(tooLarge(bounds));
    }
    if (!part) co_return std::unexpected(std::move(part).error().within(kReading));
    if (*part && std::holds_alternative<wire::files::EndOfEntries>(**part)) break;
    auto* state = *part ? std::get_if<wire::files::State>(&**part) : nullptr;
    if (state == nullptr || names.size() >= most) {
      co_return fail(Code::kInternal, std::string(kReading) + ": not its state");
    }
    kept += state->path.size() + state->sum.size();
    if (kept > kMostKept) co_return std::unexpected(tooLarge(bounds));
    names.push_back(std::move(*state));
  }
  co_return std::make_shared<const WorkspaceState>(std::move(names));
}

// One after the other: each takes a channel of the runner. Those that find the same share it.
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

// One that reads may have changed the modes of what its owner cannot read, until it has.
std::shared_ptr<void> Sessions::Impl::turnToRead(const SessionPtr& session) {
  session->reading = true;
  return {nullptr, [session](void*) {
            session->reading = false;
            session->changed.notify();
          }};
}

// Of the session's programs that are told to start, and of what reads its workspace, the end of
// that. No other begins meanwhile.
Task<Result<>> Sessions::Impl::quiet(SessionPtr session, std::function<bool()> over) {
  const base::Monotonic until = base::monotonicNow() + config.quiet;
  const auto busy = [&] { return session->opening > 0 || session->reading; };
  while (busy() && !session->ending && !over() && base::monotonicNow() < until)
    co_await session->changed.wait(until);
  if (!busy()) co_return Result<>{};
  co_return fail(Code::kUnavailable,
                 "running in a session: programs that were let in before have not started yet");
}

// By a program in a sandbox of its own: the node would not hold it.
bool Sessions::Impl::isShared(const LiveSession& session) const {
  const auto programs = runs->programsIn(session.record.id);
  return std::ranges::any_of(programs, [](const model::Execution* each) {
    return each->provenance.fresh && each->status == model::Status::kRunning;
  });
}

// What an interpreter keeps is not in the workspace, and its threads cannot be told from the cell:
// the cell gets a fresh one.
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

// Its state, from the program that holds it from now on.
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
  // It was ended, or refused for the moment.
  if (state.error().code == Code::kConflict) state.error().code = Code::kUnavailable;
  co_return state;
}

// It ends with what it is held for. If it ends before, the program goes on among others.
Task<void> Sessions::Impl::watchHold(std::weak_ptr<Holding> holding, Task<Result<>> end) {
  const auto ended = co_await std::move(end);
  const auto left = holding.lock();
  if (!left || left->session->ending) co_return;
  base::log(base::Level::kWarn, "a workspace is held no longer",
            {{"session", left->session->record.id},
             {"reason", ended ? "its program has ended" : ended.error().message}});
  if (left->lost) left->lost();
}

}  // namespace cloister::orchestrator
