// SPDX-License-Identifier: Apache-2.0
// AgentGuard: checks requests against the sandbox of the requesting agent. The guard reads the
// ledger and decides; the guard writes nothing and runs nothing. One thread.
//
// An agent is a principal's tenant and agent. An agent without a sandbox has the default level, or
// no rules if there is no default. Unreadable rules refuse the request.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/agent_sandbox.h"
#include "model/escalation.h"
#include "model/language.h"
#include "model/principal.h"
#include "model/session.h"
#include "policy/agent/network.h"
#include "policy/agent/validate.h"
#include "policy/agent/walls.h"
#include "policy/decide.h"
#include "store/agent_store.h"

namespace cloister::orchestrator {

// The reason of a refusal: for the record, for the requester, and for the list of violations.
struct AgentRefusal {
  policy::Denied denied;
  base::json::object details;
  model::Violation violation;  // without `subject`
  // All refused operations that a person may allow once. Empty: some operation is beyond approval.
  std::vector<model::WantedOperation> wants = {};
  bool needs_person = true;                      // no rule approves all operations
  std::vector<std::string> safe_by = {};         // otherwise: the proofs of safety
  std::optional<uint64_t> timeout_seconds = {};  // for an answer, by the agent's own settings
};

// The part of the rules enforced by the kernel; null: no rules.
using Held = std::shared_ptr<const policy::HeldRules>;

// The judgement of a request that makes a sandbox or runs in a sandbox.
struct AgentJudgement {
  std::optional<AgentRefusal> refusal;        // nothing: the request may run,
  Held held;                                  // in a sandbox with these rules,
  std::optional<uint64_t> time_seconds = {};  // for so long at most
  Held by_rules = {};                         // `held` without the run's own approvals
};

// The session of a request: its maker, and the rules enforced in its sandbox.
struct Within {
  const model::Principal& maker;
  Held held;
};

class AgentGuard {
 public:
  // All arguments outlive the guard. `default_level` is in `levels`, or "".
  AgentGuard(store::Store& store, const policy::Levels& levels, const model::LanguageSet& languages,
             std::string default_level);

  // The level of agents without a sandbox; "" for none.
  [[nodiscard]] const std::string& defaultLevel() const { return default_level_; }
  // The rules with temporary approvals; null: no rules.
  [[nodiscard]] Result<std::shared_ptr<const policy::AgentRules>> rulesOf(
      const model::Principal& principal) const;
  // The rules without temporary approvals: these hold in another agent's session.
  [[nodiscard]] Result<std::shared_ptr<const policy::AgentRules>> standingRulesOf(
      const model::Principal& principal) const;
  // The temporary permissions of an agent, from escalations valid now, at most the newest hundred.
  // A revoked or expired approval no longer counts.
  [[nodiscard]] Result<std::vector<model::TemporaryPermission>> grantsOf(
      const store::AgentName& agent) const;

