// SPDX-License-Identifier: Apache-2.0
// AgentGuard: holds what is asked of the service to the sandbox of the agent that asks. It reads
// the ledger and decides; it writes nothing, and runs nothing. One thread.
//
// An agent is a principal's tenant and agent. Whoever has no sandbox is held to the default level,
// or to nothing where there is none. What cannot be read is refused.
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
#include "policy/agent/validate.h"
#include "policy/agent/walls.h"
#include "policy/decide.h"
#include "store/agent_store.h"

namespace cloister::orchestrator {

// Why something is not done: for its record, for whoever asked, and for the list of violations.
struct AgentRefusal {
  policy::Denied denied;
  base::json::object details;
  model::Violation violation;  // without `subject`
  // What a person may allow, for once: all that was refused. Empty: something of it nobody may.
  std::vector<model::WantedOperation> wants = {};
  bool needs_person = true;                      // no rule approves all of that
  std::vector<std::string> safe_by = {};         // otherwise: what says that it is safe
  std::optional<uint64_t> timeout_seconds = {};  // for an answer, by the agent's own settings
};

// What of its rules the kernel holds; null: there are none.
using Held = std::shared_ptr<const policy::HeldRules>;

// Of a request that makes a sandbox or runs in one.
struct AgentJudgement {
  std::optional<AgentRefusal> refusal;        // nothing: it may be done,
  Held held;                                  // in a sandbox with these walls,
  std::optional<uint64_t> time_seconds = {};  // for so long at most
  Held by_rules = {};                         // `held`, but for what the run is approved with
};

// The session that something is asked of: who made it, and what its sandbox holds.
struct Within {
  const model::Principal& maker;
  Held held;
};

class AgentGuard {
 public:
  // All of them outlive it. `default_level` is one of `levels`, or "".
  AgentGuard(store::Store& store, const policy::Levels& levels, const model::LanguageSet& languages,
             std::string default_level);

  // Null: held to nothing. With what was approved for a time.
  [[nodiscard]] Result<std::shared_ptr<const policy::AgentRules>> rulesOf(
      const model::Principal& principal) const;
  // The same without that: what another agent's session goes by.
  [[nodiscard]] Result<std::shared_ptr<const policy::AgentRules>> standingRulesOf(
      const model::Principal& principal) const;
  // What was approved for a time for an agent, by escalations that are good now: of the newest
  // hundred. An approval that is taken back, or over, is none from then on.
  [[nodiscard]] Result<std::vector<model::TemporaryPermission>> grantsOf(
      const store::AgentName& agent) const;

  // A run, or a program in a session (otherwise null); `approval` lifts rules for it alone, or
  // null. Its share of a processor, disk and largest file become what the agent may have; more
  // memory or time than that is refused. `used`: by what it has running. In a session that another
  // agent made, the standing rules of both hold, and no approval lifts any.
  Result<AgentJudgement> judgeRun(const model::Principal& principal, model::ExecRequest& request,
                                  const Within* session, const policy::Resources& used,
                                  const model::Escalation* approval = nullptr) const;
  // Why `principal` may run nothing in a session that another agent made: what its own rules keep
  // from a program, the sandbox there does not. Nothing: it may, or is held to no rules.
  [[nodiscard]] Result<std::optional<policy::Denied>> tooOpen(const model::Principal& principal,
                                                              const Within& session) const;
  // A call from inside a session that another agent made, by the standing rules of `visitor` alone,
  // one of whose programs may have made it. Nothing: they allow it.
  [[nodiscard]] Result<std::optional<AgentRefusal>> judgeVisitor(
      const model::Principal& visitor, const model::ExecRequest& request) const;
  // A session as it is asked for.
  Result<AgentJudgement> judgeSession(const model::Principal& principal,
                                      model::RunRequest& settings,
                                      const policy::Resources& used) const;
  // A request to a session's file server, in the words of wire/files.h. Nothing: it may be done.
  // In a session that another agent made as judgeRun().
  [[nodiscard]] Result<std::optional<AgentRefusal>> judgeFiles(
      const model::Principal& principal, const model::Principal& maker,
      const std::vector<std::string>& argv) const;
  // Why a rule may approve what the agent asks for (model::operation) without a person: it is set
  // to, nothing wants a person, and it is allowed anyway or safe. "": it takes a person. Nothing:
  // held to no rules.
  [[nodiscard]] Result<std::optional<std::string>> needsNobody(const model::Principal& principal,
                                                               const std::string& operation,
                                                               const std::string& subject) const;
  // As it would be for a request now; and by its standing rules.
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
  Result<> addPolicy(const model::Principal& principal, policy::AgentRules& rules) const;

  store::Store& store_;
  const policy::Levels& levels_;
  const model::LanguageSet& languages_;
  std::string default_level_;
  std::vector<store::Lowering> lowering_;
};

// Whether a sandbox with `has` lets its programs do what one with `rules` does not; null: it was
// made without rules.
bool letsMore(const Held& has, const policy::HeldRules& rules);

// Of an approval by a rule: what of the table of safe operations has it.
std::string safeReason(const std::vector<std::string>& safe_by);

// An error for who asked for something that has no record of its own.
Error toError(const AgentRefusal& refusal, const std::string& doing);
Error toError(const policy::Denied& denied, const std::string& doing);

}  // namespace cloister::orchestrator
