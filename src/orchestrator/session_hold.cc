// SPDX-License-Identifier: Apache-2.0
// An approval in a session is of an effect, which the workspace is a part of. Its state is read
// when the approval is asked for. Before the program starts, all else that runs in the session is
// stopped, nothing new is let in, and the state is read once more; both stay so until the program
// has ended. The reading is done inside, by a program that holds the workspace as long as it runs
// (wire::files::kHold); the node stops the others, or there are none.
#include <utility>

#include "base/log.h"
#include "orchestrator/sessions_impl.h"
#include "policy/approval.h"
#include "runtime/spawn.h"

namespace cloister::orchestrator {

struct Sessions::Impl::Holding {
  Holding(Impl& sessions, SessionPtr of, const Kernel* kernel)
      : runs(sessions.runs), session(std::move(of)) {
    session->workspace_held = true;
    session->held_kernel = kernel;
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() {
    call.reset();  // which ends it
    session->workspace_held = false;
    session->held_kernel = nullptr;
    session->changed.notify();
    runs->changed.notify();
  }

  std::shared_ptr<RunService::Impl> runs;
  SessionPtr session;
  std::shared_ptr<FileCall> call;
  std::function<void()> lost;
};

FileRequest Sessions::Impl::stateRequest(bool hold) const {
  const EscalationConfig& bounds = runs->config.escalation;
  const std::string bytes = std::to_string(bounds.workspace_bytes);
  const std::string files = std::to_string(bounds.workspace_files);
  FileRequest request{.argv = {"state", bytes, files}, .takes_input = hold, .action = ""};
  if (hold) request.argv = {wire::files::kHold, wire::files::kHoldAlone, bytes, files};
  request.own = true;
  request.stays = hold;
  return request;
}

Task<Result<WorkspacePtr>> Sessions::Impl::stateFrom(FileCall& call) const {
  const EscalationConfig& bounds = runs->config.escalation;
  std::vector<wire::files::State> names;
  for (;;) {
    auto part = co_await call.next();
    if (!part && part.error().code == Code::kTooLarge) {
      co_return fail(Code::kTooLarge,
                     "reading the workspace for an approval: it has more than " +
                         std::to_string(bounds.workspace_bytes >> 20) + " MiB or " +
                         std::to_string(bounds.workspace_files) +
                         " files (escalation.workspace_mb, escalation.workspace_files); remove "
                         "some, or ask for a run with the files that it needs");
    }
    if (!part) {
      co_return std::unexpected(
          std::move(part).error().within("reading the workspace for an approval"));
    }
    if (*part && std::holds_alternative<wire::files::EndOfEntries>(**part)) break;
    auto* state = *part ? std::get_if<wire::files::State>(&**part) : nullptr;
    if (state == nullptr || names.size() >= bounds.workspace_files) {
      co_return fail(Code::kInternal, "reading the workspace for an approval: not its state");
    }
    names.push_back(std::move(*state));
  }
  co_return std::make_shared<const WorkspaceState>(std::move(names));
}

// One after the other: each takes a channel of the runner.
Task<Result<WorkspacePtr>> Sessions::Impl::readWorkspace(SessionPtr session) {
  const auto self = shared_from_this();
  while (session->reading && !session->ending)
    co_await session->changed.wait();
  session->reading = true;
  const std::shared_ptr<void> done(nullptr, [session](void*) {
    session->reading = false;
    session->changed.notify();
  });
  const auto call =
      CO_TRY(co_await askFiles(session, session->record.principal, stateRequest(false)));
  WorkspacePtr state = CO_TRY(co_await stateFrom(*call));
  CO_TRY(co_await call->finish());
  co_return state;
}

// What an interpreter keeps is not in the workspace, and its threads cannot be told from the cell:
// the cell gets a fresh one.
Task<Result<std::shared_ptr<void>>> Sessions::Impl::holdWorkspace(SessionPtr session,
                                                                  std::shared_ptr<Kernel> kernel,
                                                                  WorkspacePtr as_asked,
                                                                  std::function<void()> lost) {
  const auto self = shared_from_this();
  CO_TRY(session->opened ? Result<>() : session->admit());
  if (session->workspace_held)
    co_return fail(Code::kUnavailable, "its workspace is held for another");
  const auto holding = std::make_shared<Holding>(*this, session, kernel.get());
  while (session->opening > 0 && !session->ending)
    co_await session->changed.wait();
  if (kernel && kernel->state().cells > 0) {
    co_return fail(Code::kUnavailable, "running in a session: other cells of its kernel go first");
  }
  if (kernel && kernel->runs()) {
    kernel->stop("a cell that was approved has a fresh one");
    co_await kernel->stopped();
  }
  holding->call = CO_TRY(co_await askFiles(session, session->record.principal, stateRequest(true)));
  auto state = co_await stateFrom(*holding->call);
  if (!state && state.error().code == Code::kConflict) {
    co_return fail(Code::kConflict,
                   "the session's workspace cannot be held: what else runs there cannot be stopped "
                   "in this runtime, or a file cannot be read (" +
                       state.error().message + "); end what runs, and ask anew",
                   std::string(policy::approval::kMismatch));
  }
  const WorkspacePtr now = CO_TRY(std::move(state));
  if (const auto change = as_asked->firstChange(*now)) {
    co_return fail(Code::kConflict,
                   "the session's workspace is not as it was when the approval was asked for: " +
                       *change + "; ask anew",
                   std::string(policy::approval::kMismatch));
  }
  holding->lost = std::move(lost);
  runtime::spawn(runs->executor, watchHold(holding, holding->call->finish()));
  co_return holding;
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