  // Judges a run, or a program in `session`, unless null; `approval` lifts rules for the run alone,
  // or is null. The request's shares of processor, disk and largest file are lowered to the
  // agent's; a request for more memory or time is refused. `used`: by the agent's running
  // executions. In another agent's session the standing rules of both hold, and no approval lifts
  // any.
  Result<AgentJudgement> judgeRun(const model::Principal& principal, model::ExecRequest& request,
                                  const Within* session, const policy::Resources& used,
                                  const model::Escalation* approval = nullptr) const;
  // The reason why `principal` may run nothing in another agent's session: its own rules deny
  // programs an action that the sandbox there permits. Nothing: allowed, or without rules.
  [[nodiscard]] Result<std::optional<policy::Denied>> tooOpen(const model::Principal& principal,
                                                              const Within& session) const;
  // Judges a call from inside another agent's session by the standing rules of `visitor` alone,
  // because a visitor's program may have made the call. Nothing: allowed.
  [[nodiscard]] Result<std::optional<AgentRefusal>> judgeVisitor(
      const model::Principal& visitor, const model::ExecRequest& request) const;
  // The rules that the agent would have with `sandbox` in place of its own, with its temporary
  // approvals.
  [[nodiscard]] Result<std::shared_ptr<const policy::AgentRules>> rulesWith(
      const model::AgentSandbox& sandbox) const;
  // Those without temporary approvals.
  [[nodiscard]] Result<policy::AgentRules> standingRulesWith(
      const model::AgentSandbox& sandbox) const;
  // Judges a run, or a program in a session of the same agent, as judgeRun() does, by `rules`;
  // null: none. Of the agent's other executions nothing counts. Reads only the ledger, from any
  // thread.
  Result<AgentJudgement> judgeBy(const std::shared_ptr<const policy::AgentRules>& rules,
                                 const model::Principal& principal, model::ExecRequest& request,
                                 bool in_session) const;
  // Judges the creation of a session.
  Result<AgentJudgement> judgeSession(const model::Principal& principal,
                                      model::RunRequest& settings,
                                      const policy::Resources& used) const;
  // Judges a request to a session's file server, in the words of wire/files.h. Nothing: allowed. In
  // another agent's session the rules of both hold, as in judgeRun().
  [[nodiscard]] Result<std::optional<AgentRefusal>> judgeFiles(
      const model::Principal& principal, const model::Principal& maker,
      const std::vector<std::string>& argv) const;
  // The reason why a rule may approve the agent's request (model::operation) without a person:
  // auto-approval is on, no setting demands a person, and the operation is allowed anyway or safe.
  // "": a person must decide. Nothing: the agent has no rules.
  [[nodiscard]] Result<std::optional<std::string>> needsNobody(const model::Principal& principal,
                                                               const std::string& operation,
                                                               const std::string& subject) const;
  // The enforced rules for a new request; and by the standing rules.
  [[nodiscard]] Result<Held> heldFor(const model::Principal& principal) const;
  [[nodiscard]] Result<Held> standingFor(const model::Principal& principal) const;

  // By the document of levels, for the ledger.
  [[nodiscard]] const std::vector<store::Lowering>& lowering() const { return lowering_; }
  [[nodiscard]] const policy::Levels& levels() const { return levels_; }

 private:
  [[nodiscard]] Result<std::optional<policy::AgentRules>> ownRules(
      const model::Principal& principal) const;
  [[nodiscard]] std::optional<AgentRefusal> refusalBy(const policy::AgentRules& rules,
                                                      const model::Principal& principal,
                                                      const model::ExecRequest& request,
                                                      const model::Limits& limits, bool in_session,
                                                      const policy::Resources& used) const;
  Result<AgentJudgement> judgeVisit(const model::Principal& principal, model::ExecRequest& request,
                                    const Within& session, const policy::Resources& used) const;
  [[nodiscard]] Result<Held> approvedFor(const model::Principal& principal) const;
  [[nodiscard]] Result<AgentJudgement> judgeWithoutRules(const model::Principal& principal,
                                                         const model::NetworkRequest& network,
                                                         bool in_session) const;
  [[nodiscard]] Result<policy::AgentRules> rulesFrom(const model::Principal& principal,
                                                     const model::AgentSandbox& sandbox) const;
  [[nodiscard]] Result<std::shared_ptr<const policy::AgentRules>> withGrants(
      const model::Principal& principal, policy::AgentRules rules) const;
  Result<> addPolicy(const model::Principal& principal, policy::AgentRules& rules) const;

  store::Store& store_;
  const policy::Levels& levels_;
  const model::LanguageSet& languages_;
  std::string default_level_;
  std::vector<store::Lowering> lowering_;
};

// Whether a sandbox with `has` permits programs an action that `rules` deny; null: the sandbox was
// made without rules. `network_tier`: of a door that follows the rules of others alone; a door that
// follows `rules` too changes by itself, and is "none" here.
bool letsMore(const Held& has, const policy::HeldRules& rules,
              std::string_view network_tier = "none");

// The reason for an approval by a rule: the matching entries of the table of safe operations.
std::string safeReason(const std::vector<std::string>& safe_by);

// The error for a requester without a record of its own.
Error toError(const AgentRefusal& refusal, const std::string& doing);
Error toError(const policy::Denied& denied, const std::string& doing);

}  // namespace cloister::orchestrator
