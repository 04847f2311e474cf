// SPDX-License-Identifier: Apache-2.0
// Programs: the part of runs for sessions. A program of a session is a run in the session's
// sandbox. The session's facts are part of the request (Asked); the program is then accepted,
// decided, recorded and ended as any other run. RunService provides the interface
// (RunService::programs()).
//
// On the services' executor (one thread).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/agent_sandbox.h"
#include "model/execution.h"
#include "model/limits.h"
#include "model/principal.h"
#include "model/run_request.h"
#include "orchestrator/core/agent_use.h"
#include "orchestrator/core/task.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/runs/host.h"
#include "orchestrator/runs/neighbour.h"
#include "orchestrator/runs/output_log.h"
#include "orchestrator/runs/workspace_state.h"
#include "policy/decide.h"

namespace cloister::orchestrator {

// Lets a waiting program into its session. `opened` has the approved permissions, `by_rules` the
// permissions without the approval. The program enters at once. kQuota, kUnavailable: ask again
// later.
using EnterSession = std::function<Task<Result<>>(Held opened, Held by_rules)>;

// The workspace of a program's session, for an approval.
struct WorkspaceAccess {
  std::function<Task<Result<WorkspacePtr>>()> read = {};
  // Holds the workspace unchanged while the result lives: nothing else of the session runs
  // meanwhile. `lost`: called if the hold ends early. `over`: true when the hold is no longer
  // wanted; the caller then wakes the session. kConflict with `field`: the workspace has changed;
  // kQuota, kUnavailable: ask again later.
  std::function<Task<Result<std::shared_ptr<void>>>(std::string execution, WorkspacePtr as_asked,
                                                    std::function<void()> lost,
                                                    std::function<bool()> over)>
      hold = {};
};

// The place of a session's program among nested calls.
struct CallSite {
  std::string parent_id;  // as model::Execution, and the next
  uint32_t depth = 0;
};

// Why a session does not let a program run, whatever policy says.
struct HomeRefusal {
  policy::Denied denied;
  base::json::object details;
  // A violation of the maker's rules by another agent's program; without `subject`.
  std::optional<model::Violation> violation = {};
  model::Principal violator = {};
};

// Turns a program of a session into a cell: code for an interpreter of the session.
class Interpreter {
 public:
  virtual ~Interpreter() = default;
  // Changes the program of `request` into the program that hands the code to the interpreter.
  virtual void adapt(const model::ExecRequest& request, model::ExecSpec& spec) const = 0;
  // The cell's host, in the session `home`. The time limits in `limits` are the cell's.
  virtual std::unique_ptr<Host> hostOf(std::shared_ptr<Home> home, const model::Limits& limits) = 0;
};

// Wraps a program's host, so that its files become artifacts by `rules`.
using CollectFiles =
    std::function<std::unique_ptr<Host>(std::unique_ptr<Host>, const model::ArtifactRules& rules)>;

// A request: a run, or a program of a session.
struct Asked {
  model::ExecRequest request;
  std::shared_ptr<Home> home = nullptr;                // null: a sandbox of its own
  std::shared_ptr<Interpreter> interpreter = nullptr;  // of a cell; otherwise null
  CollectFiles collect = {};  // of a session, whose files may become artifacts
  EnterSession enter = {};
  WorkspaceAccess workspace = {};
  std::optional<HomeRefusal> refusal = {};  // recorded as a refusal, without a run
  CallSite site = {};
};

class Programs {
 public:
  virtual ~Programs() = default;

  // Registers the only service that shares the nodes with runs.
  virtual void join(std::weak_ptr<Neighbour> neighbour) = 0;

  // As RunService::run(), and its errors.
  virtual Task<Result<model::Execution>> ask(model::Principal principal, Asked asked,
                                             std::string idempotency_key) = 0;
  // The accepted and unfinished programs of a session. The records are valid until the caller
  // suspends.
  [[nodiscard]] virtual std::vector<const model::Execution*> programsIn(
      const std::string& session_id) const = 0;
  // The live log, or a recently ended run's log; null otherwise.
  [[nodiscard]] virtual std::shared_ptr<OutputLog> findLog(const model::Principal& principal,
                                                           const std::string& id) const = 0;
  // Ends the session's programs; the first cause counts. `waiting_too`: including programs that
  // wait for an approval or for their session.
  virtual void endPrograms(const std::string& session_id, Cause cause, bool waiting_too) = 0;

  // kUnsupported: the node has no such disk, or too little disk for a workspace of this size.
  [[nodiscard]] virtual Result<> checkDisk(const model::Limits& limits) const = 0;
  // As checkDisk(), and kQuota while sessions use the needed disk.
  [[nodiscard]] virtual Result<> admitDisk(const model::Limits& limits) const = 0;
  // Resources of everything running of an agent, including sessions; null: of everybody.
  [[nodiscard]] virtual AgentUse usedBy(const model::Principal* agent) const = 0;

  // Call when a place, memory or disk became free: waiting runs may start.
  virtual void startWaiting() = 0;
  // Reports the taken capacity to the metrics.
  virtual void reportDepth() = 0;
};

}  // namespace cloister::orchestrator
