// SPDX-License-Identifier: Apache-2.0
// RunService: the one story of a run, told in RunService::run. API, MCP and CLI all end here.
//
// Order of every run: policy.decide → quota.admit → ledger.accept (only now acknowledged) → its
// turn in the queue → policy.decide again → ledger.start → runtime.provision → exec → artifacts →
// ledger.finish (only now reported). What need not wait is accepted and started in one transaction,
// with its sandbox got meanwhile; exec comes after it all the same. All methods run on the executor
// given at construction (one thread). Parts, the store's callbacks included, are used until that
// executor's context has gone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/crypto.h"
#include "base/result.h"
#include "model/execution.h"
#include "model/image_state.h"
#include "model/language.h"
#include "model/plan.h"
#include "model/pool_stats.h"
#include "model/principal.h"
#include "model/run_request.h"
#include "model/session.h"
#include "orchestrator/core/nodes.h"
#include "orchestrator/core/policy_engine.h"
#include "orchestrator/guard/approval.h"
#include "orchestrator/runs/host.h"
#include "orchestrator/runs/output_log.h"
#include "orchestrator/storage/blob_keeper.h"
#include "orchestrator/storage/scanner.h"
#include "policy/agent/operation.h"
#include "policy/decide.h"
#include "runtime/runtime.h"
#include "store/store.h"

namespace cloister::policy {
struct Levels;
}

