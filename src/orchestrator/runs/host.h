// SPDX-License-Identifier: Apache-2.0
// Host: where one program runs. A run has a sandbox of its own; the programs of a session share the
// session's. To the story of a run they are alike. All on one executor.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "model/exec_spec.h"
#include "model/execution.h"
#include "model/outcome.h"
#include "model/permit.h"
#include "model/principal.h"
#include "orchestrator/core/nodes.h"
#include "orchestrator/core/places.h"
#include "orchestrator/core/task.h"
#include "orchestrator/runs/verdict.h"
#include "runtime/runtime.h"

namespace cloister::orchestrator {

// The time of what lasts as long as its session: longer than any session may live.
inline constexpr Millis kForever = std::chrono::days(366);

class Host {
 public:
  virtual ~Host() = default;

  // It starts as soon as it is accepted, without a turn in the queue.
  [[nodiscard]] virtual bool startsAtOnce() const = 0;
  // Whether another may start here now; kConflict or kQuota say why not.
  virtual Result<> admit() = 0;
  // What it takes up, from the recording of its start on. A sandbox of its own does up to the end
  // of release(), a program in a session's up to the record of its end.
  virtual void occupy() = 0;
  virtual void vacate() = 0;

  // Of the program for which its session's workspace is held, and of what belongs to that: it does
  // not wait for the end of that. Others are not started before; see WhenHeld.
  virtual void pass() {}
  // Gets what the program needs to run; nothing runs yet.
  virtual Task<Result<runtime::SandboxInfo>> prepare(model::SignedPermit permit,
                                                     const model::ExecSpec& spec) = 0;
  // After prepare(), once. `spec` and `observer` live until it returns.
  virtual Task<Result<model::Outcome>> run(const model::ExecSpec& spec,
                                           runtime::ExecObserver& observer) = 0;
  // Ends the program as kCancelled. Returns at once; run() reports.
  virtual void cancel() = 0;
  // After it nothing of the program is left. prepare() and run() are not under way.
  virtual Task<Result<>> release() = 0;

  // As runtime::Exec; kConflict where a program cannot have it.
  virtual Task<Result<>> input(std::string bytes);
  virtual Result<> signal(int number);
  virtual Result<> resize(model::TerminalSize size);

  // Adds to the record what only the host knows, after run() and before it is written.
  virtual void complete(model::Execution& execution);

  // Why it ends all that runs here, once it does.
  [[nodiscard]] virtual Cause cause() const { return Cause::kNone; }

  // The execution has a new status in the ledger, and nobody has heard of it yet.
  virtual void tell(const model::Execution& execution);
};

// A sandbox of its own, on the node there is then, with a place among its `places`.
std::unique_ptr<Host> makeOwnHost(const NodeState& node, Places& places, Need need);

struct Within;

// The sandbox of a session, as the programs in it see it.
class Home {
 public:
  virtual ~Home() = default;
  [[nodiscard]] virtual const std::string& id() const = 0;
  // Of its sandbox, as permits name it.
  [[nodiscard]] virtual const std::string& runtimeName() const = 0;
  // Who made it, and what of its rules its sandbox holds (agent_guard.h).
  [[nodiscard]] virtual Within within() const = 0;
  // A program is about to be accepted, or its refusal recorded: counts it, by the rate that the
  // session has. kQuota says when there is more.
  virtual Result<> count() = 0;
  virtual void uncount() = 0;    // what count() counted was not accepted, or no new one
  virtual Result<> admit() = 0;  // as Host, as the next two
  virtual void enter() = 0;
  virtual void leave() = 0;
  // A program of `who` is let in, and what it leaves behind is there until the sandbox goes.
  virtual void visit(const model::Principal& who) = 0;
  // Null once the session's end has begun.
  [[nodiscard]] virtual std::shared_ptr<runtime::Sandbox> sandbox() const = 0;
  [[nodiscard]] virtual Cause cause() const = 0;  // as Host
  // When a program of an ended session is not waited for any longer; otherwise never.
  [[nodiscard]] virtual base::Monotonic giveUp() const = 0;
  // kUnavailable while its workspace is held for a program.
  [[nodiscard]] virtual Result<> notHeld() const = 0;
  // Resumes when its workspace is held for no program, or its end has begun: it is not held for one
  // until what is returned goes. Resumes with nothing once `over`, which wake() has it ask again.
  virtual Task<std::shared_ptr<void>> unheld(std::function<bool()> over) = 0;
  virtual void wake() = 0;
  // Resumes when the session's end has begun, at `deadline` otherwise.
  virtual Task<void> ended(base::Monotonic deadline) = 0;
  virtual void tell(const model::Execution& execution) = 0;
  [[nodiscard]] virtual int64_t imageSince() const = 0;  // model::ImageState::since of its sandbox
  // A program is reported to have used so much more processor time.
  virtual void addProcessorTime(uint64_t cpu_ms) = 0;
  // What is to be charged for a program that has ended and used so much: some of it may have been
  // charged already, as the session's.
  virtual uint64_t chargeProgram(uint64_t cpu_ms) = 0;
};

// While its session's workspace is held for another program, one that does not pass() neither gets
// what it needs nor is started: it waits, unless it was cancelled or `over` (Home::wake()), or
// fails with kUnavailable.
struct WhenHeld {
  bool waits = true;
  std::function<bool()> over = {};
};

std::unique_ptr<Host> makeSessionHost(boost::asio::any_io_executor executor,
                                      std::shared_ptr<Home> home, WhenHeld when_held = {});

}  // namespace cloister::orchestrator
