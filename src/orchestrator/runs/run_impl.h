// SPDX-License-Identifier: Apache-2.0
// RunService's inside: what it holds and the steps that its stories are told in. run_service.cc has
// acceptance and the questions about runs, lifecycle.cc the way from the queue to the record.
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
#include "orchestrator/core/fair_queue.h"
#include "orchestrator/core/ledger.h"
#include "orchestrator/core/permits.h"
#include "orchestrator/core/quota.h"
#include "orchestrator/core/run_bounds.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/guard/approval.h"
#include "orchestrator/runs/collecting_host.h"
#include "orchestrator/runs/events.h"
#include "orchestrator/runs/host.h"
#include "orchestrator/runs/live_run.h"
#include "orchestrator/runs/recorder.h"
#include "orchestrator/runs/run_service.h"
#include "orchestrator/runs/verdict.h"
#include "orchestrator/sessions/kernel.h"
#include "policy/approval.h"

namespace cloister::orchestrator {

class RulesNow;

struct RunService::Impl : std::enable_shared_from_this<RunService::Impl> {
  Impl(boost::asio::any_io_executor executor, Parts parts, RunConfig config);

  // Acceptance, step by step.
  Task<Result<model::Execution>> ask(model::Principal principal, Asked asked,
                                     std::string idempotency_key);
  Result<LivePtr> prepare(model::Principal principal, Asked& asked) const;
  void settleLimits(Live& live) const;
  Result<> resolve(Live& live, Asked asked, store::NewExecution& record);
  Task<Result<model::Execution>> take(LivePtr live, store::NewExecution record);
  [[nodiscard]] static Subject subjectOf(const Live& live);
  // Before judge() and permit(), each time that something may have changed.
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
  // A retry of what was accepted is answered as that was, whatever is full by now.
  Result<model::Execution> earlierOr(const Live& live, store::NewExecution record,
                                     Error refusal) const;
  // Where its workspace is to be on disk: whether the node has that, and ever so much of it,
  [[nodiscard]] Result<> checkDisk(const model::Limits& limits) const;
  // and besides the sessions' now.
  [[nodiscard]] Result<> admitDisk(const model::Limits& limits) const;
  // Where a workspace with these limits lies on the node, in `runtime`.
  [[nodiscard]] WorkspacePlace workspaceOf(const model::Limits& limits,
                                           std::string_view runtime) const;
  // What the agent is held to (run_agents.cc). Its limits become what it may have.
  Result<AgentJudgement> heldBack(const model::Principal& principal, Asked& asked) const;
  // kDenied: its session is another agent's, and has a sandbox that is too open for its own agent.
  [[nodiscard]] Result<> mayEnter(const Live& run) const;
  // kDenied: the program is another agent's, and `by` is held to rules.
  [[nodiscard]] Result<> mayType(const model::Principal& by, const Live& run) const;
  // Of a run that was blocked: what the agent may do may have become less since. Sets Live::held.
  Result<std::optional<AgentRefusal>> heldBackNow(Live& run, const store::Pending& pending) const;
  Task<Result<>> refuseBlocked(LivePtr run, AgentRefusal refusal);
  Task<Result<model::Execution>> recordRefusal(LivePtr live, store::NewExecution record,
                                               HomeRefusal refusal);
  Task<Result<model::Execution>> recordViolation(LivePtr live, store::NewExecution record,
                                                 AgentRefusal refusal);
  // Rules that change while it runs (run_rules.cc).
  Task<void> lookAtRulesRegularly();
  void endWhatIsRevoked(RulesNow& now);
  // Of a run that waited.
  Task<Result<>> holdAsOfNow(Live& run);
  Task<void> recordRevoked(LivePtr run);
  // What ends with the credential that began it, and whose votes count (run_credentials.cc).
  void lookAtCredentials();
  // Of those who approved: the credentials that are revoked.
  [[nodiscard]] Result<std::set<std::string>> revokedOf(const model::Escalation& e) const;
  // Their votes do not count in `e`.
  [[nodiscard]] Result<> strikeRevoked(model::Escalation& e) const;
  // As it is without their votes; the ledger has that then. kPending: it waits for others.
  Task<Result<model::Escalation>> withStandingVotes(model::Escalation e);
  // The same for the approval that a run names, before whether it does is told.
  Task<Result<>> strikeNamed(const Live& live);
  // The same for a run that it lets go on, by what the ledger has now; nothing where that waits
  // again, or has ended meanwhile.
  Task<Result<std::optional<model::Escalation>>> released(LivePtr live, model::Escalation e);
  // As the next vote would find it: an open one is shown so, before the ledger has that.
  [[nodiscard]] Result<> strikeIfOpen(model::Escalation& e) const;
  void strikeVotes(Live& live) const;
  // Of who asked for what waited. kDenied, with the reason in `field`.
  [[nodiscard]] Result<> requesterStands(const model::Principal& requester) const;
  // The same of those who asked for what waits for `e`: good where one stands, or nothing waits.
  [[nodiscard]] Result<> someoneStands(const model::Escalation& e) const;
  // notApproved(), for what `requester` asked for. The service denies what nobody could use.
  [[nodiscard]] model::RunError notApprovedFor(const model::Principal& requester,
                                               const model::Escalation& e) const;
  // Null: by all.
  [[nodiscard]] AgentUse usedBy(const model::Principal* principal) const;
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
  // What is known of its processor time: to its session, and at its end to the quotas.
  static void reportProcessorTime(Live& live);
  void charge(Live& live) const;
  void launch(const LivePtr& live);
  void enqueue(const LivePtr& live);
  void show(const LivePtr& live);

