// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/sessions.h"

#include <algorithm>
#include <utility>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "model/dependency.h"
#include "orchestrator/core/agent_runtime.h"
#include "orchestrator/core/toolchain.h"
#include "orchestrator/sessions/sessions_impl.h"
#include "wire/files.h"

namespace cloister::orchestrator {
namespace {

using model::Session;
using model::SessionStatus;

std::unexpected<Error> full(uint32_t bound, std::string_view what) {
  return fail(Code::kQuota, "making a session: " + std::to_string(bound) + " " + std::string(what) +
                                "; end one, or come back later");
}

// Policy's rules are about languages; a session without a language is for commands.
Result<std::string> ruleLanguageOf(model::RunRequest request, const model::LanguageSet& languages) {
  if (request.language.empty()) return "command";
  request.command = std::string();
  TRY(policy::resolve(request, languages));
  return languages.find(request.language)->name;
}

}  // namespace

// --- creation
// -------------------------------------------------------------------------------------

Sessions::Sessions(std::shared_ptr<Control> control, std::shared_ptr<Programs> programs,
                   std::shared_ptr<Approvals> approvals, const AgentGuard* agents,
                   SessionConfig config)
    : impl_(std::make_shared<Impl>(std::move(control), std::move(programs), std::move(approvals),
                                   agents, config)) {
  impl_->control->nodes.watch(impl_);
  impl_->runs->join(impl_);
}

Sessions::~Sessions() = default;

void Sessions::onFill(
    std::function<Task<Result<SessionFill>>(model::Principal, std::string)> fill) {
  impl_->fill_from = std::move(fill);
}

Task<Result<Session>> Sessions::create(model::Principal principal, model::SessionRequest request,
                                       std::string idempotency_key, SessionFill fill) {
  const std::shared_ptr<Impl> impl = impl_;
  store::NewSession record;
  record.idempotency_key = std::move(idempotency_key);
  CO_TRY(settleForAgent(impl->control->store, principal, request.settings));
  AgentJudgement judged = CO_TRY(impl->heldBack(principal, request));
  const SessionPtr session =
      CO_TRY(impl->prepare(std::move(principal), std::move(request), record));
  if (judged.refusal) {
    co_return co_await impl->refuseAgent(session, std::move(record), *std::move(judged.refusal));
  }
  if (auto named = impl->holdName(*session); !named) {
    record.session = session->record;
    co_return co_await impl->earlierOr(std::move(record), std::move(named).error());
  }
  session->held = std::move(judged.held);
  session->fill = std::move(fill);
  co_await impl->consult(*session);
  if (impl->draining)
    co_return fail(Code::kUnavailable, "making a session: the service is stopping");
  impl->settleLimits(*session);
  const policy::Decision decision =
      impl->control->permits.judge(session->ruling, Impl::subjectOf(*session));
  if (const auto* wanted = std::get_if<policy::NeedsApproval>(&decision)) {
    co_return co_await impl->askApproval(session, std::move(record), *wanted);
  }
  if (auto denied = policy::refusalOf(decision)) {
    co_return co_await impl->refuse(session, std::move(record), *std::move(denied));
  }
  record.session = session->record;
  const auto* permit = std::get_if<model::Permit>(&decision);
  if (auto there = permit == nullptr ? Result<>()
                                     : checkToolchain(impl->control->nodes.offer(),
                                                      session->record.language, permit->fields());
      !there) {
    co_return co_await impl->earlierOr(std::move(record), std::move(there).error());
  }
  if (auto there = impl->loadSecrets(*session); !there) {
    co_return co_await impl->earlierOr(std::move(record), std::move(there).error());
  }
  if (auto offered = impl->checkDeps(*session); !offered) {
    co_return co_await impl->earlierOr(std::move(record), std::move(offered).error());
  }
  if (auto taken = impl->take(session); !taken) {
    co_return co_await impl->earlierOr(std::move(record), std::move(taken).error());
  }
  model::AuditEvent event = withRuling(
      createdEvent(session->record, base::sha256Hex(record.request_json),
                   impl->control->permits.decidingRule(session->ruling, Impl::subjectOf(*session))),
      session->ruling);
  auto created = co_await impl->control->ledger.write(store::createSession, std::move(record),
                                                      std::move(event));
  if (!created || created->replayed) impl->give(session);
  if (!created) co_return std::unexpected(std::move(created).error());
  if (created->replayed) co_return co_await impl->replayed(std::move(created->session));
  session->record.seq = created->session.seq;
  impl->live[session->record.id] = session;
  session->log->publish(session->now());
  impl->count();
  async::spawn(impl->control->executor, impl->begin(session));
  co_return co_await impl->begun(session);
}

Task<Result<bool>> Sessions::wouldGrant(model::Principal principal, model::SessionRequest request) {
  const std::shared_ptr<Impl> impl = impl_;
  AgentJudgement judged = CO_TRY(impl->heldBack(principal, request));
  if (judged.refusal) co_return false;
  store::NewSession record;
  const SessionPtr session =
      CO_TRY(impl->prepare(std::move(principal), std::move(request), record));
  session->held = std::move(judged.held);
  co_await impl->consult(*session);
  impl->settleLimits(*session);
  const policy::Decision decision =
      impl->control->permits.judge(session->ruling, Impl::subjectOf(*session));
  co_return std::holds_alternative<model::Permit>(decision);
}

Task<Result<std::optional<Session>>> Sessions::earlier(model::Principal principal,
                                                       model::SessionRequest request,
                                                       std::string idempotency_key) {
  if (idempotency_key.empty()) co_return std::nullopt;
  const std::shared_ptr<Impl> impl = impl_;
  store::NewSession record;
  record.idempotency_key = std::move(idempotency_key);
  CO_TRY(settleForAgent(impl->control->store, principal, request.settings));
  CO_TRY(impl->heldBack(principal, request));
  record.session = CO_TRY(impl->prepare(std::move(principal), std::move(request), record))->record;
  auto found = CO_TRY(impl->control->store.earlier(record));
  if (!found) co_return std::nullopt;
  co_return co_await impl->replayed(*std::move(found));
}

Result<SessionPtr> Sessions::Impl::prepare(model::Principal principal,
                                           model::SessionRequest request,
                                           store::NewSession& record) const {
  if (draining) return fail(Code::kUnavailable, "making a session: the service is stopping");
  model::settle(request.settings.limits);
  auto session =
      std::make_shared<LiveSession>(control->executor, Lease::Terms{request.ttl, request.idle_ttl});
  record.request_json = base::toJson(model::toJsonObject(request));
  session->rule_language = TRY(ruleLanguageOf(request.settings, control->languages));
  session->meter = SessionMeter(config.usage_lag);
  session->max_programs = config.max_execs;
  session->calls_per_minute = config.calls_per_minute;
  session->log = std::make_shared<SessionLog>(control->executor);
  Session& made = session->record;
  made.id = base::newId("ses");
  made.principal = std::move(principal);
  if (!request.settings.language.empty()) made.language = session->rule_language;
  made.name = request.name;
  made.from_snapshot = request.from_snapshot;
  made.nested = request.settings.nested;
  made.capabilities = request.capabilities;
  made.env = request.settings.env;
  made.cwd = request.cwd;
  for (const auto& [name, value] : request.settings.metadata)
    made.metadata[name] = value;
  made.network = request.settings.network;
  made.deps = request.settings.deps;
  made.limits = request.settings.limits;
  made.ttl = request.ttl;
  made.idle_ttl = request.idle_ttl;
  made.pause_after = request.pause_after;
  made.provenance.policy_id = control->engine.policyId();
  made.created_at = made.last_used_at = session->clock.now();
  session->starting = trace::Step(control->tracer, made.principal.trace, "session.start");
  session->starting.set("cloister.session.id", made.id);
  session->starting.set("cloister.tenant", made.principal.tenant);
  made.expires_at = session->clock.at(session->lease.deadline());
  session->risk_facts = policy::riskFactsOf(request.settings, control->languages, control->levels);
  session->request = std::move(request.settings);
  return session;
}

Task<void> Sessions::Impl::consult(LiveSession& session) const {
  const Subject subject = subjectOf(session);
  trace::Step deciding = session.starting.within("policy.decide");
  session.ruling = co_await control->permits.rule(subject);
  deciding.end();
  session.record.provenance.policy_id = session.ruling.policy->id;
}

// Like a run's limits: programs share the sandbox's limits.
void Sessions::Impl::settleLimits(LiveSession& session) const {
  const auto limits = control->permits.limits(session.ruling, subjectOf(session));
  if (limits) session.request.limits = *limits;
  session.request.named_limits.set();
  session.record.limits = session.request.limits;
}

Subject Sessions::Impl::subjectOf(const LiveSession& session) {
  return subjectWithin(session, "session", session.request, session.record.principal);
}

Subject Sessions::Impl::subjectWithin(const LiveSession& session, std::string_view operation,
                                      const model::RunRequest& request,
                                      const model::Principal& by) {
  return {.operation = operation,
          .request = request,
          .principal = by,
          .risk_facts = session.risk_facts,
          .held = session.held,
          .language = session.rule_language,
          .session_id = session.record.id,
          .inside = session.runtime,
          .layers = session.layers};
}

Task<Result<Session>> Sessions::Impl::refuse(SessionPtr session, store::NewSession record,
                                             policy::Denied denied) {
  const auto self = shared_from_this();
  model::AuditEvent event =
      withRuling(createdEvent(session->record, base::sha256Hex(record.request_json), denied.rule),
                 session->ruling);
  record.session = session->record;
  const auto created = CO_TRY(
      co_await control->ledger.write(store::createSession, std::move(record), std::move(event)));
  if (created.replayed) co_return created.session;
  control->metrics.refused("denied");
  control->metrics.denied("session");
  const SessionEnd end = endByDenial(denied);
  session->ending = end;
  session->ended_by = session->record.principal;
  co_await recordEnd(*session);
  co_return fail(end.code, end.reason.message);
}

// A retry of a successful request gets the earlier answer, even at a bound.
Task<Result<Session>> Sessions::Impl::earlierOr(store::NewSession record, Error refusal) {
  const auto self = shared_from_this();
  auto earlier = CO_TRY(control->store.earlier(record));
  if (earlier) co_return co_await replayed(*std::move(earlier));
  control->metrics.refused(base::codeName(refusal.code));
  co_return std::unexpected(std::move(refusal));
}

Task<Result<Session>> Sessions::Impl::replayed(Session session) {
  const auto earlier = live.find(session.id);
  if (earlier == live.end()) co_return session;
  co_return co_await begun(earlier->second);
}

Result<> Sessions::Impl::room(const LiveSession& session) const {
  if (!control->nodes.connected()) {
    return fail(Code::kUnavailable, "making a session: no node is connected");
  }
  const Places& places = control->places;
  const auto of_tenant = tenants.find(session.record.principal.tenant);
  if (places.sessions() >= config.max)
    return full(config.max, "sessions are there already (session.max)");
  if (of_tenant != tenants.end() && of_tenant->second >= config.max_per_tenant) {
    return full(config.max_per_tenant,
                "sessions of this tenant are there already (session.max_per_tenant)");
  }
  if (places.sessions() >= places.forSessions()) {
    return full(places.forSessions(),
                "of the node's sandboxes are for sessions, and all of them are taken");
  }
  const auto share = static_cast<uint64_t>(
      static_cast<double>(control->nodes.offer().memory_bytes) * config.memory_share);
  const Need need = places.needOf(session.record.limits, session.record.principal.tenant);
  if (places.sessionsMemory() + need.memory > share) {
    return full(static_cast<uint32_t>(share >> 20),
                "MiB of the node's memory are for sessions, and not so much of it is left");
  }
  if (!places.hasSessionPlace(need.tenant, std::min(config.max, places.forSessions()))) {
    return full(std::min(config.max, places.forSessions()),
                "sessions may be there, and those that are left are kept for tenants that use "
                "little (fairness.kept_percent)");
  }
  if (!places.hasSessionMemory(need, share)) {
    return full(static_cast<uint32_t>(share >> 20),
                "MiB of the node's memory are for sessions, and what is left of it is kept for "
                "tenants that use little (fairness.kept_percent)");
  }
  return runs->admitDisk(session.record.limits);
}

Result<> Sessions::Impl::take(const SessionPtr& session) {
  TRY(room(*session));
  if (Quotas* quotas = control->quotas; quotas != nullptr) {
    session->use =
        TRY(quotas->beginSession(session->record.principal, session->record.limits.memory_bytes));
  }
  session->taken = true;
  control->places.awaitSession(
      control->places.needOf(session->record.limits, session->record.principal.tenant));
  runs->reportDepth();
  tenants[session->record.principal.tenant]++;
  return {};
}

void Sessions::Impl::give(const SessionPtr& session) {
  session->use.end();
  const Need need =
      control->places.needOf(session->record.limits, session->record.principal.tenant);
  if (!std::exchange(session->arrived, true)) control->places.arrive(need);
  control->places.giveSession(need);
  const auto tenant = tenants.find(session->record.principal.tenant);
  if (--tenant->second == 0) tenants.erase(tenant);
  control->changed.notify();
  runs->startWaiting();
}

Task<void> Sessions::Impl::begin(SessionPtr session) {
  const auto self = shared_from_this();
  auto there = co_await provision(session);
  if (there && session->fill.write && !session->ending) there = co_await fillIn(session);
  session->fill = {};
  session->lease.begin(base::monotonicNow());
  if (there && !session->ending) there = co_await recordStart(*session);
  there = session->starting.endedBy(std::move(there));
  session->begun = true;
  session->changed.notify();
  if (session->abandoned) co_return co_await tearDown(*session);
  if (!there) beginEnd(session, endByFault(there.error()));
  if (session->ending) co_return;
  session->log->publish(session->now());
  const std::chrono::duration<double> took = base::monotonicNow() - session->accepted_at;
  control->metrics.sessionStarted(took.count(), session->record.provenance.runtime);
  count();
  async::spawn(control->executor, watchSandbox(session, session->box));
  async::spawn(control->executor, watchLease(session));
  if (session->record.pause_after > Millis(0)) {
    async::spawn(control->executor, watchIdle(session));
  }
  if (session->record.nested) async::spawn(control->executor, serveTools(session));
}

Task<Result<>> Sessions::Impl::provision(SessionPtr of) {
  LiveSession& session = *of;
  CO_TRY(co_await haveLayers(session));
  CO_TRY(co_await waitForPlace(session));
  session.record.provenance.permit_id = base::newId("permit");
  co_await consult(session);
  CO_TRY(co_await waitForPlace(session));  // the node may be lost meanwhile
  CO_TRY(loadSecrets(session));
  Subject subject = subjectOf(session);
  if (session.secrets) subject.brokered = &session.secrets->brokered;
  Permission granted = control->permits.ask(
      session.ruling, subject, session.record.provenance.permit_id, approvalOf(session, true));
  if (!granted) co_return fail(Code::kDenied, granted.error().reason);
  session.runtime = granted->fields.runtime;
  if (granted->network) session.plan_sha256 = base::sha256Hex(model::encodePlan(*granted->network));
  OpenedDoor door = CO_TRY(co_await openDoor(of, std::move(granted->network)));
  session.open_door = std::move(door.permit);
  session.network_additions = std::move(door.additions);
  if (!control->nodes.connected()) {  // lost meanwhile
    co_return fail(Code::kUnavailable, "making a session: no node is connected");
  }
  session.image_since = control->nodes.imageSince();
  trace::Step making = session.starting.within("sandbox");
  auto box = making.endedBy(co_await control->nodes.runtime()->provision(granted->permit));
  if (!box && box.error().field == kLayerLost && control->layers != nullptr) {
    control->layers->lost(session.layers);  // the next session makes them anew
  }
  session.box = CO_TRY(std::move(box));
  const runtime::SandboxInfo& info = session.box->info();
  model::Provenance& provenance = session.record.provenance;
  provenance.runtime = info.runtime;
  provenance.node = info.node;
  provenance.image = info.image;
  provenance.image_digest = info.image_digest;
  provenance.weakened = info.weakened;
  const std::string weaker = control->permits.weaker(session.ruling, subjectOf(session));
  if (!weaker.empty()) provenance.weakened.push_back(weaker);
  provenance.weakened.insert(provenance.weakened.end(), door.weakened.begin(), door.weakened.end());
  co_return Result<>{};
}

Task<Result<>> Sessions::Impl::fillIn(SessionPtr session) {
  const bool memory = session->fill.memory;
  const std::string request = memory ? wire::files::kResume : wire::files::kRestore;
  const auto call =
      CO_TRY(co_await askFiles(session, session->record.principal, {{request}, true, ""}));
  CO_TRY(co_await session->fill.write(*call));
  if (memory) session->record.provenance.weakened.emplace_back(kWeakerFromMemory);
  co_return Result<>{};
}

// Takes a place ahead of waiting runs, but waits for running programs.
Task<Result<>> Sessions::Impl::waitForPlace(LiveSession& session) {
  Places& places = control->places;
  const Need need = places.needOf(session.record.limits, session.record.principal.tenant);
  const base::Monotonic until = base::monotonicNow() + config.patience.place;
  const auto lacks = [&] { return !session.arrived && !places.comes(need); };
  while (lacks() && !session.ending && base::monotonicNow() < until)
    co_await control->changed.wait(until);
  if (session.ending) co_return fail(Code::kConflict, session.ending->reason.message);
  if (!control->nodes.connected()) {
    co_return fail(Code::kUnavailable, "making a session: no node is connected");
  }
  if (!lacks()) {
    if (!std::exchange(session.arrived, true)) places.arrive(need);
    co_return Result<>{};
  }
  const bool disk = places.comes({need.memory, 0, need.tenant});
  co_return fail(Code::kQuota,
                 disk ? "making a session: runs hold the disk for its disk_mb "
                        "(workspace.disk.max_mb); come back later"
                      : "making a session: programs have all sandboxes and memory of the node but "
                        "those that are kept for tenants that use little (fairness.kept_percent); "
                        "come back later");
}

Task<Result<>> Sessions::Impl::recordStart(LiveSession& session) {
  control->nodes.settleImage(session.record.provenance, session.image_since);
  Session started = session.now();
  started.status = SessionStatus::kRunning;
  model::AuditEvent event = withRuling(startedEvent(started), session.ruling);
  if (!session.plan_sha256.empty()) event.details["network_plan_sha256"] = session.plan_sha256;
  auto written =
      co_await control->ledger.write(store::updateSession, std::move(started), std::move(event));
  session.start_refused = !written;
  if (written) session.record.status = SessionStatus::kRunning;
  co_return written;
}

// The running session, or the reason of its failure. A refusal by the ledger is reported at once.
Task<Result<Session>> Sessions::Impl::begun(SessionPtr session) {
  const auto decided = [&] {
    if (session->ending) return session->closed || session->start_refused;
    if (session->waits()) return true;
    return session->record.status == SessionStatus::kRunning;
  };
  while (!decided())
    co_await session->changed.wait();
  const std::optional<SessionEnd> end = session->ending;
  if (!end) co_return session->now();
  co_return fail(end->code, end->reason.message);
}

// --- what is asked of a session
// -------------------------------------------------------------------

Result<Session> Sessions::get(const model::Principal& principal, const std::string& id) {
  if (const SessionPtr session = impl_->find(principal, id)) return session->shown();
  return impl_->control->store.session(store::Scope::of(principal), id);
}

Result<std::vector<Session>> Sessions::list(const model::Principal& principal,
                                            const store::SessionQuery& query) {
  // The ledger knows no pauses.
  const bool running = query.status == SessionStatus::kRunning;
  const bool paused = query.status == SessionStatus::kPaused;
  store::SessionQuery recorded = query;
  if (paused) recorded.status = SessionStatus::kRunning;
  std::vector<Session> sessions;
  while (sessions.size() < query.limit) {
    auto some = TRY(impl_->control->store.sessions(store::Scope::of(principal), recorded));
    const bool last = some.size() < recorded.limit;
    for (Session& session : some) {
      recorded.before_seq = session.seq;
      const auto live = impl_->live.find(session.id);
      if (live != impl_->live.end() && session.status != SessionStatus::kEnded) {
        session = live->second->shown();
      }
      const bool shown = session.status == SessionStatus::kPaused ? !running : !paused;
      if (shown && sessions.size() < query.limit) sessions.push_back(std::move(session));
    }
    if (last || (!running && !paused)) break;
  }
  return sessions;
}

Result<std::shared_ptr<SessionLog>> Sessions::log(const model::Principal& principal,
                                                  const std::string& id) {
  if (const SessionPtr session = impl_->find(principal, id)) return session->log;
  const auto ended = impl_->ended.find(id);
  if (ended != impl_->ended.end() && principal.sees(ended->second->latest().principal)) {
    return ended->second;
  }
  const Session session = TRY(impl_->control->store.session(store::Scope::of(principal), id));
  return SessionLog::ofRecord(impl_->control->executor, session);
}

Task<Result<Session>> Sessions::renew(model::Principal principal, std::string id,
                                      model::Renewal renewal) {
  const std::shared_ptr<Impl> impl = impl_;
  const std::string doing = "renewing a session";
  const SessionPtr session = CO_TRY(impl->findLive(principal, id, doing));
  CO_TRY(mustReach(principal, session->record.principal, doing));
  while (session->changing)
    co_await session->changed.wait();
  const auto late = [&] {
    const auto reason = session->ending
                            ? session->ending->reason
                            : endOfLease(session->record, session->lease.limit()).reason;
    return std::unexpected(endedError(doing, reason));
  };
  if (session->waits() && !session->ending) CO_TRY(session->admit());
  if (session->record.status == SessionStatus::kCreating && !session->ending) {
    co_return fail(Code::kConflict, doing + ": it is still being made");
  }
  if (renewal.ttl == Millis(0)) renewal.ttl = session->record.ttl;
  if (renewal.idle_ttl == Millis(0)) renewal.idle_ttl = session->record.idle_ttl;
  const Lease before = session->lease;
  const Lease::Terms terms{renewal.ttl, renewal.idle_ttl};
  if (session->ending || !session->lease.renew(base::monotonicNow(), terms)) co_return late();
  // From here on the old deadline does not end the session, however long the ledger takes.
  session->changing = true;
  Session renewed = session->now();
  renewed.ttl = renewal.ttl;
  renewed.idle_ttl = renewal.idle_ttl;
  renewed.running = 0;
  model::AuditEvent event = renewedEvent(renewed, principal);
  const auto written =
      co_await impl->control->ledger.write(store::updateSession, renewed, std::move(event));
  session->changing = false;
  if (written) {
    session->record.ttl = renewal.ttl;
    session->record.idle_ttl = renewal.idle_ttl;
  } else {
    session->lease.revert(before);
  }
  session->changed.notify();
  if (session->ending) co_return late();
  if (!written) co_return std::unexpected(written.error());
  session->log->publish(session->shown());
  co_return session->shown();
}

SessionPtr Sessions::Impl::find(const model::Principal& principal, const std::string& id) const {
  const auto found = live.find(id);
  if (found == live.end() || !principal.sees(found->second->record.principal)) return nullptr;
  return found->second;
}

// kConflict for an ended session.
Result<SessionPtr> Sessions::Impl::findLive(const model::Principal& principal,
                                            const std::string& id, const std::string& doing) const {
  if (SessionPtr session = find(principal, id)) return session;
  const Session session = TRY(control->store.session(store::Scope::of(principal), id));
  return std::unexpected(endedError(doing, session.end.value_or(model::RunError{})));
}

void Sessions::Impl::count() const {
  const auto creating = std::ranges::count_if(live, [](const auto& each) {
    return each.second->record.status == SessionStatus::kCreating;
  });
  const auto waiting =
      std::ranges::count_if(live, [](const auto& each) { return each.second->waits(); });
  control->metrics.sessionCount(static_cast<size_t>(creating),
                                live.size() - static_cast<size_t>(creating + waiting));
}

}  // namespace cloister::orchestrator
