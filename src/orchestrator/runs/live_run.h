// SPDX-License-Identifier: Apache-2.0
// Live: a run from its acceptance to its final record. Internal to this room: of one RunService, on
// its executor.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/signal.h"
#include "base/clock.h"
#include "base/record_clock.h"
#include "orchestrator/core/network.h"
#include "orchestrator/core/policy_engine.h"
#include "orchestrator/core/quota.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/guard/approval.h"
#include "orchestrator/runs/events.h"
#include "orchestrator/runs/host.h"
#include "orchestrator/runs/known_secrets.h"
#include "orchestrator/runs/programs.h"
#include "orchestrator/runs/recorder.h"
#include "orchestrator/runs/secrets.h"
#include "orchestrator/runs/verdict.h"
#include "orchestrator/runs/workspace_state.h"
#include "policy/approval.h"
#include "trace/tracer.h"

namespace cloister::orchestrator {

// A run from its acceptance to its final record.
struct Live {
  explicit Live(const boost::asio::any_io_executor& executor) : settled(executor) {}

  model::Execution execution;  // the record; `log` shows the durable parts
  model::RunRequest request;   // without large parts; kept for asking policy again
  std::string rule_language;
  std::shared_ptr<Home> home;  // null: a sandbox of its own
  EnterSession enter;
  WorkspaceAccess access;
  WorkspacePtr workspace;      // at the request for an approval
  std::shared_ptr<void> hold;  // of the workspace, from its approval to its end
  bool let_in = false;         // by its session, but the session's place is not taken yet
  model::ExecSpec spec;
  RunFacts facts;
  policy::RiskFacts risk_facts;
  Held held;                         // its agent's rules, for its sandbox
  Held by_rules;                     // `held` without the approved exceptions
  Held opened;                       // of a session's program: permissions of its sandbox
  std::optional<AgentRefusal> asks;  // the agent's refused permission that the run asks for
  Quotas::Use use;                   // while the run has a place
  bool revoked = false;              // the agent lost a permission that its sandbox grants
  bool lost_credential = false;      // ends with its credential
  bool terminal = false;             // the program has a terminal
  int64_t ends_at = 0;               // of its credential, as model::Principal
  uint32_t unreadable = 0;           // failed reads of the rules in a row
  std::string weaker;                // policy::weakerOf() at the start
  Ruling ruling;                     // the engine's last ruling, for decide()
  size_t bytes = 0;                  // bytes held while waiting
  base::Monotonic accepted_at;
  base::RecordClock clock;    // of `execution`
  trace::Step traced;         // from the request to the recorded end
  bool passes_trace = false;  // to its program, which then cannot be a waiting interpreter
  trace::Step queued;         // in the queue
  trace::Step starting;       // from the program's request to its start
  std::shared_ptr<OutputLog> log;
  Cause cause = Cause::kNone;
  bool cancel_asked = false;
  bool started = false;          // the program was
  bool lasts_cpu = false;        // as model::ExecRequest
  bool in_kernel = false;        // a cell: its use is its interpreter's
  uint64_t reported_cpu_ms = 0;  // to `home`
  // For programs that last as long as their session: the maximum by rule and agent.
  std::chrono::milliseconds lasts_for = kForever;
  std::unique_ptr<Host> host;
  bool released = false;                      // nothing is left there
  std::unique_ptr<Recorder> recorder;         // while the program runs
  Bound bound;                                // content bound by an approval, if any
  std::optional<model::Escalation> approval;  // used, or about to be used
  std::optional<Error> refusal;               // of the approval; `field` has the reason
  std::optional<model::SignedPermit> permit;  // of a start whose sandbox is not asked for yet
  // Of its own sandbox's network: the first plan until the door is opened, the plan's digest, and
  // then the permit of the door.
  std::optional<model::NetworkPlan> plan;
  std::string plan_sha256;
  std::string door;
  std::vector<model::PermitLayer> layers;  // of its dependencies, once they are there
  bool inspected = false;                  // some destinations of its door are
  std::string certificate;              // of the authority of inspected destinations; "": none are
  std::optional<SecretsInUse> secrets;  // from the start to the end; nullopt: it asks for none
  // `spec` with secrets and what the network adds, for the node; nullopt: `spec` itself. Never
  // stored.
  std::optional<model::ExecSpec> furnished;
  std::string furnished_sha256;         // of its encoding; ""
  std::shared_ptr<KnownSecrets> known;  // to its sandbox; null: none
  std::vector<std::string> weakened_by_secrets;
  model::NetworkUse network_before;     // by its session's door, before the program
  bool use_noted = false;               // the use of the network is in the record
  int64_t image_since = 0;              // model::ImageState::since of its sandbox
  std::optional<Result<>> provisioned;  // once the result is known
  async::Signal settled;  // notified of `provisioned`, of the start, of the noted use, and of the
                          // recorded end
};
using LivePtr = std::shared_ptr<Live>;

// Whether its dependencies are not there yet (run_layers.cc). A program of a session has the layers
// of the session's sandbox.
bool lacksLayers(const Live& run);
// The denial of a run whose packages the operator's rules refuse.
policy::Denied refusalOfLayers(const Error& error);

// The run's span, and its end with what became of it (run_trace.cc).
void beginTrace(trace::Tracer* tracer, Live& run);
void endTrace(Live& run);

// Secrets (run_secrets.cc). Makes the program as the node gets it, which specOf() gives.
void furnish(Live& run);
const model::ExecSpec& specOf(const Live& run);
DoorSecrets doorSecretsOf(const Live& run);
// Takes the secrets out of the record's use of the network, and out of the rest of the record.
void redactUse(Live& run);
void redactRecord(Live& run);

// The parts for policy. The large parts are only in the ExecSpec.
model::RunRequest policyPartsOf(const model::RunRequest& request);

}  // namespace cloister::orchestrator