namespace cloister::orchestrator {

struct RunConfig {
  uint32_t concurrent = 0;  // sandboxes at once; 0: what the node offers
  uint32_t queue = 1024;    // accepted and waiting; more are refused (kQuota)
  uint32_t queue_per_tenant = 256;
  size_t queue_bytes = size_t{256} << 20;  // of the requests that wait
  double memory_share = 0.8;  // of the node's memory, for the memory limits of what runs at once
  Fairness fairness = {};     // between tenants, of all that the service has for them
  std::chrono::milliseconds skip{5'000};  // for so long smaller runs pass one that does not fit
  uint64_t disk_bytes = 0;                // of workspaces on disk, together
  uint64_t disk_over_bytes = UINT64_MAX;  // model::needsDisk()
  std::chrono::milliseconds permit_life{30'000};
  uint64_t output_artifact_bytes = uint64_t{64}
                                   << 20;    // of a stream past its cap, kept as artifact
  size_t finished_in_memory = 256;           // logs kept for late readers, at most
  size_t finished_bytes = size_t{64} << 20;  // of output in them
  model::ArtifactQuota artifact_quota{.artifacts = UINT64_MAX, .bytes = UINT64_MAX};  // a tenant's
  int64_t artifact_ttl_us = 0;  // 0: as long as the execution
  store::Retention retention;
  std::chrono::milliseconds retention_every{60'000};
  EscalationConfig escalation;
  bool end_revoked = true;  // what runs with a permission that its agent has no longer
  std::chrono::milliseconds rules_every{500};  // they are looked at, and credentials
  bool end_on_revoke = false;  // sessions and programs whose credential is revoked; else terminals
};

// Called for each finished execution, for metrics; no state.
struct Metrics {
  virtual ~Metrics() = default;
  virtual void accepted() = 0;
  virtual void refused(std::string_view reason) = 0;
  // By policy or an agent's rules, for good: a "run", an "exec", a "session".
  virtual void denied(std::string_view what) = 0;
  // From acceptance to the program's start, in a sandbox of that runtime.
  virtual void started(double start_seconds, const std::string& runtime) = 0;
  virtual void finished(const model::Execution& execution) = 0;
  virtual void queueDepth(size_t waiting, size_t running) = 0;
  virtual void diskTaken(uint64_t bytes) = 0;  // by workspaces on disk, of runs and sessions
  // From acceptance to its sandbox.
  virtual void sessionStarted(double create_seconds, const std::string& runtime) = 0;
  virtual void sessionEnded(const model::Session& session) = 0;
  virtual void sessionCount(size_t creating, size_t running) = 0;
};

class AgentGuard;
class Quotas;

struct Parts {
  store::Store& store;
  BlobKeeper& blobs;
  const model::LanguageSet& languages;
  PolicyEngine& policy;
  const base::SigningKey& permit_key;
  Metrics& metrics;
  Scanner* scanner = nullptr;              // of artifacts; null: none
  AgentGuard* agents = nullptr;            // what agents are held to; null: nothing
  const policy::Levels* levels = nullptr;  // that find the risks of commands; null: none are found
  Quotas* quotas = nullptr;                // of tenants and agents; null: there are none
};

class RunService {
 public:
  RunService(boost::asio::any_io_executor executor, Parts parts, RunConfig config);
  ~RunService();
  RunService(const RunService&) = delete;
  RunService& operator=(const RunService&) = delete;

  // Reconciles what a crash left: running → failed (SERVER_RESTART), queued → queued again. Before
  // the first run().
  Result<> recover();

  // The node came or went. When it goes, running executions end with NODE_LOST.
  void setNode(NodeState node);
  [[nodiscard]] const NodeState& node() const;
  // What the node keeps ready, as it told last; nullopt while none has.
  [[nodiscard]] std::optional<model::PoolStats> pool() const;
  // What the node knows of the content of its own image, likewise.
  [[nodiscard]] std::optional<model::ImageState> image() const;

  // Of tenants and agents; null: there are none.
  [[nodiscard]] Quotas* quotas() const;
  // Who waited for one may go on.
  void quotasChanged();

  // Accepts and starts a run; returns once its record is durable (kDenied executions too). Errors:
  // kInvalid, kConflict (idempotency), kQuota (with retry_after_seconds), kUnavailable, kNoSpace.
  // Without a node it is accepted and waits for one.
  Task<Result<model::Execution>> run(model::Principal principal, model::RunRequest request,
                                     std::string idempotency_key);
  // What run() would do; nothing is recorded or started.
  Task<Result<base::json::object>> plan(model::Principal principal, model::RunRequest request);

  // The execution as it is now, with the output so far; kNotFound for what does not exist or is
  // another tenant's.
  Result<model::Execution> get(const model::Principal& principal, const std::string& id);
  Result<std::vector<model::Execution>> list(const model::Principal& principal,
                                             const store::ListQuery& query);
  // The live log, or one rebuilt from the ledger.
  Result<std::shared_ptr<OutputLog>> log(const model::Principal& principal, const std::string& id);
  // Waits at most `timeout` for a terminal state, and not for an approval.
  Task<Result<model::Execution>> wait(model::Principal principal, std::string id,
                                      std::chrono::milliseconds timeout);
  // Asks a queued or running execution to end; one that has ended stays as it is.
  Task<Result<model::Execution>> cancel(model::Principal principal, std::string id);
  // For a program of a session, once it has started; kConflict for any other, and once it has
  // ended. More for its stdin: suspends while the program is slow to read.
  Task<Result<>> input(model::Principal principal, std::string id, model::ProgramInput input);
  Task<Result<>> signal(model::Principal principal, std::string id, int number);
  Task<Result<>> resize(model::Principal principal, std::string id, model::TerminalSize size);

  // Credentials changed: what ends with one that is revoked or expired is looked for at once.
  void lookAtCredentials();

  // What an agent has running, sessions too: the sum of their limits, as they are counted against
  // its own.
  [[nodiscard]] policy::Resources reservedBy(const model::Principal& agent) const;
  // What all that uses now, of memory and processors, as the nodes measured it last.
  [[nodiscard]] policy::Resources measuredOf(const model::Principal& agent) const;
  // Both, of all that runs, whoever's it is.
  [[nodiscard]] policy::Resources reservedByAll() const;
  [[nodiscard]] policy::Resources measuredOfAll() const;

  // Ready: a node is connected and the ledger accepts writes; otherwise why not.
  Result<> ready();
  // Ends admission, ends what runs (SERVER_RESTART), waits for the records, 20 s at most. What
  // waits in the queue stays queued for the next start. For an orderly stop.
  Task<void> drain();

 private:
  friend class Sessions;
  friend class EscalationService;
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with the coroutines of the runs
};

}  // namespace cloister::orchestrator
