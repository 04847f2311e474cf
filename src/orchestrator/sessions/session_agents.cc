// SPDX-License-Identifier: Apache-2.0
// Sessions, their files, and the sandboxes of agents.
#include <algorithm>
#include <utility>

#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {

Result<AgentJudgement> Sessions::Impl::heldBack(const model::Principal& principal,
                                                model::SessionRequest& request) const {
  if (agents == nullptr) return AgentJudgement{};
  return agents->judgeSession(principal, request.settings, runs->usedBy(&principal).reserved);
}

Task<Result<model::Session>> Sessions::Impl::refuseAgent(SessionPtr session,
                                                         store::NewSession record,
                                                         AgentRefusal refusal) {
  const auto self = shared_from_this();
  refusal.violation.subject = session->record.id;
  const model::Principal by = session->record.principal;
  CO_TRY(co_await control->ledger.write(store::addViolation, std::move(refusal.violation),
                                        agents->lowering(), by));
  co_return co_await refuse(std::move(session), std::move(record), std::move(refusal.denied));
}

// A refused request is recorded only as a violation.
Task<Result<>> Sessions::Impl::mayUseFiles(model::Principal principal, SessionPtr session,
                                           const std::vector<std::string>& argv) {
  const auto self = shared_from_this();
  if (agents == nullptr) co_return Result<>{};
  std::optional<AgentRefusal> refusal =
      CO_TRY(agents->judgeFiles(principal, session->record.principal, argv));
  if (!refusal) co_return Result<>{};
  Error error = toError(*refusal, "using a session's files");
  refusal->violation.subject = session->record.id;
  CO_TRY(co_await control->ledger.write(store::addViolation, std::move(refusal->violation),
                                        agents->lowering(), std::move(principal)));
  co_return std::unexpected(std::move(error));
}

// Files unreadable for the agent are no artifacts of its programs. No violation is recorded,
// because the request names a glob.
Task<Result<std::shared_ptr<FileCall>>> Sessions::Impl::askForArtifact(SessionPtr session,
                                                                       model::Principal principal,
                                                                       FileRequest request) {
  const auto self = shared_from_this();
  // Names alone may always be listed; the check is for reads.
  if (agents != nullptr && request.argv.at(0) == "read") {
    const auto refusal =
        CO_TRY(agents->judgeFiles(principal, session->record.principal, request.argv));
    if (refusal) co_return std::unexpected(toError(*refusal, "collecting artifacts"));
  }
  co_return co_await askFiles(std::move(session), std::move(principal), std::move(request));
}

// A refusal is recorded only in the audit log.
Task<Result<>> Sessions::Impl::mayRun(model::Principal principal, SessionPtr session) {
  const auto self = shared_from_this();
  if (!session->mayVisit(principal)) {
    co_return fail(Code::kConflict, "running in a session: programs of " +
                                        std::to_string(session->visitors.size()) +
                                        " other agents have run in its sandbox "
                                        "(session.max_execs); make a session of your own");
  }
  if (agents == nullptr) co_return Result<>{};
  const auto denied = CO_TRY(agents->tooOpen(principal, session->within()));
  if (!denied) co_return Result<>{};
  CO_TRY(session->admit());  // has its own error for a session that is not ready
  CO_TRY(session->count());  // counts like a refused program
  const std::string doing = "running in a session";
  Error error = toError(*denied, doing);
  control->metrics.denied("exec");
  CO_TRY(co_await control->ledger.write(
      store::appendEvent, {.action = "session.refused",
                           .subject = session->record.id,
                           .principal = std::move(principal),
                           .details = {{"reason", "agent_boundary"},
                                       {"doing", doing},
                                       {"session_agent", session->record.principal.agent}}}));
  co_return std::unexpected(std::move(error));
}

// A program that calls from inside acts in the name of the session's agent. The service cannot tell
// which program calls, or the remains of which ended program. So the service refuses actions
// forbidden to any agent with programs here. The error does not reveal the other agent's rule.
Result<std::optional<HomeRefusal>> Sessions::Impl::beyondVisitors(
    const LiveSession& session, const model::ExecRequest& request) const {
  if (agents == nullptr || !request.from_inside) return std::nullopt;
  for (const auto& [agent, visitor] : session.visitors) {
    auto refusal = TRY(agents->judgeVisitor(visitor, request));
    if (!refusal) continue;
    return HomeRefusal{.denied = {.rule = "",
                                  .reason = "another agent has run programs in this session, and "
                                            "one of them may have made this call, which that "
                                            "agent may not",
                                  .remedy = "call it from a session that no other agent uses"},
                       .details = {{"reason", "agent_boundary"}},
                       .violation = std::move(refusal->violation),
                       .violator = visitor};
  }
  return std::nullopt;
}

// Earlier programs are gone with the old sandbox; admitted programs run in the new sandbox.
void Sessions::Impl::forgetVisitors(LiveSession& session) const {
  const auto is_in = [&](const model::Principal& visitor) {
    const auto programs = runs->programsIn(session.record.id);
    return std::ranges::any_of(programs, [&](const model::Execution* run) {
      const bool waits = run->status == model::Status::kBlocked || model::isTerminal(run->status);
      return !waits && run->principal.sameAgent(visitor);
    });
  };
  std::erase_if(session.visitors, [&](const auto& each) { return !is_in(each.second); });
}

void Sessions::Impl::addUse(const model::Principal* principal, AgentUse& used) const {
  for (const auto& [id, session] : live) {
    const bool waits = session->waits() && !session->taken;
    if (waits || !AgentUse::isOf(session->record.principal, principal)) continue;
    used.add(session->record.limits, session->measured());
  }
}

}  // namespace cloister::orchestrator
