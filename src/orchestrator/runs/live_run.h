// SPDX-License-Identifier: Apache-2.0
// Live: one run from its acceptance to its final record. Internal to this room: of one RunService,
// on its executor.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "async/signal.h"
#include "base/clock.h"
#include "base/record_clock.h"
#include "orchestrator/core/policy_engine.h"
#include "orchestrator/core/quota.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/guard/approval.h"
#include "orchestrator/runs/events.h"
#include "orchestrator/runs/host.h"
#include "orchestrator/runs/programs.h"
#include "orchestrator/runs/recorder.h"
#include "orchestrator/runs/verdict.h"
#include "orchestrator/runs/workspace_state.h"
#include "policy/approval.h"

namespace cloister::orchestrator {

// One run from its acceptance to its final record.
struct Live {
  explicit Live(const boost::asio::any_io_executor& executor) : settled(executor) {}

  model::Execution execution;  // its record; `log` shows the parts that are durable
  model::RunRequest request;   // without the parts that are large: policy is asked again
  std::string rule_language;
  std::shared_ptr<Home> home;  // null: a sandbox of its own
  EnterSession enter;
  WorkspaceAccess access;
  WorkspacePtr workspace;      // as it was when an approval was asked for
  std::shared_ptr<void> hold;  // of the workspace, from its approval to its end
  bool let_in = false;         // by its session, whose place it has not taken yet
  model::ExecSpec spec;
  RunFacts facts;
  policy::RiskFacts risk_facts;
  Held held;                         // of its agent, in the sandbox that it gets
  Held by_rules;                     // `held`, but for what it is approved with
  Held opened;                       // of a session's program: what its sandbox is to let it do
  std::optional<AgentRefusal> asks;  // what its agent may not do, for which it asks
  Quotas::Use use;                   // while it has a place
  bool revoked = false;              // its agent may no longer do what its sandbox lets it do
  bool lost_credential = false;      // it ends with the credential that began it
  bool terminal = false;             // its program has one
  int64_t ends_at = 0;               // of its credential, as model::Principal
  uint32_t unreadable = 0;  // looks, one after the other, at which its rules could not be read
  std::string weaker;       // policy::weakerOf(), as it was started
  Ruling ruling;            // of the engine, when it was asked last: decide() goes by it
  size_t bytes = 0;         // what it holds while it waits
  base::Monotonic accepted_at;
  base::RecordClock clock;  // of `execution`
  std::shared_ptr<OutputLog> log;
  Cause cause = Cause::kNone;
  bool cancel_asked = false;
  bool started = false;          // the program was
  bool lasts_cpu = false;        // as model::ExecRequest
  bool in_kernel = false;        // a cell: what it uses is its kernel's
  uint64_t reported_cpu_ms = 0;  // to `home`
  // What lasts as long as its session: how long at most, by its rule and for its agent.
  std::chrono::milliseconds lasts_for = kForever;
  std::unique_ptr<Host> host;
  bool released = false;                      // nothing is left there
  std::unique_ptr<Recorder> recorder;         // while it runs
  Bound bound;                                // what an approval binds, once there is one
  std::optional<model::Escalation> approval;  // that it has used, or is about to
  std::optional<Error> refusal;               // of that approval; `field` has the reason
  std::optional<model::SignedPermit> permit;  // of a start whose sandbox is not asked for yet
  int64_t image_since = 0;                    // model::ImageState::since of its sandbox
  std::optional<Result<>> provisioned;        // once it is known whether there is one
  async::Signal settled;  // `provisioned` was, or it started, or its end is recorded
};
using LivePtr = std::shared_ptr<Live>;

// The parts that policy looks at. The others are large, and are only held in the ExecSpec.
model::RunRequest policyPartsOf(const model::RunRequest& request);

}  // namespace cloister::orchestrator
