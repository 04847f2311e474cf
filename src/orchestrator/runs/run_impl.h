// SPDX-License-Identifier: Apache-2.0
// RunService's implementation: its state, and the steps of its stories. run_service.cc has
// acceptance and the queries, lifecycle.cc the way from the queue to the record.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "async/signal.h"
#include "base/clock.h"
#include "orchestrator/core/agent_use.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/fair_queue.h"
#include "orchestrator/core/layers.h"
#include "orchestrator/core/network.h"
#include "orchestrator/core/permits.h"
#include "orchestrator/core/quota.h"
#include "orchestrator/core/run_bounds.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/guard/approval.h"
#include "orchestrator/guard/rules_now.h"
#include "orchestrator/guard/votes.h"
#include "orchestrator/runs/approvals.h"
#include "orchestrator/runs/events.h"
#include "orchestrator/runs/host.h"
#include "orchestrator/runs/live_run.h"
#include "orchestrator/runs/neighbour.h"
#include "orchestrator/runs/programs.h"
#include "orchestrator/runs/recorder.h"
#include "orchestrator/runs/run_service.h"
#include "orchestrator/runs/verdict.h"
#include "policy/approval.h"

namespace cloister::orchestrator {

struct RunService::Impl final : Programs,
                                Approvals,
                                Nodes::Watcher,
                                std::enable_shared_from_this<RunService::Impl> {
  Impl(std::shared_ptr<Control> control, RunParts parts, RunConfig config);

  void imageVerified() override;  // run_images.cc
  void nodeCame() override;
  void nodeLost() override;
  void join(std::weak_ptr<Neighbour> one) override { neighbour = std::move(one); }
  void watch(std::weak_ptr<Approvals::Watcher> one) override {
    escalations_watcher = std::move(one);
  }
  [[nodiscard]] const EscalationConfig& escalationConfig() const override {
    return config.escalation;
  }

  // Acceptance, step by step.
  Task<Result<model::Execution>> ask(model::Principal principal, Asked asked,
                                     std::string idempotency_key) override;
  Result<LivePtr> prepare(model::Principal principal, Asked& asked) const;
  void settleLimits(Live& live) const;
  Result<> resolve(Live& live, Asked asked, store::NewExecution& record);
  Task<Result<model::Execution>> take(LivePtr live, store::NewExecution record);
  [[nodiscard]] static Subject subjectOf(const Live& live);
  // Call before judge() and permit(), after each possible change.
  Task<void> consult(Live& live) const;
  policy::Decision judge(Live& live) const;  // as Permits, with the run's own approval
  Permission permit(Live& live, std::string permit_id) const;
  [[nodiscard]] Permits::Approval approvalOf(Live& live) const;
  void giveMostProcessorTime(Live& live) const;
  Task<Result<model::Execution>> recordDenial(LivePtr live, store::NewExecution record,
                                              policy::Denied denied,
                                              base::json::object details = {});
  void countDenial(const Live& live) const;
  Result<> countRun(const Live& live, uint64_t memory_bytes);
  void uncountRun(const Live& live);
  Result<> admit(const Live& live);
  // A retry of an accepted request gets the earlier answer, even at a bound.
  Result<model::Execution> earlierOr(const Live& live, store::NewExecution record,
                                     Error refusal) const;
  [[nodiscard]] Result<> checkDisk(const model::Limits& limits) const override;
  [[nodiscard]] Result<> admitDisk(const model::Limits& limits) const override;
  // The place of a workspace with these limits on the node, in `runtime`.
  [[nodiscard]] WorkspacePlace workspaceOf(const model::Limits& limits,
                                           std::string_view runtime) const;
  // The agent's restrictions (run_agents.cc). Lowers the request's limits to the agent's.
  Result<AgentJudgement> heldBack(const model::Principal& principal, Asked& asked) const;
  // kDenied: the session is another agent's, with a sandbox too open for the run's agent.
  [[nodiscard]] Result<> mayEnter(const Live& run) const;
  // kDenied: the program is another agent's, and `by` is held to rules.
  [[nodiscard]] Result<> mayType(const model::Principal& by, const Live& run) const;
  // For a blocked run: the agent's permissions may have shrunk since. Sets Live::held.
  Result<std::optional<AgentRefusal>> heldBackNow(Live& run, const store::Pending& pending) const;
  Task<Result<>> refuseBlocked(LivePtr run, AgentRefusal refusal);
  Task<Result<model::Execution>> recordRefusal(LivePtr live, store::NewExecution record,
                                               HomeRefusal refusal);
  Task<Result<model::Execution>> recordViolation(LivePtr live, store::NewExecution record,
                                                 AgentRefusal refusal);
  // Rules that change during a run (run_rules.cc).
  Task<void> lookAtRulesRegularly();
  void endWhatIsRevoked(RulesNow& now);
  Task<Result<>> holdAsOfNow(Live& run);  // for a run that waited
  Task<void> recordRevoked(LivePtr run);
  // Work that ends with its credential, and valid votes (run_credentials.cc).
  void lookAtCredentials();
  Task<Result<model::Escalation>> withStandingVotes(model::Escalation e) override;
  // As withStandingVotes(), for the approval named by a run, before its validity is reported.
  Task<Result<>> strikeNamed(const Live& live);
  // As withStandingVotes(), for a run released by the approval, by the ledger's present state.
  // Nothing if the run waits again, or has ended meanwhile.
  Task<Result<std::optional<model::Escalation>>> released(LivePtr live, model::Escalation e);
  void strikeVotes(Live& live) const;
  [[nodiscard]] Result<> someoneStands(const model::Escalation& e) const override;
  [[nodiscard]] AgentUse usedBy(const model::Principal* principal) const override;
  Task<Result<store::Accepted>> accept(LivePtr live, store::NewExecution record);
  bool begin(Live& live);
  Task<void> abandon(LivePtr live);
  [[nodiscard]] bool hasRoom(const Live& live) const;
  [[nodiscard]] bool hasRoomInTime(const Live& live) const;
  [[nodiscard]] bool comesNow(const LivePtr& live);
  [[nodiscard]] bool fitsNow(const LivePtr& live);
  Task<void> startLate();
  [[nodiscard]] Need needOf(const Live& live) const;
  [[nodiscard]] bool mayBlock(const std::string& tenant) const;
  void leaveQueue(const LivePtr& live);
  // The run's place, and its part of the quotas.
  void occupy(Live& live);
  void vacate(Live& live);
  // Reports processor time: to the session, and at the end to the quotas.
  static void noteUsage(Live& live, const model::Usage& usage);
  static void reportProcessorTime(Live& live);
  void charge(Live& live) const;
  void launch(const LivePtr& live);
  // Dependencies, before the turn in the queue (run_layers.cc).
  void enqueue(const LivePtr& live);
  [[nodiscard]] LayerRequest layerRequestOf(const Live& run) const;
  Result<> takeLayers(Live& run) const;
  Task<void> makeLayers(LivePtr run);
  Task<Result<runtime::SandboxInfo>> prepareAnew(Live& run);
  void show(const LivePtr& live);

  // Runs that need approval, and their resumption (blocking.cc).
  Task<Result<model::Execution>> askApproval(LivePtr live, store::NewExecution record,
                                             policy::NeedsApproval wanted);
  // Actions refused by the agent's sandbox that a person may allow (run_asks.cc).
  [[nodiscard]] policy::NeedsApproval wantedFor(const Live& run,
                                                const policy::NeedsApproval* by_policy) const;
  Task<std::shared_ptr<void>> beginAsking(model::Principal by) override;
  // The agent's pending escalations, up to the bound.
  [[nodiscard]] Result<std::vector<model::Escalation>> pendingOf(const model::Principal& by) const;
  // Checks the bound on waiting requests of an agent. kQuota with kPendingOfAgent at the bound.
  [[nodiscard]] Result<> mayAsk(size_t waiting) const;
  [[nodiscard]] Result<> mayAskByHand(const model::Principal& by) const override;
  [[nodiscard]] Result<std::optional<model::Escalation>> waitingLike(
      const Alike& asked) const override;
  [[nodiscard]] uint32_t waitingFor(const model::Escalation& e) const override;
  Task<std::optional<policy::NeedsApproval>> wantedNow(model::Principal principal,
                                                       model::RunRequest request) override;
  void announce() override;
  void approveIfSafe(const Live& run, store::NewEscalation& made) const;
  Task<void> noteViolation(LivePtr run);
  Task<void> settleIfDecided(LivePtr run);
  // Another execution's approval, usable by this execution, too.
  Result<model::Escalation> sharedApproval(const Live& run, const std::string& id) const;
  [[nodiscard]] Result<model::Escalation> escalationNow(const Live& run,
                                                        const std::string& id) const;
  // The ledger's state of the approval that was `asked` for. Nothing, as of released().
  [[nodiscard]] Result<std::optional<model::Escalation>> approvalNow(
      const Live& run, const model::Escalation& asked) const;
  Task<void> closeEscalation(model::Escalation e, std::string why) override;
  [[nodiscard]] Result<std::optional<model::Escalation>> escalationOf(
      const model::Execution& execution) const;
  void settleOne(const std::string& execution_id, const model::Escalation& e);
  void follow(const Live& run, const std::string& escalation);
  // The escalations without other waiting runs.
  std::vector<std::string> unfollow(const model::Principal& of, const std::string& execution_id);
  Task<Result<store::Accepted>> recordAsked(LivePtr live, store::NewExecution record,
                                            policy::NeedsApproval wanted);
  Result<> wantApproval(Live& live, store::NewExecution& record,
                        const policy::NeedsApproval& wanted) const;
  Result<> useApproval(Live& live, store::NewExecution& record) const;
  [[nodiscard]] std::string imageDigestOf(const Live& live) const;  // for a start now
  [[nodiscard]] policy::Use useOf(const Live& live) const;
  // As withDifference(); `request_json`: "" if the run is the one that waited.
  [[nodiscard]] Error explained(const Live& live, const model::Escalation& e, Error refusal,
                                const std::string& request_json) const;
  static void noteRefusal(Live& live);
  [[nodiscard]] Result<> checkAsAccepted(const store::Pending& pending) const;
  Result<> reload(Live& live, const store::Pending& pending) const;
  Result<> holdAgain(const store::Pending& pending);
  void settle(const model::Escalation& e) override;
  void settleWaiting() override;
  Task<void> resume(LivePtr live, model::Escalation escalation);
  // False: the approval lacks votes by now.
  Task<Result<bool>> unblock(LivePtr live, model::Escalation escalation);
  // A program of a session, whose workspace is held (run_hold.cc).
  Task<Result<>> readWorkspace(LivePtr live);
  [[nodiscard]] bool isOver(const Live& run) const;  // while waiting for its session
  [[nodiscard]] Result<Bound> boundNow(const Live& live, const std::string& request_json) const;
  Task<Result<>> letIn(LivePtr live);
  // False, of both, as of unblock().
  Task<Result<bool>> enterAndHold(LivePtr live, model::Escalation escalation);
  Result<bool> stillApproved(Live& live, const model::Escalation& asked,
                             const Result<>& entered) const;
  static void letGo(Live& live);
  Task<void> denyForEffect(model::Escalation e, std::string why) override;
  Task<void> endBlocked(LivePtr live);
  Task<void> withdraw(model::Execution ended);

  // From the queue to the record.
  void startWaiting() override;
  [[nodiscard]] bool mayStart(const Live& live) const;
  Task<void> execute(LivePtr live);
  Task<Result<model::Outcome>> perform(LivePtr live);
  [[nodiscard]] bool givesUp(const Live& live) const;
  void markStarted(Live& live, const model::PermitFields& fields, std::string permit_id) const;
  [[nodiscard]] model::AuditEvent started(const Live& live) const;  // the audit row of its start
  Task<Result<model::SignedPermit>> recordStart(Live& live);
  void askForSandbox(const LivePtr& live);
  Task<void> provisionBeside(LivePtr live, model::SignedPermit permit);
  Task<Result<>> provision(Live& live, model::SignedPermit permit);
  // The secrets of a run (run_secrets.cc), read from the ledger for a start now.
  Result<> loadSecrets(Live& live) const;
  Result<model::SignedPermit> furnishAnew(Live& live) const;
  Task<Result<>> recordSecretUse(LivePtr live);
  Task<void> recordWithheld(const Live& live);
  // The network of a run (run_network.cc). Keeps the plan of a granted permit.
  static void keepPlan(Live& live, std::optional<model::NetworkPlan> plan,
                       const std::string& permit_id);
  // Another policy came into force after the record of the start.
  Task<Result<>> recordPlan(Live& live);
  Task<Result<>> openDoor(LivePtr live);
  Task<Result<>> confirmDoor(Live& run);
  Task<std::optional<model::NetworkPlan>> planNow(LivePtr live);
  void closeDoor(Live& live) const;
  Task<void> beginUse(LivePtr live) const;  // before the program's start
  Task<void> noteUse(LivePtr live) const;
  static void noteHint(Live& live);
  Task<Result<model::Outcome>> exec(Live& live);
  Task<void> endRecording(Live& live, const Result<model::Outcome>& outcome);
  void conclude(Live& live, const Result<model::Outcome>& outcome, Cause cause);
  Task<void> scanArtifacts(Live& run);
  Task<void> recordEnd(Live& live);
  // The digest of the node's own image, possibly known after a run (run_images.cc).
  Task<void> noteUnverified(const Live& live);
  Task<void> bindImage();
  Task<void> recordImageChange(std::string from);
  Task<Result<>> persist(Live& live, model::AuditEvent event);
  Task<void> tearDown(LivePtr live);
  void retire(const LivePtr& live);
  void forgetOldest();

  Task<void> cancelLive(LivePtr live, model::Principal by);
  Task<void> endLive(LivePtr live, Cause cause);
  void endFromOutside(Live& live, Cause cause);
  [[nodiscard]] std::vector<const model::Execution*> programsIn(
      const std::string& session_id) const override;
  void endPrograms(const std::string& session_id, Cause cause, bool waiting_too) override;
  Task<Result<LivePtr>> programOf(model::Principal principal, std::string id,
                                  std::string_view doing);
  Result<> requeue(const store::Pending& pending);
  Result<> settleNow(model::Execution execution);
  Task<void> retainRegularly();
  [[nodiscard]] model::ArtifactQuota roomOf(const std::string& tenant) const;
  [[nodiscard]] LivePtr findLive(const model::Principal& principal, const std::string& id) const;
  [[nodiscard]] std::shared_ptr<OutputLog> findLog(const model::Principal& principal,
                                                   const std::string& id) const override;
  [[nodiscard]] int retryAfter() const;
  void reportDepth() override;

  const std::shared_ptr<Control> control;
  RunParts parts;
  RunConfig config;
  FairQueue<LivePtr> queue;
  std::map<std::string, LivePtr> live;  // accepted and not finished
  std::set<std::string> blocked;        // live runs that wait for approval
  LivePtr awaits_disk;                  // queued run with the next claim on disk; null: none
  LivePtr awaits_room;                  // queued run that others have passed since `passed_since`
  base::Monotonic passed_since;
  bool starts_late = false;                                    // startLate() is under way
  std::map<std::string, std::shared_ptr<OutputLog>> finished;  // kept for late readers
  std::deque<std::string> finished_order;
  size_t finished_bytes = 0;
  double mean_seconds = 1;  // of recent runs, for Retry-After
  bool draining = false;
  bool stopped = false;
  std::string image_before;  // the image's last known digest
  bool binding = false;      // bindImage() is under way
  bool bind_again = false;   // repeat after the present binding
  std::weak_ptr<Neighbour> neighbour;
  std::weak_ptr<Approvals::Watcher> escalations_watcher;
  // Runs waiting for another run's escalation, by tenant and escalation id.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> followers;
  std::set<std::pair<std::string, std::string>> asking;  // tenants and agents, see beginAsking()
  HeldLately held_lately;
  async::Signal stopping;
};

}  // namespace cloister::orchestrator
