// SPDX-License-Identifier: Apache-2.0
// RunService: the one story of a run, told in RunService::run. API, MCP and CLI all end here.
//
// Order of every run: policy.decide → quota.admit → ledger.accept (only now acknowledged) → its
// turn in the queue → policy.decide again → ledger.start → runtime.provision → exec → artifacts →
// ledger.finish (only now reported). A run without a wait is accepted and started in one
// transaction, and its sandbox is made meanwhile; exec still follows the transaction. All methods
// run on the executor of the Control given at construction (one thread). The parts are used until
// the executor's context is destroyed. When the node is lost, running executions end with
// NODE_LOST.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/execution.h"
#include "model/image_state.h"
#include "model/plan.h"
#include "model/pool_stats.h"
#include "model/principal.h"
#include "model/run_request.h"
#include "model/session.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/nodes.h"
#include "orchestrator/core/task.h"
#include "orchestrator/guard/approval.h"
#include "orchestrator/runs/approvals.h"
#include "orchestrator/runs/dlp_rules.h"
#include "orchestrator/runs/output_log.h"
#include "orchestrator/runs/programs.h"
#include "orchestrator/storage/blob_keeper.h"
#include "orchestrator/storage/scanner.h"
#include "policy/agent/operation.h"
#include "store/store.h"

namespace cloister::orchestrator {

struct RunConfig {
  uint32_t queue = 1024;  // accepted and waiting; more are refused (kQuota)
  uint32_t queue_per_tenant = 256;
  size_t queue_bytes = size_t{256} << 20;  // of waiting requests
  std::chrono::milliseconds skip{5'000};   // how long smaller runs may pass a large run
  uint64_t output_artifact_bytes = uint64_t{64}
                                   << 20;    // of a stream past its cap, kept as artifact
  size_t finished_in_memory = 256;           // logs kept for late readers, at most
  size_t finished_bytes = size_t{64} << 20;  // of their output
  model::ArtifactQuota artifact_quota{.artifacts = UINT64_MAX, .bytes = UINT64_MAX};  // a tenant's
  int64_t artifact_ttl_us = 0;  // 0: as long as the execution
  store::Retention retention;
  std::chrono::milliseconds retention_every{60'000};
  EscalationConfig escalation;
  std::chrono::milliseconds rules_every{500};  // interval between checks of rules and credentials
  DlpRules dlp = {};
  bool trace_programs = false;  // model::TraceSettings::programs
  bool end_on_revoke = false;   // sessions and programs whose credential is revoked; else terminals
};

class AgentGuard;
class Quotas;

struct RunParts {
  BlobKeeper& blobs;
  Scanner* scanner = nullptr;    // of artifacts; null: none
  AgentGuard* agents = nullptr;  // restrictions of agents; null: none
};

class RunService {
 public:
  // Watches the nodes of `control`.
  RunService(std::shared_ptr<Control> control, RunParts parts, RunConfig config);
  ~RunService();
  RunService(const RunService&) = delete;
  RunService& operator=(const RunService&) = delete;

  // Reconciles executions after a crash: running → failed (SERVER_RESTART), queued → queued again.
  // Call before the first run().
  Result<> recover();

  // The interfaces for sessions and for escalations.
  [[nodiscard]] std::shared_ptr<Programs> programs() const;
  [[nodiscard]] std::shared_ptr<Approvals> approvals() const;

  [[nodiscard]] const NodeState& node() const;
  // The node's ready sandboxes, as last reported; nullopt without a report.
  [[nodiscard]] std::optional<model::PoolStats> pool() const;
  // The node's report of its own image, likewise.
  [[nodiscard]] std::optional<model::ImageState> image() const;

  // The quotas of tenants and agents; null for none.
  [[nodiscard]] Quotas* quotas() const;
  // Starts runs that waited for a quota.
  void quotasChanged();

  // Accepts and starts a run; returns once its record is durable (kDenied executions too). Errors:
  // kInvalid, kConflict (idempotency), kQuota (with retry_after_seconds), kUnavailable, kNoSpace.
  // Without a node the run is accepted and waits.
  Task<Result<model::Execution>> run(model::Principal principal, model::RunRequest request,
                                     std::string idempotency_key);
  // The plan of run(); nothing is recorded or started.
  Task<Result<base::json::object>> plan(model::Principal principal, model::RunRequest request);

  // The execution in its present state, with the output so far; kNotFound for an unknown execution,
  // or another tenant's.
  Result<model::Execution> get(const model::Principal& principal, const std::string& id);
  // The accepted request, as GET /v1/executions/{id}/request answers. Values of its environment may
  // be secrets: only the requester (the same user and agent) sees them, others see null. kNotFound
  // also for a request that is not kept any more.
  Result<base::json::object> request(const model::Principal& principal, const std::string& id);
  Result<std::vector<model::Execution>> list(const model::Principal& principal,
                                             const store::ListQuery& query);
  // The live log, or a log rebuilt from the ledger.
  Result<std::shared_ptr<OutputLog>> log(const model::Principal& principal, const std::string& id);
  // Waits at most `timeout` for a terminal state, and not for an approval.
  Task<Result<model::Execution>> wait(model::Principal principal, std::string id,
                                      std::chrono::milliseconds timeout);
  // Asks a queued or running execution to end; an ended execution stays unchanged.
  Task<Result<model::Execution>> cancel(model::Principal principal, std::string id);
  // For a started and unfinished program of a session; kConflict otherwise. input() sends more for
  // stdin, and suspends while the program is slow to read.
  Task<Result<>> input(model::Principal principal, std::string id, model::ProgramInput input);
  Task<Result<>> signal(model::Principal principal, std::string id, int number);
  Task<Result<>> resize(model::Principal principal, std::string id, model::TerminalSize size);

  // Call after a change of credentials: checks at once for work with revoked or expired
  // credentials.
  void lookAtCredentials();

  // The sum of the limits of everything an agent runs, including sessions, as counted against the
  // agent's limits.
  [[nodiscard]] policy::Resources reservedBy(const model::Principal& agent) const;
  // The memory and processors used now, as last measured by the nodes.
  [[nodiscard]] policy::Resources measuredOf(const model::Principal& agent) const;
  // Both sums, over all principals.
  [[nodiscard]] policy::Resources reservedByAll() const;
  [[nodiscard]] policy::Resources measuredOfAll() const;

  // Ready: a node is connected and the ledger accepts writes; otherwise why not.
  Result<> ready();
  // Ends admission, ends running programs (SERVER_RESTART), waits for the records, 20 s at most.
  // Queued runs stay queued for the next start. For an orderly stop.
  Task<void> drain();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with the coroutines of the runs
};

}  // namespace cloister::orchestrator