  // What needs approval, and the way back (blocking.cc).
  Task<Result<model::Execution>> askApproval(LivePtr live, store::NewExecution record,
                                             policy::NeedsApproval wanted);
  // What its agent's sandbox refuses and a person may allow (run_asks.cc).
  [[nodiscard]] policy::NeedsApproval wantedFor(const Live& run,
                                                const policy::NeedsApproval* by_policy) const;
  // Whoever asks for an approval is counted with those that wait, from before waitingLike() until
  // the ledger has it.
  std::shared_ptr<void> beginAsking(const model::Principal& by);
  // Those of its agent, as many as may wait.
  [[nodiscard]] Result<std::vector<model::Escalation>> pendingOf(const model::Principal& by) const;
  // Whether one more may wait, beside `waiting` in the ledger. kQuota with kPendingOfAgent: no.
  [[nodiscard]] Result<> mayAsk(const model::Principal& by, size_t waiting) const;
  [[nodiscard]] Result<> mayAskByHand(const model::Principal& by) const;
  // One that waits for the same. kQuota as mayAsk().
  [[nodiscard]] Result<std::optional<model::Escalation>> waitingLike(const Alike& asked) const;
  [[nodiscard]] uint32_t waitingFor(const model::Escalation& e) const;
  void approveIfSafe(const Live& run, model::Escalation& e) const;
  Task<void> noteViolation(LivePtr run);
  Task<void> settleIfDecided(LivePtr run);
  // The approval that another execution uses up, for this one as well.
  Result<model::Escalation> sharedApproval(const Live& run, const std::string& id) const;
  [[nodiscard]] Result<model::Escalation> escalationNow(const Live& run,
                                                        const std::string& id) const;
  // What the ledger has of the approval that was `asked` for. Nothing, as of released().
  [[nodiscard]] Result<std::optional<model::Escalation>> approvalNow(
      const Live& run, const model::Escalation& asked) const;
  // Ends it, where it is still open.
  Task<void> closeEscalation(model::Escalation e);
  [[nodiscard]] Result<std::optional<model::Escalation>> escalationOf(
      const model::Execution& execution) const;
  void settleOne(const std::string& execution_id, const model::Escalation& e);
  void follow(const Live& run, const std::string& escalation);
  // The escalations for which nobody but their own run waits any more.
  std::vector<std::string> unfollow(const model::Principal& of, const std::string& execution_id);
  Task<Result<store::Accepted>> recordAsked(LivePtr live, store::NewExecution record,
                                            policy::NeedsApproval wanted);
  Result<> wantApproval(Live& live, store::NewExecution& record,
                        const policy::NeedsApproval& wanted) const;
  Result<> useApproval(Live& live, store::NewExecution& record) const;
  // Of the image that it would run in now.
  [[nodiscard]] std::string imageDigestOf(const Live& live) const;
  [[nodiscard]] policy::Use useOf(const Live& live) const;
  static void noteRefusal(Live& live);
  [[nodiscard]] Result<> checkAsAccepted(const store::Pending& pending) const;
  Result<> reload(Live& live, const store::Pending& pending) const;
  Result<> holdAgain(const store::Pending& pending);
  void settle(const model::Escalation& escalation);
  Task<void> resume(LivePtr live, model::Escalation escalation);
  // False: the approval lacks votes by now.
  Task<Result<bool>> unblock(LivePtr live, model::Escalation escalation);
  // A program of a session, whose workspace is held (run_hold.cc).
  Task<Result<>> readWorkspace(LivePtr live);
  [[nodiscard]] bool isOver(const Live& run) const;  // while it waits for its session
  [[nodiscard]] Result<Bound> boundNow(const Live& live, const std::string& request_json) const;
  Task<Result<>> letIn(LivePtr live);
  // False, of both, as of unblock().
  Task<Result<bool>> enterAndHold(LivePtr live, model::Escalation escalation);
  Result<bool> stillApproved(Live& live, const model::Escalation& asked,
                             const Result<>& entered) const;
  static void letGo(Live& live);
  Task<void> denyForEffect(model::Escalation escalation, std::string why);
  Task<void> endBlocked(LivePtr live);
  Task<void> withdraw(model::Principal of, std::string execution_id);

