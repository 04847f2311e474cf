// SPDX-License-Identifier: Apache-2.0
// The implementation of Sessions: sessions.cc has creation and requests to a session,
// session_end.cc the end.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/core/control.h"
#include "orchestrator/core/layers.h"
#include "orchestrator/core/quota.h"
#include "orchestrator/core/reach.h"
#include "orchestrator/core/run_bounds.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/guard/rules_now.h"
#include "orchestrator/guard/votes.h"
#include "orchestrator/runs/approvals.h"
#include "orchestrator/runs/neighbour.h"
#include "orchestrator/runs/programs.h"
#include "orchestrator/sessions/live_session.h"
#include "orchestrator/sessions/session_events.h"
#include "orchestrator/sessions/sessions.h"
#include "policy/approval.h"

namespace cloister::orchestrator {

struct Sessions::Impl final : Neighbour,
                              Nodes::Watcher,
                              std::enable_shared_from_this<Sessions::Impl> {
  Impl(std::shared_ptr<Control> shared, std::shared_ptr<Programs> programs,
       std::shared_ptr<Approvals> with, const AgentGuard* guard, SessionConfig how)
      : control(std::move(shared)),
        runs(std::move(programs)),
        approvals(std::move(with)),
        agents(guard),
        config(how) {}

  // Creation, step by step.
  Result<SessionPtr> prepare(model::Principal principal, model::SessionRequest request,
                             store::NewSession& record) const;
  Task<void> consult(LiveSession& session) const;
  void settleLimits(LiveSession& session) const;
  [[nodiscard]] static Subject subjectOf(const LiveSession& session);
  // For the sandbox's needs beside clients' programs: an interpreter, a request to its files.
  // `request` and `by` outlive the subject.
  [[nodiscard]] static Subject subjectWithin(const LiveSession& session, std::string_view operation,
                                             const model::RunRequest& request,
                                             const model::Principal& by);
  [[nodiscard]] Result<> room(const LiveSession& session) const;
  Result<> take(const SessionPtr& session);
  Task<Result<model::Session>> earlierOr(store::NewSession record, Error refusal);
  Task<Result<model::Session>> replayed(model::Session session);
  void give(const SessionPtr& session);
  Task<Result<model::Session>> refuse(SessionPtr session, store::NewSession record,
                                      policy::Denied denied);
  // Actions allowed by the session's own scope (session_scope.cc).
  static std::optional<HomeRefusal> beyondScope(const LiveSession& session,
                                                const std::vector<std::string>& needs);
  // For a request without a record: an audit row and an error.
  Task<Result<>> withinScope(SessionPtr session, model::Principal principal,
                             std::vector<std::string> needs, std::string doing);
  // Sessions that need approval, and their continuation (session_asks.cc). `of_itself`: for
  // decisions about the session itself; otherwise for programs within.
  [[nodiscard]] static Permits::Approval approvalOf(const LiveSession& session, bool of_itself);
  Task<Result<model::Session>> askApproval(SessionPtr session, store::NewSession record,
                                           policy::NeedsApproval wanted);
  Result<> wantApproval(LiveSession& session, store::NewSession& record,
                        const policy::NeedsApproval& wanted) const;
  [[nodiscard]] std::string imageDigestOf(const LiveSession& session) const;
  [[nodiscard]] Result<model::Escalation> escalationOf(const LiveSession& session) const;
  void hold(const SessionPtr& session);
  Result<> holdAgain(const model::Session& session);
  void settle(const model::Escalation& e) override;
  void settleOne(const SessionPtr& session, const model::Escalation& e);
  Task<void> resume(SessionPtr session);
  Task<Result<>> goOn(SessionPtr session);
  Task<Result<>> waitForRoom(SessionPtr session);
  void settleWaiting() override;
  [[nodiscard]] std::vector<model::Principal> waitingFor(const model::Escalation& e) const override;
  [[nodiscard]] Result<policy::Use> useOf(const LiveSession& session) const;
  Task<Result<>> approve(LiveSession& session);
  Task<Result<>> holdToRules(LiveSession& session);
  Task<Result<>> recordGoingOn(SessionPtr session);
  Task<void> withdraw(SessionPtr session);
  // Restrictions of agents (session_agents.cc).
  Result<AgentJudgement> heldBack(const model::Principal& principal,
                                  model::SessionRequest& request) const;
  Task<Result<model::Session>> refuseAgent(SessionPtr session, store::NewSession record,
                                           AgentRefusal refusal);
  Task<Result<std::shared_ptr<FileCall>>> askForArtifact(SessionPtr session,
                                                         model::Principal principal,
                                                         FileRequest request);
  Task<Result<>> mayUseFiles(model::Principal principal, SessionPtr session,
                             const std::vector<std::string>& argv);
  // Checks that another agent may run programs here (AgentGuard::tooOpen()).
  Task<Result<>> mayRun(model::Principal principal, SessionPtr session);
  [[nodiscard]] Result<std::optional<HomeRefusal>> beyondVisitors(
      const LiveSession& session, const model::ExecRequest& request) const;
  void forgetVisitors(LiveSession& session) const;
  void addUse(const model::Principal* principal, AgentUse& used) const override;
  Task<void> begin(SessionPtr session);
  Task<Result<>> provision(SessionPtr session);
  Task<Result<>> fillIn(SessionPtr session);
  [[nodiscard]] LayerRequest layerRequestOf(const LiveSession& session) const;
  [[nodiscard]] Result<> checkDeps(const LiveSession& session) const;
  Task<Result<>> haveLayers(LiveSession& session);
  Task<Result<>> waitForPlace(LiveSession& session);
  Task<Result<>> recordStart(LiveSession& session);
  Task<Result<model::Session>> begun(SessionPtr session);

  // A move, step by step (session_move.cc).
  static constexpr char kMoved[] = "session.moved";
  static constexpr char kUnderRules[] = "session.rules_applied";
  static constexpr char kOpened[] = "session.opened";
  struct Moved {
    const char* why = kMoved;  // action in the audit log
    std::shared_ptr<runtime::Sandbox> box;
    model::PermitFields permit;
    model::RunRequest request;
    Ruling ruling;
    std::string weaker;            // policy::weakerOf()
    bool entered = false;          // the box is the session's, possibly only for a while
    std::string door = {};         // of the box
    std::string plan_sha256 = {};  // as LiveSession, and the next
    std::optional<Additions> additions = {};
    std::vector<std::string> weakened = {};  // by its secrets
  };
  class OnItsWay;
  [[nodiscard]] Result<> hasRoomToMove() const;
  // While the result lives, nothing is started in the session, and the session has a second place.
  std::shared_ptr<void> holdSecondPlace(const SessionPtr& session);
  Task<Result<>> clear(SessionPtr session, bool end_programs, Cause cause);
  // With the workspace, under the agent's present rules. `rules`: in place of the present rules;
  // null: none.
  Task<Result<>> goOnInAnother(SessionPtr session, model::Principal by, model::SessionMove to,
                               const char* why, Held rules = nullptr);
  Task<Result<Moved>> makeAnother(SessionPtr session, const model::SessionMove& to,
                                  const char* why);
  Task<Result<>> carryOver(SessionPtr session, model::Principal principal, Moved moved);
  Task<Result<>> copyWorkspace(SessionPtr session, model::Principal principal, Moved& moved);
  Task<Result<>> recordMove(LiveSession& session, const Moved& moved, const model::Principal& by);
  Task<void> giveUp(std::shared_ptr<runtime::Sandbox> box, std::string id, std::string door);

  // The network of a session's sandbox (session_network.cc).
  struct OpenedDoor {
    std::string permit;  // "" without a plan
    std::optional<Additions> additions;
    std::vector<std::string> weakened;  // by secrets
  };
  Task<Result<OpenedDoor>> openDoor(SessionPtr session, std::optional<model::NetworkPlan> plan);
  // Reads the session's secrets from the ledger, for a sandbox now. Their placeholders stay.
  Result<> loadSecrets(LiveSession& session) const;
  Task<Result<>> recordSecretUse(SessionPtr session);
  Task<std::optional<model::NetworkPlan>> planNow(SessionPtr session);
  void closeDoor(std::string permit) const;

  // Withdraws an agent's lost permissions from its sessions (session_rules.cc).
  void lookAtRules(RulesNow& now) override;
  void lookAtRulesOf(const SessionPtr& session, bool stricter);
  static Result<bool> isTooOpenForVisitors(const LiveSession& session, RulesNow& now);
  Task<void> applyRules(SessionPtr session);
  Task<Result<>> goOnUnderRules(SessionPtr session);
  Task<Result<>> enter(SessionPtr session, Held opened, Held by_rules);

  // The workspace of a session with a program waiting for approval (session_hold.cc).
  struct Holding;
  Task<Result<WorkspacePtr>> readWorkspace(SessionPtr session);
  Task<Result<std::shared_ptr<void>>> holdWorkspace(SessionPtr session,
                                                    std::shared_ptr<Kernel> kernel,
                                                    std::string execution, WorkspacePtr as_asked,
                                                    std::function<void()> lost,
                                                    std::function<bool()> over);
  [[nodiscard]] bool isShared(const LiveSession& session) const;
  Task<Result<>> quiet(SessionPtr session, std::function<bool()> over);
  static std::shared_ptr<void> turnToRead(const SessionPtr& session);
  Task<Result<WorkspacePtr>> readHeld(Holding& holding);
  Task<Result<WorkspacePtr>> stateFrom(FileCall& call) const;
  [[nodiscard]] FileRequest stateRequest(bool hold) const;
  static Task<void> watchHold(std::weak_ptr<Holding> holding, Task<Result<>> end);
  Task<Result<>> stopAll(std::shared_ptr<Holding> holding);
  Task<Result<>> pauseNow(SessionPtr session, model::Principal by);
  Task<Result<>> resumeNow(SessionPtr session, model::Principal by);
  // Pauses the session after each idle time (session_idle.cc).
  Task<void> watchIdle(SessionPtr session);
  // Ends a pause for idleness, before a request of `by`.
  Task<Result<>> wake(SessionPtr session, model::Principal by);

  // Ends sessions without a valid credential.
  void lookAtCredentials(const std::function<bool(const std::string&)>& stands) override;

  // Adds the image's digest to sessions from before the verification (session_image.cc).
  void imageVerified() override;
  Task<void> recordImage(SessionPtr session);

  // Charges the quotas for use beside programs and kernels (session_quota.cc).
  void charge() override;
  void chargeOne(const SessionPtr& session);
  void chargeLast(LiveSession& session) const;

  // The end.
  void beginEnd(const SessionPtr& session, SessionEnd end);
  void beginEnd(const SessionPtr& session, SessionEnd end, const model::Principal& by);
  Task<void> finish(SessionPtr session);
  Task<void> tearDown(LiveSession& session);
  Task<void> emptied(LiveSession& session, base::Monotonic deadline);
  Task<void> recordEnd(LiveSession& session);
  void retire(const SessionPtr& session);
  Task<void> watchLease(SessionPtr session);
  Task<void> watchSandbox(SessionPtr session, std::shared_ptr<runtime::Sandbox> sandbox);
  Result<> settleNow(model::Session session);
  // An admitted request to the session's file server.
  Task<Result<std::shared_ptr<FileCall>>> askFiles(SessionPtr session, model::Principal principal,
                                                   FileRequest request);
  void nodeLost() override;

  // The calls leading to a program (session_calls.cc).
  Result<CallSite> siteOf(const model::Principal& principal, const LiveSession& session,
                          const model::ExecRequest& request) const;
  [[nodiscard]] CallSite siteFromInside(const LiveSession& session) const;
  [[nodiscard]] std::optional<HomeRefusal> tooDeep(const CallSite& site) const;

  // Tool calls from within (session_tools.cc).
  class ToolLine;
  Task<void> serveTools(SessionPtr session);
  static Task<void> pauseTools(SessionPtr session, const runtime::Sandbox* was);
  Task<Result<model::Execution>> exec(model::Principal principal, SessionPtr session,
                                      model::ExecRequest request, std::string idempotency_key);

  // Kernels (session_kernels.cc). Null: no kernel takes the request. Otherwise the request names
  // its kernel.
  Result<std::shared_ptr<Kernel>> toKernel(const SessionPtr& session, model::ExecRequest& request);
  Task<Result<Kernel::Begun>> startKernel(SessionPtr session, std::shared_ptr<Kernel> kernel,
                                          std::function<bool()> over);
  struct KernelStop {
    std::string doing;
    std::string action;  // of the audit row, written first
    std::string why;
  };
  Task<Result<std::shared_ptr<Kernel>>> stopKernel(model::Principal principal, SessionPtr session,
                                                   std::string name, KernelStop how);

  // Names (session_names.cc). Takes the session's name for its agent until the session ends;
  // kConflict for a name in use.
  Result<> holdName(LiveSession& session);
  Result<std::string> idOf(const model::Principal& principal, const std::string& name) const;

  [[nodiscard]] SessionPtr find(const model::Principal& principal, const std::string& id) const;
  Result<SessionPtr> findLive(const model::Principal& principal, const std::string& id,
                              const std::string& doing) const;
  // As find(), and kDenied for another tenant's session; findToUse() also for a viewer.
  Result<SessionPtr> findOwn(const model::Principal& principal, const std::string& id,
                             const std::string& doing) const;
  Result<SessionPtr> findToUse(const model::Principal& principal, const std::string& id,
                               const std::string& doing) const;
  // As findToUse(), for ports: kDenied for another agent with rules.
  Result<SessionPtr> findToConnect(const model::Principal& principal, const std::string& id,
                                   const std::string& doing) const;
  void count() const;

  const std::shared_ptr<Control> control;
  const std::shared_ptr<Programs> runs;
  const std::shared_ptr<Approvals> approvals;
  const AgentGuard* const agents;  // null: agents are held to nothing
  SessionConfig config;
  std::map<std::string, SessionPtr> live;
  std::map<std::string, uint32_t> tenants;                   // sessions of each
  std::map<std::string, std::shared_ptr<SessionLog>> ended;  // kept for late readers
  std::deque<std::string> ended_order;
  std::map<std::string, std::string> names;  // ids of sessions, by agent and name
  bool draining = false;
  HeldLately held_lately;
  // The initial content of a session, by the snapshot that its request names.
  std::function<Task<Result<SessionFill>>(model::Principal, std::string)> fill_from;
};

}  // namespace cloister::orchestrator
