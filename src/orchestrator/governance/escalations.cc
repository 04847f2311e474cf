// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/governance/escalations.h"

#include <algorithm>
#include <utility>

#include "async/awaiting.h"
#include "async/spawn.h"
#include "base/log.h"
#include "orchestrator/core/stored_request.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/guard/votes.h"
#include "orchestrator/runs/approvals.h"
#include "policy/agent/file_grant.h"
#include "policy/agent/network.h"
#include "policy/agent/validate.h"
#include "policy/approval.h"
#include "store/rows/escalation_rows.h"

namespace cloister::orchestrator {
namespace {

using model::Escalation;
using model::EscalationStatus;
using model::Principal;

constexpr Millis kTick{500};  // longest delay of an end
constexpr uint32_t kBatch = 100;
constexpr size_t kMostShown = 8192;  // bytes of a subject

bool isOfFiles(std::string_view operation) {
  namespace asked = model::operation;
  return operation == asked::kFileRead || operation == asked::kFileWrite ||
         operation == asked::kFileDelete;
}

// Whose: an administrator's choice, everyone else's own.
store::Scope scopeOf(const Principal& who, const std::string& tenant) {
  if (!who.isAdmin() || tenant.empty()) return store::Scope::of(who);
  return store::Scope::ofTenant(tenant);
}

// The digest of the image `name`; without a name, `host`, the digest of the node's own image.
Result<std::string> digestOfImage(const model::NodeOffer& offer, const std::string& host,
                                  const std::string& name) {
  if (name.empty() || name == model::kHostImage) {
    if (!host.empty()) return host;
    return fail(Code::kUnavailable,
                "asking for approval: the node has not said yet which image it has; try again");
  }
  const auto found = std::ranges::find(offer.images, name, &model::OfferedImage::name);
  if (found != offer.images.end()) return found->digest;
  return fail(Code::kInvalid, "image: \"" + name + "\" is not on this node", "image");
}

bool isSelf(const Principal& who, const std::string& name) {
  return name == who.user || name == who.agent || name == who.key_id;
}

// "security-lead's (key_…)".
std::string credentialName(const Principal& who) {
  const std::string& name = who.user.empty() ? who.agent : who.user;
  return name.empty() ? who.key_id : model::safeText(name, 200) + "'s (" + who.key_id + ")";
}

}  // namespace

struct EscalationService::Impl final : Approvals::Watcher,
                                       Nodes::Watcher,
                                       std::enable_shared_from_this<EscalationService::Impl> {
  Impl(std::shared_ptr<Control> shared, std::shared_ptr<Approvals> with, const AgentGuard* guard)
      : control(std::move(shared)),
        approvals(std::move(with)),
        agents(guard),
        changed(control->executor) {}

  void escalated() override {
    if (news) news();
  }
  void nodeCame() override {
    look_again = true;
    changed.notify();
  }
  Result<Escalation> drawUp(const Principal& principal, const model::EscalationRequest& request,
                            std::string& request_json);
  Result<std::string> bindRun(const base::json::object& run, Escalation& e);
  Task<void> nameApprovers(Principal principal, model::RunRequest run, Escalation& e);
  [[nodiscard]] Result<> nameFiles(Escalation& e, const policy::AgentRules* rules) const;
  [[nodiscard]] Result<> opensStill(const Escalation& e, const policy::Ballot& ballot) const;
  [[nodiscard]] Result<> isOfUse(const Escalation& e, const policy::Ballot& ballot) const;
  Task<Result<>> mayCount(const Escalation& e, const policy::Ballot& ballot);
  std::string safeBecause(const Escalation& e);
  [[nodiscard]] std::shared_ptr<const policy::AgentRules> rulesOf(const Principal& principal) const;
  [[nodiscard]] bool mayStillRead(const Escalation& e) const;
  Task<Result<Escalation>> change(store::EscalationChange what);
  [[nodiscard]] Result<Escalation> find(const Principal& who, const std::string& tenant,
                                        const std::string& id) const;
  [[nodiscard]] Result<> bringUpToNow(Escalation& e) const;
  [[nodiscard]] store::EscalationChange changeOf(const Escalation& e) const;
  Task<void> keepTime();
  Task<bool> expireOne(Escalation e);
  [[nodiscard]] store::Escalations& ledger() const { return control->store.escalations(); }
  [[nodiscard]] const EscalationConfig& config() const { return approvals->escalationConfig(); }

  const std::shared_ptr<Control> control;
  const std::shared_ptr<Approvals> approvals;
  const AgentGuard* const agents;  // null: agents are held to nothing
  async::Signal changed;
  bool stopped = false;
  bool look_again = true;  // at all blocked executions: after a start, or a node's return
  std::function<void()> news;
};

EscalationService::EscalationService(std::shared_ptr<Control> control,
                                     std::shared_ptr<Approvals> approvals, const AgentGuard* agents)
    : impl_(std::make_shared<Impl>(std::move(control), std::move(approvals), agents)) {
  impl_->approvals->watch(impl_);
  impl_->control->nodes.watch(impl_);
  async::spawn(impl_->control->executor, impl_->keepTime());
}

EscalationService::~EscalationService() {
  impl_->stopped = true;
  impl_->news = nullptr;
  impl_->changed.notify();
}

void EscalationService::onNews(std::function<void()> news) {
  impl_->news = std::move(news);
}

// Binds a run requested by hand in the way of a run stopped by policy. Gives the request in its
// stored form.
Result<std::string> EscalationService::Impl::bindRun(const base::json::object& body,
                                                     Escalation& e) {
  if (!control->nodes.connected()) {
    return fail(Code::kUnavailable,
                "asking for approval: no node is connected, so what would run is not known");
  }
  model::RunRequest run = TRY(model::parseRunRequest(body, storedBounds()));
  run.approval.clear();
  model::settle(run.limits);
  std::string json = base::toJson(model::toJsonObject(run));
  Bound bound = TRY(boundOf(json, "", control->languages));
  bound.secrets = secretVersions(control->store, e.requester.tenant, run.secrets);
  const std::string image =
      TRY(digestOfImage(control->nodes.offer(), control->nodes.imageName(), run.image));
  e.digest = digestOf(bound, image);
  e.subject = subjectOf(json);
  e.display = displayOf(json, image, "");
  e.request_sha256 = base::sha256Hex(json);
  return json;
}

// Copies the approvers of the rule that would stop the run now: votes of others would be in vain.
Task<void> EscalationService::Impl::nameApprovers(Principal principal, model::RunRequest run,
                                                  Escalation& e) {
  const auto wanted = co_await approvals->wantedNow(std::move(principal), std::move(run));
  if (wanted) {
    e.roles = wanted->approver_roles;
    e.quorum = wanted->quorum;
  }
}

Result<Escalation> EscalationService::Impl::drawUp(const Principal& principal,
                                                   const model::EscalationRequest& request,
                                                   std::string& request_json) {
  Escalation e;
  e.operation = request.operation;
  e.subject = request.subject;
  e.reason = request.reason;
  e.requester = principal;
  e.requester_person = TRY(personOf(control->store, principal));
  e.roles = config().roles;
  e.grant_us = config().grant_us;
  e.created_at = base::wallMicros();
  e.expires_at = e.created_at + config().ttl_us;
  const auto rules = rulesOf(principal);
  if (rules && rules->timeout_seconds) {
    e.expires_at = e.created_at + static_cast<int64_t>(*rules->timeout_seconds) * 1'000'000;
  }
  if (request.run) {
    auto bound = bindRun(*request.run, e);
    if (!bound && !bound.error().field.empty()) {
      bound.error().field.insert(0, "request.");
    }
    request_json = TRY(std::move(bound));
  } else if (isOfFiles(e.operation)) {
    TRY(nameFiles(e, rules.get()));
  } else {
    if (e.operation == model::operation::kNetwork)
      TRY(policy::opensDestination(rules.get(), e.subject));
    e.display = e.operation + " " + model::markedText(e.subject, kMostShown);
  }
  return e;
}

// Replaces the requested path by the pattern that an approval would open, and shows approvers the
// effect.
Result<> EscalationService::Impl::nameFiles(Escalation& e, const policy::AgentRules* rules) const {
  e.subject = TRY(policy::grantPattern(e.subject));
  TRY(rules != nullptr ? policy::opensFor(*rules, e.operation, e.subject)
                       : policy::opensAtAll(e.operation, e.subject));
  e.display = e.operation + " " + model::markedText(e.subject, kMostShown) + "\n" +
              policy::openedBy(rules, e.operation, e.subject);
  return {};
}

// Rules may have changed since the request. A vote that does not count has an error of its own.
Result<> EscalationService::Impl::opensStill(const Escalation& e,
                                             const policy::Ballot& ballot) const {
  Escalation now = e;
  if (!isOfFiles(e.operation) || !ballot.approve || !policy::vote(now, ballot)) return {};
  const auto rules = rulesOf(e.requester);
  const auto opens = nameFiles(now, rules.get());
  if (opens) return {};
  return fail(Code::kConflict, "deciding on " + e.id + ": " + opens.error().message +
                                   "; deny it, so that it is asked for anew");
}

// kDenied: none of the requesters waiting for the approval may continue.
Result<> EscalationService::Impl::isOfUse(const Escalation& e, const policy::Ballot& ballot) const {
  Escalation now = e;
  if (!ballot.approve || !policy::vote(now, ballot)) return {};
  return approvals->someoneStands(e);
}

// An approval without effect is refused, with its row in the log. If no requester can ever use the
// approval, the escalation is denied as well.
Task<Result<>> EscalationService::Impl::mayCount(const Escalation& e,
                                                 const policy::Ballot& ballot) {
  auto counts = opensStill(e, ballot);
  std::string denied;
  if (counts) {
    counts = isOfUse(e, ballot);
    if (counts || counts.error().code != Code::kDenied) co_return counts;
    denied = counts.error().message;
    counts = fail(Code::kConflict, "deciding on " + e.id + ": " + denied);
  }
  std::ignore = co_await control->ledger.write(
      store::appendEvent, refusedVoteEvent(e, ballot.by, ballot.approve, counts.error().message));
  if (!denied.empty()) co_await approvals->denyForEffect(e, denied);
  co_return counts;
}

// Null: the agent has no rules, or the rules are unreadable.
std::shared_ptr<const policy::AgentRules> EscalationService::Impl::rulesOf(
    const Principal& principal) const {
  if (agents == nullptr) return nullptr;
  return agents->rulesOf(principal).value_or(nullptr);
}

// Whether `fallback_action: allow_read_only` permits reading the file after an unanswered request.
bool EscalationService::Impl::mayStillRead(const Escalation& e) const {
  if (!isOfFiles(e.operation) || e.status != EscalationStatus::kPending) return false;
  const auto rules = rulesOf(e.requester);
  if (!rules || rules->fallback_action != "allow_read_only") return false;
  // Only for a single file that no rule forbids and no person need approve.
  if (e.subject.contains('*') || rules->revoked.contains("file_read")) return false;
  const std::vector<std::string>& people = rules->require_human_approval;
  if (std::ranges::find(people, "file_read") != people.end()) return false;
  const policy::Operation read{.what = policy::FileOperation{policy::FileAccess::kRead, e.subject},
                               .wanted = {}};
  policy::AgentRules lasting = *rules;
  lasting.temporary.clear();  // nobody's silence lengthens an approval
  const auto v = policy::validateOperation(lasting, read, {}, base::wallMicros());
  return v.approved() || (v.escalation_available && v.rule.empty());
}

// The reason why a rule approves; "": a person must decide. A run's name never makes the run safe.
std::string EscalationService::Impl::safeBecause(const Escalation& e) {
  const auto& safe = config().safe_operations;
  const std::string& agent = e.requester.agent;
  if (e.operation == model::operation::kRun || agent.empty()) return {};
  if (std::ranges::find(safe, e.operation) == safe.end()) return {};
  if (agents != nullptr) {
    const auto by_rules = agents->needsNobody(e.requester, e.operation, e.subject);
    if (!by_rules) return {};
    if (*by_rules) return **by_rules;
  }
  // An agent without rules has no table of safe files and commands.
  if (e.operation != model::operation::kFileRead) return {};
  const std::string because = "escalation.safe_operations has " + e.operation +
                              ", and a rule approves what is safe for agent " + agent;
  const auto own = agentSettings(control->store, e.requester);
  if (own && own->auto_approve_safe) return *own->auto_approve_safe ? because : "";
  const auto policy = ledger().policy(e.requester.tenant, agent);
  return policy && policy->auto_approve_safe ? because : "";
}

Task<Result<Escalation>> EscalationService::request(Principal principal,
                                                    model::EscalationRequest request) {
  const auto impl = impl_;
  std::string request_json;
  Escalation e = CO_TRY(impl->drawUp(principal, request, request_json));
  if (request.run) {
    auto run = CO_TRY(model::parseRunRequest(*request.run, storedBounds()));
    co_await impl->nameApprovers(principal, std::move(run), e);
  }
  std::shared_ptr<void> asks;
  if (const std::string because = impl->safeBecause(e); !because.empty()) {
    policy::approveByRule(e, because, e.created_at);
  } else {
    asks = co_await impl->approvals->beginAsking(principal);
    CO_TRY(impl->approvals->mayAskByHand(principal));
  }
  model::AuditEvent event = requestedEvent(e);
  event.details["automatic"] = e.status == EscalationStatus::kApproved;
  std::optional<model::AuditEvent> approval;
  if (e.status == EscalationStatus::kApproved) approval = ruledEvent(e);
  store::NewEscalation asked{
      .escalation = std::move(e),
      .event = std::move(event),
      .channels = channelsFor(impl->control->store, principal, impl->config()),
      .bounds = impl->config().bounds,
      .request_json = std::move(request_json),
      .approval = std::move(approval)};
  const Escalation made =
      CO_TRY(co_await impl->control->ledger.write(store::addEscalation, std::move(asked)));
  if (impl->news) impl->news();
  co_return made;
}

Result<Escalation> EscalationService::Impl::find(const Principal& who, const std::string& tenant,
                                                 const std::string& id) const {
  if (!model::isEscalationId(id)) return fail(Code::kNotFound, "there is no escalation " + id);
  return ledger().get(scopeOf(who, tenant), id);
}

// Adds facts outside of the ledger: the waiting executions, and the votes no longer valid.
Result<> EscalationService::Impl::bringUpToNow(Escalation& e) const {
  TRY(strikeIfOpen(control->store, e));
  e.waiting = approvals->waitingFor(e);
  return {};
}

Result<Escalation> EscalationService::get(const Principal& principal, const std::string& tenant,
                                          const std::string& id) {
  Escalation found = TRY(impl_->find(principal, tenant, id));
  TRY(impl_->bringUpToNow(found));
  return found;
}

Result<std::vector<Escalation>> EscalationService::list(const Principal& principal,
                                                        const store::EscalationQuery& query) {
  auto found = TRY(impl_->ledger().list(store::Scope::of(principal), query));
  for (Escalation& e : found)
    TRY(impl_->bringUpToNow(e));
  return found;
}

Result<std::optional<int64_t>> EscalationService::usualWait(const Principal& principal) {
  return impl_->ledger().usualWait(store::Scope::of(principal));
}

Task<Result<Escalation>> EscalationService::Impl::change(store::EscalationChange what) {
  co_return co_await control->ledger.write(store::changeEscalation, std::move(what));
}

store::EscalationChange EscalationService::Impl::changeOf(const Escalation& e) const {
  return {.tenant = e.requester.tenant,
          .id = e.id,
          .apply = {},
          .channels = channelsFor(control->store, e.requester, config()),
          .notification = "settled",
          .notifications = config().bounds.notifications};
}

Task<Result<Escalation>> EscalationService::decide(Principal principal, std::string tenant,
                                                   std::string id, bool approve, model::Vote vote) {
  const auto impl = impl_;
  const Escalation found = CO_TRY(impl->find(principal, tenant, id));
  if (!vote.approver.empty() && !isSelf(principal, vote.approver)) {
    const std::string why =
        "approver: this credential is not " + model::safeText(vote.approver, 200) + "'s, it is " +
        credentialName(principal) + "; use their own, or name a user, an agent or a key's id";
    std::ignore = co_await impl->control->ledger.write(
        store::appendEvent, refusedVoteEvent(found, principal, approve, why));
    co_return fail(Code::kDenied, why, "approver");
  }
  const policy::Ballot ballot{.by = principal,
                              .person = CO_TRY(personOf(impl->control->store, principal)),
                              .approve = approve,
                              .reason = vote.reason,
                              .grant_us = vote.grant_us,
                              .now = base::wallMicros()};
  const auto revoked = CO_TRY(revokedOf(impl->control->store, found));
  Escalation judged = found;
  policy::strike(judged, revoked);
  CO_TRY(co_await impl->mayCount(judged, ballot));
  store::EscalationChange change = impl->changeOf(found);
  change.apply = [ballot, revoked](Escalation& e) -> Result<model::AuditEvent> {
    // Votes of revoked credentials do not complete a quorum.
    const bool struck = policy::strike(e, revoked);
    TRY(policy::vote(e, ballot));
    model::AuditEvent event = votedEvent(e, ballot.by, ballot.approve, ballot.reason);
    if (ballot.grant_us > 0) event.details["grant_seconds"] = ballot.grant_us / 1'000'000;
    if (struck)
      event.details["revoked_credentials"] = base::json::array(revoked.begin(), revoked.end());
    return event;
  };
  auto changed = co_await impl->change(std::move(change));
  if (!changed) {
    std::ignore = co_await impl->control->ledger.write(
        store::appendEvent, refusedVoteEvent(found, principal, approve, changed.error().message));
    co_return changed;
  }
  impl->approvals->settle(*changed);
  if (impl->news) impl->news();
  co_return changed;
}

// Escalations for anything but a run or a session have their whole request in the record.
Result<base::json::object> EscalationService::requestOf(const Escalation& e) {
  if (e.request_sha256.empty()) {
    if (!e.digest.empty()) {
      return fail(Code::kNotFound, "what " + e.id + " asks for was not kept then");
    }
    return base::json::object{
        {"operation", e.operation}, {"subject", e.subject}, {"reason", e.reason}};
  }
  return parseStored(TRY(impl_->ledger().request(e)));
}

Result<base::json::value> EscalationService::workspaceOf(const Escalation& e) {
  if (e.workspace_sha256.empty()) return base::json::value(nullptr);
  const std::string list = TRY(impl_->ledger().workspace(e));
  return base::json::value(TRY(parseStored(list)));
}

Task<void> EscalationService::noteRefused(model::Principal principal, std::string tenant,
                                          std::string id, bool approve) {
  const auto impl = impl_;
  // Any escalation of the tenant, visible or not: the log should name everyone who tries.
  const auto scope =
      principal.isAdmin() ? scopeOf(principal, tenant) : store::Scope::ofTenant(principal.tenant);
  const auto found = impl->ledger().get(scope, id);
  if (!found) co_return;
  std::ignore = co_await impl->control->ledger.write(
      store::appendEvent,
      refusedVoteEvent(*found, principal, approve,
                       "the credential lacks the permission escalation.decide"));
}

Result<model::EscalationPolicy> EscalationService::policyOf(const Principal& principal,
                                                            const std::string& agent) {
  if (!principal.sees(principal.tenant, agent)) return model::EscalationPolicy{.agent = agent};
  return impl_->ledger().policy(principal.tenant, agent);
}

Result<AutoApproval> EscalationService::autoApprovalOf(const Principal& principal,
                                                       const std::string& agent) {
  if (!principal.sees(principal.tenant, agent)) return AutoApproval{};
  const Principal asked{.tenant = principal.tenant,
                        .app = {},
                        .agent = agent,
                        .user = {},
                        .roles = model::Role::kAgent,
                        .key_id = {}};
  if (impl_->agents != nullptr) {
    const auto rules = TRY(impl_->agents->standingRulesOf(asked));
    if (rules) {
      return AutoApproval{.safe = rules->auto_approve_safe,
                          .by = std::string(rules->auto_approve_by),
                          .level = rules->level.name};
    }
  }
  const model::EscalationPolicy policy = TRY(policyOf(principal, agent));
  if (policy.set_at == 0) return AutoApproval{};
  return AutoApproval{.safe = policy.auto_approve_safe,
                      .by = std::string(policy::approved_by::kPolicy),
                      .level = ""};
}

Task<Result<model::EscalationPolicy>> EscalationService::setPolicy(Principal principal,
                                                                   std::string agent,
                                                                   bool auto_approve_safe) {
  const auto impl = impl_;
  const model::EscalationPolicy policy{.agent = agent,
                                       .auto_approve_safe = auto_approve_safe,
                                       .set_by = principal,
                                       .set_at = base::wallMicros()};
  model::AuditEvent event{.action = "escalation.policy_set",
                          .subject = agent,
                          .principal = principal,
                          .details = {{"auto_approve", auto_approve_safe ? "safe" : "none"}}};
  CO_TRY(co_await impl->control->ledger.write(store::putEscalationPolicy, principal.tenant, policy,
                                              std::move(event)));
  co_return policy;
}

// Ends expired escalations, and looks at waiting executions after a start or a node's return.
Task<void> EscalationService::Impl::keepTime() {
  const auto self = shared_from_this();
  while (!stopped) {
    if (std::exchange(look_again, false)) approvals->settleWaiting();
    const auto due = ledger().dueEscalations(base::wallMicros(), kBatch);
    if (!due) {
      base::log(base::Level::kError, "escalations at their end not read",
                {{"reason", due.error().message}});
    } else {
      size_t ended = 0;
      for (const Escalation& e : *due)
        ended += co_await expireOne(e) ? 1 : 0;
      if (ended == kBatch) continue;
    }
    co_await changed.wait(base::monotonicNow() + kTick);
  }
}

Task<bool> EscalationService::Impl::expireOne(Escalation e) {
  store::EscalationChange what = changeOf(e);
  what.apply = [reads = mayStillRead(e)](Escalation& now) -> Result<model::AuditEvent> {
    const int64_t at = base::wallMicros();
    if (reads && now.status == EscalationStatus::kPending && at >= now.expires_at) {
      policy::approveByRule(now, "nobody answered; fallback_action: allow_read_only", at);
      return ruledEvent(now);
    }
    TRY(policy::expire(now, at));
    return expiredEvent(now);
  };
  const auto ended = co_await change(std::move(what));
  if (!ended) {
    base::log(base::Level::kWarn, "escalation not ended",
              {{"escalation", e.id}, {"reason", ended.error().message}});
    co_return false;
  }
  approvals->settle(*ended);
  if (news) news();
  co_return true;
}

}  // namespace cloister::orchestrator
