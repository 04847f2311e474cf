// SPDX-License-Identifier: Apache-2.0
// Sessions that need approval: blocked without a sandbox, a place or a part of the quotas, and made
// after the approval. As with runs (blocking.cc) the escalation in the ledger is the truth. Alike
// requests of an agent wait for one escalation: the first session to continue uses the approval for
// all.
#include <algorithm>
#include <utility>

#include "async/awaiting.h"
#include "async/spawn.h"
#include "base/log.h"
#include "model/record_times.h"
#include "orchestrator/core/stored_request.h"
#include "orchestrator/core/toolchain.h"
#include "orchestrator/sessions/sessions_impl.h"
#include "policy/approval.h"
#include "store/rows/escalation_rows.h"

namespace cloister::orchestrator {
namespace {

using model::Escalation;
using model::EscalationStatus;
using model::Session;
using model::SessionStatus;

constexpr Millis kLookAgain{500};  // for room

bool isPassing(const Error& error) {
  return (error.code == Code::kQuota && !error.lasting) || error.code == Code::kUnavailable;
}

model::RunError refusedError(const Error& why, const std::string& escalation) {
  model::RunError error{std::string(model::error_type::kApprovalRequired), why.message, {}, false};
  error.details["escalation_id"] = escalation;
  if (!why.field.empty()) error.details["reason"] = why.field;
  return error;
}

}  // namespace

// The approval counts while its approvers are still the approvers named by policy. For the
// sandbox's other needs, kernels and files, the approval counts if the same rule wants an approval.
Permits::Approval Sessions::Impl::approvalOf(const LiveSession& session, bool of_itself) {
  return [&session, of_itself](const policy::NeedsApproval* wanted) {
    if (wanted == nullptr || !session.approval) return false;
    const bool other = !of_itself && wanted->rule != session.approval->rule;
    return !other && policy::satisfies(*session.approval, *wanted);
  };
}

std::string Sessions::Impl::imageDigestOf(const LiveSession& session) const {
  const model::OfferedImage* image = control->permits.image(session.ruling, subjectOf(session));
  return image == nullptr ? control->nodes.imageName() : image->digest;
}

Task<Result<Session>> Sessions::Impl::askApproval(SessionPtr session, store::NewSession record,
                                                  policy::NeedsApproval wanted) {
  const auto self = shared_from_this();
  record.session = session->record;
  auto asks = co_await approvals->beginAsking(session->record.principal);
  if (const auto asked = wantApproval(*session, record, wanted); !asked) {
    if (asked.error().field != kPendingOfAgent) {
      co_return co_await earlierOr(std::move(record), asked.error());
    }
    policy::Denied denied{
        .rule = wanted.rule,
        .reason = "it needs approval: " + wanted.reason + "; " + asked.error().message,
        .remedy = "",
        .for_approval = true};
    co_return co_await refuse(std::move(session), std::move(record), std::move(denied));
  }
  model::AuditEvent event =
      withRuling(createdEvent(record.session, base::sha256Hex(record.request_json), wanted.rule),
                 session->ruling);
  const auto created = CO_TRY(
      co_await control->ledger.write(store::createSession, std::move(record), std::move(event)));
  if (created.replayed) co_return co_await replayed(created.session);
  session->record = created.session;
  session->fill = {};  // obtained again after the approval
  hold(session);
  asks.reset();
  approvals->announce();
  // The shared escalation may have been decided meanwhile.
  if (const auto e = escalationOf(*session)) settleOne(session, *e);
  co_return session->now();
}

Result<> Sessions::Impl::wantApproval(LiveSession& session, store::NewSession& record,
                                      const policy::NeedsApproval& wanted) const {
  const auto waiting =
      std::ranges::count_if(live, [](const auto& each) { return each.second->waits(); });
  if (std::cmp_greater_equal(waiting, config.max)) {
    return fail(Code::kQuota, "asking for approval: " + std::to_string(config.max) +
                                  " sessions wait for one already (session.max)");
  }
  const std::string& tenant = session.record.principal.tenant;
  const auto its = std::ranges::count_if(live, [&](const auto& each) {
    return each.second->waits() && each.second->record.principal.tenant == tenant;
  });
  if (std::cmp_greater_equal(its, config.max_per_tenant)) {
    return fail(Code::kQuota, "asking for approval: " + std::to_string(config.max_per_tenant) +
                                  " sessions of this tenant wait for one already "
                                  "(session.max_per_tenant)");
  }
  TRY(runs->checkDisk(session.record.limits));
  const std::string image = imageDigestOf(session);
  if (!control->nodes.connected() || image.empty()) {
    return fail(Code::kUnavailable,
                "asking for approval: no node has said which image it has; try again");
  }
  const model::Principal& by = session.record.principal;
  Bound bound = TRY(boundOfSession(record.request_json));
  bound.secrets = secretVersions(control->store, by.tenant, session.request.secrets);
  std::string digest = digestOf(bound, image);
  const std::string person = TRY(personOf(control->store, by));
  const auto alike = TRY(approvals->waitingLike(
      {.by = by, .person = person, .operation = model::operation::kSession, .digest = digest}));
  Session& made = session.record;
  made.status = SessionStatus::kBlocked;
  made.expires_at = 0;
  made.error = approvalError(wanted, "it is made once it is approved");
  if (alike) {
    made.error->details["escalation_id"] = alike->id;
    made.error->message += " (" + alike->id + ")";
  } else {
    const Wanted asked{.requester = by,
                       .person = person,
                       .by_policy = wanted,
                       .execution_id = "",
                       .session_id = made.id,
                       .lifts = {},
                       .channels = channelsFor(control->store, by, approvals->escalationConfig()),
                       .now = base::wallMicros()};
    record.escalation = escalationForSession(asked, std::move(digest), record.request_json, image,
                                             approvals->escalationConfig());
  }
  record.session = made;
  return {};
}

// The escalation as this session's own, whichever sharing session was the first.
Result<Escalation> Sessions::Impl::escalationOf(const LiveSession& session) const {
  const std::string& tenant = session.record.principal.tenant;
  Escalation e =
      TRY(control->store.escalations().get(store::Scope::ofTenant(tenant), session.escalation));
  e.session_id = session.record.id;
  return e;
}

void Sessions::Impl::hold(const SessionPtr& session) {
  const auto& details = session->record.error->details;
  const base::json::value* id = details.if_contains("escalation_id");
  if (id != nullptr && id->is_string()) session->escalation = std::string(id->get_string());
  session->begun = true;  // its end waits for nothing
  live[session->record.id] = session;
  session->log->publish(session->now());
  count();
}

// After a restart, with the accepted request.
Result<> Sessions::Impl::holdAgain(const Session& stored) {
  store::PendingSession pending =
      TRY(control->store.pendingSession(store::Scope::of(stored.principal), stored.id));
  base::json::object body = TRY(parseStored(pending.request_json));
  model::SessionRequest request = TRY(model::parseStoredSession(std::move(body), storedBounds()));
  // The limits from the acceptance: a later document denies larger limits, but lowers none.
  request.settings.limits = stored.limits;
  request.settings.named_limits.set();
  store::NewSession unused;
  const SessionPtr session = TRY(prepare(stored.principal, std::move(request), unused));
  session->record = std::move(pending.session);
  session->clock = base::RecordClock(model::latestTime(session->record));
  TRY(holdName(*session));
  hold(session);
  return {};
}

// Reports an escalation's end to the waiting sessions.
void Sessions::Impl::settle(const Escalation& e) {
  const auto sessions = live;
  for (const auto& [id, session] : sessions) {
    const bool its =
        session->escalation == e.id && session->record.principal.tenant == e.requester.tenant;
    if (its && session->waits()) settleOne(session, e);
  }
}

void Sessions::Impl::settleOne(const SessionPtr& session, const Escalation& e) {
  if (e.status == EscalationStatus::kPending || session->ending || draining) return;
  // A sharing session continues though another session has used the approval.
  if (e.status == EscalationStatus::kApproved || e.status == EscalationStatus::kUsed) {
    if (!std::exchange(session->goes_on, true)) async::spawn(control->executor, resume(session));
  } else {
    beginEnd(session, endByApproval(notApprovedFor(control->store, session->record.principal, e)));
  }
}

void Sessions::Impl::settleWaiting() {
  const auto sessions = live;
  for (const auto& [id, session] : sessions) {
    if (!session->waits()) continue;
    const auto e = escalationOf(*session);
    if (e) {
      settleOne(session, *e);
    } else if (e.error().code == Code::kNotFound) {
      beginEnd(session, endByFault(e.error()));
    }
  }
}

std::vector<model::Principal> Sessions::Impl::waitingFor(const Escalation& e) const {
  std::vector<model::Principal> who;
  for (const auto& [id, session] : live) {
    const model::Principal& asker = session->record.principal;
    if (session->waits() && !session->ending && session->escalation == e.id &&
        asker.tenant == e.requester.tenant)
      who.push_back(asker);
  }
  return who;
}

Task<void> Sessions::Impl::resume(SessionPtr session) {
  const auto self = shared_from_this();
  const auto done = co_await goOn(session);
  session->goes_on = false;
  if (session->ending) co_return;
  if (!done) {
    const bool refused = done.error().code == Code::kDenied || done.error().code == Code::kConflict;
    co_return beginEnd(session, refused
                                    ? endByApproval(refusedError(done.error(), session->escalation))
                                    : endByFault(done.error()));
  }
  if (session->waits()) {  // the service stops, or the escalation needs other votes
    if (std::exchange(session->taken, false)) give(session);
    const auto e = escalationOf(*session);
    if (e && !draining && e->status != EscalationStatus::kPending) settleOne(session, *e);
    co_return;
  }
  session->begun = false;
  async::spawn(control->executor, begin(session));
  if (draining) beginEnd(session, endOfService());
}

Task<Result<>> Sessions::Impl::goOn(SessionPtr session) {
  const auto over = [&] { return session->ending || draining; };
  CO_TRY(co_await waitForRoom(session));
  if (over()) co_return Result<>{};
  Escalation e = CO_TRY(escalationOf(*session));
  e = CO_TRY(co_await approvals->withStandingVotes(std::move(e)));
  if (over() || e.status == EscalationStatus::kPending) co_return Result<>{};
  if (auto approved = co_await approve(*session); !approved) {
    session->approval.reset();
    co_return approved;
  }
  if (over()) co_return Result<>{};
  if (const std::string& from = session->record.from_snapshot; !from.empty()) {
    if (!fill_from) co_return fail(Code::kUnsupported, "making a session: no snapshots are kept");
    session->fill = CO_TRY(co_await fill_from(session->record.principal, from));
  }
  if (over()) co_return Result<>{};
  co_return co_await recordGoingOn(session);
}

// Waits for room, like other sessions.
Task<Result<>> Sessions::Impl::waitForRoom(SessionPtr session) {
  const Escalation e = CO_TRY(escalationOf(*session));
  while (!session->ending && !draining) {
    auto taken = take(session);
    if (taken || !isPassing(taken.error())) co_return taken;
    if (base::wallMicros() >= e.grant_expires_at) {
      co_return fail(
          Code::kConflict,
          "the time of " + e.id + " was over before there was room: " + taken.error().message,
          std::string(policy::approval::kExpired));
    }
    co_await control->changed.wait(base::monotonicNow() + kLookAgain);
  }
  co_return Result<>{};
}

Result<policy::Use> Sessions::Impl::useOf(const LiveSession& session) const {
  const Session& record = session.record;
  const store::PendingSession pending =
      TRY(control->store.pendingSession(store::Scope::of(record.principal), record.id));
  Bound bound = TRY(boundOfSession(pending.request_json));
  bound.secrets = secretVersions(control->store, record.principal.tenant, session.request.secrets);
  const std::string image = imageDigestOf(session);
  policy::Use use{.by = record.principal,
                  .execution_id = "",
                  .session_id = record.id,
                  .digest = digestOf(bound, image),
                  .now = base::wallMicros(),
                  .operation = model::operation::kSession};
  const auto& host = control->nodes.image();
  if (host && !image.empty() && image == host->digest) {
    use.unverified_digest = digestOf(bound, unverifiedName(*host));
    use.same_since = host->changed_at + host->clock_ahead;
  }
  return use;
}

// Policy and the rules of its agent are asked again, and the approval is spent.
Task<Result<>> Sessions::Impl::approve(LiveSession& session) {
  CO_TRY(requesterStands(control->store, session.record.principal));
  co_await consult(session);
  Escalation e = CO_TRY(escalationOf(session));
  CO_TRY(strikeRevoked(control->store, e));
  const bool used = e.status == EscalationStatus::kUsed;  // by an alike session
  if (used) e.status = EscalationStatus::kApproved;
  const policy::Use use = CO_TRY(useOf(session));
  CO_TRY(policy::use(e, use));
  session.approval = e;
  const policy::Decision decision =
      control->permits.judge(session.ruling, subjectOf(session), approvalOf(session, true));
  if (const auto denied = policy::refusalOf(decision)) {
    co_return fail(Code::kDenied, denied->reason);
  }
  CO_TRY(checkToolchain(control->nodes.offer(), session.record.language,
                        std::get<model::Permit>(decision).fields()));
  CO_TRY(co_await holdToRules(session));
  if (used) co_return Result<>{};
  const store::EscalationChange change{.tenant = e.requester.tenant,
                                       .id = e.id,
                                       .apply = [use](Escalation& is) -> Result<model::AuditEvent> {
                                         if (is.status != EscalationStatus::kUsed)
                                           is.session_id = use.session_id;
                                         TRY(policy::use(is, use));
                                         return usedEvent(is);
                                       },
                                       .channels = {},
                                       .notification = ""};
  const auto spent = co_await control->insist(session.record.id, [&]() -> Task<Result<>> {
    const auto done = co_await Ledger(control->store).write(store::changeEscalation, change);
    if (!done) co_return std::unexpected(done.error());
    co_return Result<>{};
  });
  const bool by_alike = !spent && spent.error().field == policy::approval::kUsed;
  co_return by_alike ? Result<>{} : spent;
}

Task<Result<>> Sessions::Impl::holdToRules(LiveSession& session) {
  model::SessionRequest request;
  request.settings = session.request;
  if (agents == nullptr) co_return Result<>{};
  const model::Principal& by = session.record.principal;
  policy::Resources used = runs->usedBy(&by).reserved;
  const model::Limits& own = session.record.limits;  // has its place: count the session only once
  used.memory_bytes -= std::min(used.memory_bytes, own.memory_bytes);
  used.cpu_millis -= std::min(used.cpu_millis, own.cpu_millis);
  used.running -= std::min(used.running, 1U);
  AgentJudgement judged = CO_TRY(agents->judgeSession(by, request.settings, used));
  session.held = std::move(judged.held);
  if (judged.refusal) {
    const std::string reason = judged.refusal->denied.reason;
    judged.refusal->violation.subject = session.record.id;
    CO_TRY(co_await control->ledger.write(store::addViolation, std::move(judged.refusal->violation),
                                          agents->lowering(), session.record.principal));
    co_return fail(Code::kDenied, reason);
  }
  if (request.settings.limits != session.request.limits) {
    co_return fail(Code::kDenied, "the agent may have less of this machine now than was approved");
  }
  if (request.settings.nested == session.request.nested) co_return Result<>{};
  co_return fail(Code::kDenied,
                 "sessions of the agent are nested now, and this was not approved so");
}

// From here on the session is made like any other.
Task<Result<>> Sessions::Impl::recordGoingOn(SessionPtr session) {
  session->lease.begin(base::monotonicNow());  // and once more when its sandbox is there
  Session next = session->record;
  next.status = SessionStatus::kCreating;
  next.error.reset();
  next.provenance.approval = session->escalation;
  next.expires_at = session->clock.at(session->lease.deadline());
  const model::AuditEvent event =
      withRuling(resumedEvent(next, session->escalation), session->ruling);
  CO_TRY(co_await control->insist(
      next.id, [&] { return control->ledger.write(store::updateSession, next, event); }));
  if (session->ending) co_return Result<>{};
  session->record = std::move(next);
  session->accepted_at = base::monotonicNow();
  session->log->publish(session->now());
  count();
  co_return Result<>{};
}

// Closes the escalation after its last waiting session: a decision would have no use.
Task<void> Sessions::Impl::withdraw(SessionPtr session) {
  const auto self = shared_from_this();
  if (session->escalation.empty() || session->approval) co_return;
  const auto e = escalationOf(*session);
  const std::string why = session->record.end ? "the session ended: " + session->record.end->message
                                              : "the session ended";
  if (e && approvals->waitingFor(*e) == 0) co_await approvals->closeEscalation(*e, why);
}

}  // namespace cloister::orchestrator