  // From the queue to the record.
  void startWaiting();
  [[nodiscard]] bool mayStart(const Live& live) const;
  Task<void> execute(LivePtr live);
  Task<Result<model::Outcome>> perform(LivePtr live);
  [[nodiscard]] bool givesUp(const Live& live) const;
  void markStarted(Live& live, const model::PermitFields& fields, std::string permit_id) const;
  Task<Result<model::SignedPermit>> recordStart(Live& live);
  void askForSandbox(const LivePtr& live);
  Task<void> provisionBeside(LivePtr live, model::SignedPermit permit);
  Task<Result<>> provision(Live& live, model::SignedPermit permit);
  Task<Result<model::Outcome>> exec(Live& live);
  void conclude(Live& live, const Result<model::Outcome>& outcome);
  Task<void> scanArtifacts(Live& run);
  Task<void> recordEnd(Live& live);
  void imageTold();  // run_images.cc, as the next ones
  // What an approval of a run on it is bound to; "" where the node has not told.
  [[nodiscard]] std::string hostImage() const;
  [[nodiscard]] int64_t imageSince() const;
  [[nodiscard]] bool imageHeld(int64_t since) const;
  void settleImage(model::Provenance& provenance, int64_t since) const;
  Task<void> noteUnverified(const Live& live);
  Task<void> bindImage();
  Task<void> recordImageChange(std::string from);
  Task<Result<>> persist(Live& live, model::AuditEvent event);
  Task<Result<>> insist(std::string id, std::function<Task<Result<>>()> write);
  Task<void> tearDown(LivePtr live);
  void retire(const LivePtr& live);
  void forgetOldest();

  Task<void> cancelLive(LivePtr live, model::Principal by);
  Task<void> endLive(LivePtr live, Cause cause);
  void endFromOutside(Live& live, Cause cause);
  // With those that wait for an approval or to be let in, or without.
  void endPrograms(const std::string& session_id, Cause cause, bool waiting_too);
  Task<Result<LivePtr>> programOf(model::Principal principal, std::string id,
                                  std::string_view doing);
  Result<> requeue(const store::Pending& pending);
  Result<> settleNow(model::Execution execution);
  // Of what was to be written before anything runs. Only an error for good comes back.
  Result<> orInsist(Result<> written, std::string id, std::function<Task<Result<>>()> write);
  Task<void> retainRegularly();
  [[nodiscard]] model::ArtifactQuota roomOf(const std::string& tenant) const;

  [[nodiscard]] LivePtr findLive(const model::Principal& principal, const std::string& id) const;
  [[nodiscard]] std::shared_ptr<OutputLog> findLog(const model::Principal& principal,
                                                   const std::string& id) const;
  [[nodiscard]] int retryAfter() const;
  void reportDepth();

  boost::asio::any_io_executor executor;
  Parts parts;
  RunConfig config;
  Ledger ledger;
  NodeState node;
  Permits permits;
  FairQueue<LivePtr> queue;
  std::map<std::string, LivePtr> live;  // accepted and not finished
  std::set<std::string> blocked;        // of those, on approval
  LivePtr awaits_disk;  // of the queue: no other run gets disk before it; null: none waits so
  LivePtr awaits_room;  // of the queue: the first that others were let pass, since then
  base::Monotonic passed_since;
  bool starts_late = false;                                    // startLate() is under way
  std::map<std::string, std::shared_ptr<OutputLog>> finished;  // kept for late readers
  std::deque<std::string> finished_order;
  size_t finished_bytes = 0;
  Places places;            // of the node; a run's is held up to the end of its teardown
  uint32_t unrecorded = 0;  // writes that the ledger refuses for now
  double mean_seconds = 1;  // of recent runs, for Retry-After
  bool draining = false;
  base::Monotonic give_up = base::Monotonic::max();  // of writes that the ledger refuses
  bool stopped = false;
  std::optional<model::ImageState> host_image;  // as told last; stays when the node goes
  std::string image_before;                     // the last digest of it that was not ""
  bool binding = false;                         // the ledger is told of the digest,
  bool bind_again = false;                      // and once more after that
  std::function<void()> image_verified;         // tells the sessions
  std::function<void()> node_lost;              // tells the sessions
  // Adds what an agent's sessions use.
  std::function<void(const model::Principal*, AgentUse&)> session_use;
  std::function<void(RulesNow&)> rules_looked;
  std::function<void()> charge_sessions;  // for what their programs are not charged for
  // Tells the sessions; whether a credential still stands.
  std::function<void(const std::function<bool(const std::string&)>&)> credentials_looked;
  // Of sessions that wait for escalations.
  std::function<void(const model::Escalation&)> settle_sessions;
  std::function<void()> look_at_sessions;
  // Who asked for those.
  std::function<std::vector<model::Principal>(const model::Escalation&)> sessions_waiting;
  // Runs that wait for the escalation of another, by tenant and its id.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> followers;
  std::map<std::pair<std::string, std::string>, uint32_t> asking;  // by tenant and agent
  std::function<void()> node_back;                                 // tells those who wait for it
  std::function<void()> escalated;  // there is something new to decide, and to tell
  async::Signal changed;            // a run or a sandbox less
  async::Signal stopping;
};

}  // namespace cloister::orchestrator
