// SPDX-License-Identifier: Apache-2.0
// Programs: the part of runs that sessions use. A program of a session is a run whose sandbox is
// the session's: it is asked for with what the session says of it (Asked), and then accepted,
// decided, recorded and ended as any other run. RunService gives it (RunService::programs()).
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

// Lets a program that waited into its session, where `opened` lets it do what it was approved with
// and `by_rules` is without that. It enters at once. kQuota, kUnavailable: it is to ask again
// later.
using EnterSession = std::function<Task<Result<>>(Held opened, Held by_rules)>;

// The workspace of a program's session, for an approval.
struct WorkspaceAccess {
  std::function<Task<Result<WorkspacePtr>>()> read = {};
  // Holds it as it is, until what is returned goes: nothing else of the session runs meanwhile.
  // `lost`: it could not be held to the end. `over`: nobody wants it any more, of which its session
  // is woken. kConflict with `field`: it is not as it was; kQuota, kUnavailable: it is to ask again
  // later.
  std::function<Task<Result<std::shared_ptr<void>>>(std::string execution, WorkspacePtr as_asked,
                                                    std::function<void()> lost,
                                                    std::function<bool()> over)>
      hold = {};
};

// Where a program of a session stands among the calls that led to it.
struct CallSite {
  std::string parent_id;  // as model::Execution, and the next
  uint32_t depth = 0;
};

// Why a session does not let a program run, whatever policy says.
struct HomeRefusal {
  policy::Denied denied;
  base::json::object details;
  // Of another agent than who asks, by whose rules it is; without `subject`.
  std::optional<model::Violation> violation = {};
  model::Principal violator = {};
};

// What makes a program of a session a cell: code that an interpreter of the session runs.
class Interpreter {
 public:
  virtual ~Interpreter() = default;
  // Makes of the program that `request` would be the one that hands its code to the interpreter.
  virtual void adapt(const model::ExecRequest& request, model::ExecSpec& spec) const = 0;
  // The cell's host, in the session `home`. Of `limits` those of time are the cell's.
  virtual std::unique_ptr<Host> hostOf(std::shared_ptr<Home> home, const model::Limits& limits) = 0;
};

// Makes of a program's host one whose files become artifacts by `rules`.
using CollectFiles =
    std::function<std::unique_ptr<Host>(std::unique_ptr<Host>, const model::ArtifactRules& rules)>;

// What is asked for: a run, or a program of a session.
struct Asked {
  model::ExecRequest request;
  std::shared_ptr<Home> home = nullptr;                // null: a sandbox of its own
  std::shared_ptr<Interpreter> interpreter = nullptr;  // of a cell; otherwise null
  CollectFiles collect = {};  // of a session, whose files may become artifacts
  EnterSession enter = {};
  WorkspaceAccess workspace = {};
  std::optional<HomeRefusal> refusal = {};  // then it becomes a record, and nothing else
  CallSite site = {};
};

class Programs {
 public:
  virtual ~Programs() = default;

  // Registers the one service that shares the nodes with runs.
  virtual void join(std::weak_ptr<Neighbour> neighbour) = 0;

  // As RunService::run(), and its errors.
  virtual Task<Result<model::Execution>> ask(model::Principal principal, Asked asked,
                                             std::string idempotency_key) = 0;
  // The programs of a session that are accepted and not finished. The records are valid until the
  // caller suspends.
  [[nodiscard]] virtual std::vector<const model::Execution*> programsIn(
      const std::string& session_id) const = 0;
  // The live log, or that of a run which ended of late; null otherwise.
  [[nodiscard]] virtual std::shared_ptr<OutputLog> findLog(const model::Principal& principal,
                                                           const std::string& id) const = 0;
  // Ends them, the first cause counts; with those that wait for an approval or to be let in, or
  // without.
  virtual void endPrograms(const std::string& session_id, Cause cause, bool waiting_too) = 0;

  // kUnsupported: the node has no such disk, or too little of it for a workspace of that size.
  [[nodiscard]] virtual Result<> checkDisk(const model::Limits& limits) const = 0;
  // The same, and kQuota while sessions have what is needed.
  [[nodiscard]] virtual Result<> admitDisk(const model::Limits& limits) const = 0;
  // The sum of all that an agent has running, sessions too; null: of everybody.
  [[nodiscard]] virtual AgentUse usedBy(const model::Principal* agent) const = 0;

  // A place, memory or disk became free: the runs that wait may start.
  virtual void startWaiting() = 0;
  // Reports the taken capacity to the metrics.
  virtual void reportDepth() = 0;
};

}  // namespace cloister::orchestrator
