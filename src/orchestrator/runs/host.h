// SPDX-License-Identifier: Apache-2.0
// Host: the place of one program. A run has a sandbox of its own; the programs of a session share
// the session's sandbox. RunService handles both alike. All on one executor.
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

// The time limit of programs that last as long as their session: beyond any session's lifetime.
inline constexpr Millis kForever = std::chrono::days(366);

class Host {
 public:
  virtual ~Host() = default;

  // Starts at acceptance, without a turn in the queue.
  [[nodiscard]] virtual bool startsAtOnce() const = 0;
  // Whether another may start here now; kConflict or kQuota say why not.
  virtual Result<> admit() = 0;
  // Capacity taken from the recording of the start on. A separate sandbox holds capacity until the
  // end of release(), a program in a session until its end is recorded.
  virtual void occupy() = 0;
  virtual void vacate() = 0;

  // For the program with the held workspace, and for programs that belong to it: these programs do
  // not wait for the end of the hold. Other programs wait; see WhenHeld.
  virtual void pass() {}
  // Obtains the sandbox for the program; nothing runs yet.
  virtual Task<Result<runtime::SandboxInfo>> prepare(model::SignedPermit permit,
                                                     const model::ExecSpec& spec) = 0;
  // After prepare(), once. `spec` and `observer` live until run() returns.
  virtual Task<Result<model::Outcome>> run(const model::ExecSpec& spec,
                                           runtime::ExecObserver& observer) = 0;
  // Ends the program as kCancelled. Returns at once; run() reports.
  virtual void cancel() = 0;
  // Removes everything of the program. prepare() and run() are not under way.
  virtual Task<Result<>> release() = 0;

  // As runtime::Exec; kConflict for a program without this capability.
  virtual Task<Result<>> input(std::string bytes);
  virtual Result<> signal(int number);
  virtual Result<> resize(model::TerminalSize size);

  // Adds the host's facts to the record, after run() and before the write.
  virtual void complete(model::Execution& execution);

  // The reason for ending all programs here, if any.
  [[nodiscard]] virtual Cause cause() const { return Cause::kNone; }

  // Called after a new status of the execution is in the ledger, before clients see the status.
  virtual void tell(const model::Execution& execution);
};

// A sandbox of its own, on the node there is then, with a place among its `places`.
std::unique_ptr<Host> makeOwnHost(const NodeState& node, Places& places, Need need);

struct Additions;
class KnownSecrets;
struct Within;

// The sandbox of a session, as seen by the session's programs.
class Home {
 public:
  virtual ~Home() = default;
  [[nodiscard]] virtual const std::string& id() const = 0;
  // The sandbox's runtime, as named in permits.
  [[nodiscard]] virtual const std::string& runtimeName() const = 0;
  // The session's maker, and the rules enforced by its sandbox (agent_guard.h).
  [[nodiscard]] virtual Within within() const = 0;
  // Counts a program before acceptance, or before the record of its refusal, by the session's rate.
  // kQuota gives the time of the next attempt.
  virtual Result<> count() = 0;
  virtual void uncount() = 0;    // undoes count() for a refused or repeated request
  virtual Result<> admit() = 0;  // as Host, as the next two
  virtual void enter() = 0;
  virtual void leave() = 0;
  // Notes that a program of `who` enters and may leave files until the sandbox ends.
  virtual void visit(const model::Principal& who) = 0;
  // Null once the session's end has begun.
  [[nodiscard]] virtual std::shared_ptr<runtime::Sandbox> sandbox() const = 0;
  [[nodiscard]] virtual Cause cause() const = 0;  // as Host
  // When a program of an ended session is not waited for any longer; otherwise never.
  [[nodiscard]] virtual base::Monotonic giveUp() const = 0;
  // kUnavailable while its workspace is held for a program.
  [[nodiscard]] virtual Result<> notHeld() const = 0;
  // Resumes when the workspace is held for no program, or when the session's end has begun. While
  // the result lives, the workspace is not held for another program. Resumes with null once `over`,
  // which wake() has unheld() check again.
  virtual Task<std::shared_ptr<void>> unheld(std::function<bool()> over) = 0;
  virtual void wake() = 0;
  // Resumes when the session's end has begun, at `deadline` otherwise.
  virtual Task<void> ended(base::Monotonic deadline) = 0;
  virtual void tell(const model::Execution& execution) = 0;
  // What the sandbox's network adds to programs; null: nothing.
  [[nodiscard]] virtual const Additions* additions() const { return nullptr; }
  // The secrets that programs of the session may know; null: none are remembered.
  [[nodiscard]] virtual std::shared_ptr<KnownSecrets> knownSecrets() const { return nullptr; }
  // The dependency layers of its sandbox.
  [[nodiscard]] virtual std::vector<model::PermitLayer> dependencyLayers() const { return {}; }
  // The permit of its sandbox's door (core/network.h); "" without a network.
  [[nodiscard]] virtual std::string door() const { return {}; }
  [[nodiscard]] virtual int64_t imageSince() const = 0;  // model::ImageState::since of its sandbox
  // A program is reported to have used so much more processor time.
  virtual void addProcessorTime(uint64_t cpu_ms) = 0;
  // The processor time to charge for an ended program that used `cpu_ms`: a part may already be
  // charged to the session.
  virtual uint64_t chargeProgram(uint64_t cpu_ms) = 0;
};

// While the session's workspace is held for another program, a program without pass() is neither
// prepared nor started. The program waits, until cancelled or `over` (Home::wake()), or fails with
// kUnavailable.
struct WhenHeld {
  bool waits = true;
  std::function<bool()> over = {};
};

std::unique_ptr<Host> makeSessionHost(boost::asio::any_io_executor executor,
                                      std::shared_ptr<Home> home, WhenHeld when_held = {});

}  // namespace cloister::orchestrator
