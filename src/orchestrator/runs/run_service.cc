// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/run_service.h"

#include <algorithm>
#include <latch>
#include <utility>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/record_clock.h"
#include "model/record_times.h"
#include "model/request_shown.h"
#include "orchestrator/core/agent_runtime.h"
#include "orchestrator/core/reach.h"
#include "orchestrator/core/stored_request.h"
#include "orchestrator/core/toolchain.h"
#include "orchestrator/runs/run_impl.h"
#include "store/rows/executions.h"

namespace cloister::orchestrator {
namespace {

using model::Execution;

// Links of all images: a rule about a program holds in every image.
std::vector<model::ProgramLink> linksOf(const model::NodeOffer& offer) {
  std::vector<model::ProgramLink> links = offer.links;
  for (const model::OfferedImage& image : offer.images)
    links.insert(links.end(), image.links.begin(), image.links.end());
  return links;
}

// A place in the queue, returned unless filled.
class Place {
 public:
  Place(FairQueue<LivePtr>& queue, const Live& live)
      : queue_(live.host->startsAtOnce() ? nullptr : &queue), live_(live) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (queue_ != nullptr) queue_->release(live_.execution.principal.tenant, live_.bytes);
  }
  void filled() { queue_ = nullptr; }

 private:
  FairQueue<LivePtr>* queue_;
  const Live& live_;
};

}  // namespace

RunService::Impl::Impl(std::shared_ptr<Control> shared, RunParts with, RunConfig how)
    : control(std::move(shared)),
      parts(with),
      config(how),
      queue({.items = how.queue,
             .items_per_tenant = how.queue_per_tenant,
             .bytes = how.queue_bytes,
             .fairness = control->config.fairness}),
      stopping(control->executor) {}

RunService::RunService(std::shared_ptr<Control> control, RunParts parts, RunConfig config)
    : impl_(std::make_shared<Impl>(std::move(control), parts, config)) {
  impl_->control->nodes.watch(impl_);
  async::spawn(impl_->control->executor, impl_->retainRegularly());
  async::spawn(impl_->control->executor, impl_->lookAtRulesRegularly());
}

RunService::~RunService() {
  impl_->stopped = true;
  impl_->control->stop();
  impl_->stopping.notify();
}

Task<Result<Execution>> RunService::run(model::Principal principal, model::RunRequest request,
                                        std::string idempotency_key) {
  const std::shared_ptr<Impl> impl = impl_;
  CO_TRY(settleForAgent(impl->control->store, principal, request));
  Asked asked{.request = {.run = std::move(request), .cwd = {}, .parent_id = {}}};
  co_return co_await impl->ask(std::move(principal), std::move(asked), std::move(idempotency_key));
}

// A session's program takes no turn in the queue, and is otherwise accepted as any run.
Task<Result<Execution>> RunService::Impl::ask(model::Principal principal, Asked asked,
                                              std::string idempotency_key) {
  const auto self = shared_from_this();
  store::NewExecution record;
  record.idempotency_key = std::move(idempotency_key);
  if (auto refusal = std::exchange(asked.refusal, {})) {
    const LivePtr run = CO_TRY(prepare(std::move(principal), asked));
    CO_TRY(resolve(*run, std::move(asked), record));
    co_return co_await recordRefusal(run, std::move(record), *std::move(refusal));
  }
  AgentJudgement judged = CO_TRY(heldBack(principal, asked));
  const LivePtr run = CO_TRY(prepare(std::move(principal), asked));
  const bool may_ask =
      judged.refusal && !judged.refusal->wants.empty() && run->request.approval.empty();
  if (judged.refusal && !may_ask) {
    CO_TRY(resolve(*run, std::move(asked), record));
    co_return co_await recordViolation(run, std::move(record), *std::move(judged.refusal));
  }
  run->asks = std::move(judged.refusal);
  run->held = std::move(judged.held);
  run->by_rules = std::move(judged.by_rules);
  if (judged.time_seconds) {
    run->lasts_for = std::min<std::chrono::milliseconds>(
        run->lasts_for, std::chrono::seconds(std::max<uint64_t>(1, *judged.time_seconds)));
  }
  co_await consult(*run);
  CO_TRY(mayEnter(*run));
  settleLimits(*run);
  CO_TRY(resolve(*run, std::move(asked), record));
  co_return co_await take(run, std::move(record));
}

Task<Result<Execution>> RunService::Impl::take(LivePtr run, store::NewExecution record) {
  const auto self = shared_from_this();
  if (draining) co_return fail(Code::kUnavailable, "accepting the run: the service is stopping");
  if (!run->request.approval.empty()) {
    CO_TRY(co_await strikeNamed(*run));
    if (draining) co_return fail(Code::kUnavailable, "accepting the run: the service is stopping");
    CO_TRY(useApproval(*run, record));
  }
  if (run->lasts_cpu) giveMostProcessorTime(*run);
  const policy::Decision decision = judge(*run);
  const auto* wanted = std::get_if<policy::NeedsApproval>(&decision);
  const bool denied_anyway = std::holds_alternative<policy::Denied>(decision);
  if (run->asks && denied_anyway) {
    co_return co_await recordViolation(run, std::move(record), *std::exchange(run->asks, {}));
  }
  if (run->asks && wanted != nullptr) run->asks->needs_person = true;  // policy wants a person
  if (run->asks) co_return co_await askApproval(run, std::move(record), wantedFor(*run, wanted));
  if (wanted != nullptr) co_return co_await askApproval(run, std::move(record), *wanted);
  if (auto denied = policy::refusalOf(decision)) {
    record.approval.reset();  // not used up
    co_return co_await recordDenial(run, std::move(record), *std::move(denied));
  }
  // A command may belong to the image; code needs its language's toolchain.
  const bool is_code = std::holds_alternative<std::monostate>(run->request.command);
  if (auto there = checkToolchain(control->nodes.offer(), is_code ? run->execution.language : "",
                                  std::get<model::Permit>(decision).fields());
      !there) {
    co_return earlierOr(*run, std::move(record), std::move(there).error());
  }
  if (auto there = loadSecrets(*run); !there) {
    co_return earlierOr(*run, std::move(record), std::move(there).error());
  }
  if (auto offered = takeLayers(*run); !offered) {
    if (offered.error().code == Code::kDenied) {
      record.approval.reset();  // not used up
      co_return co_await recordDenial(run, std::move(record), refusalOfLayers(offered.error()));
    }
    co_return earlierOr(*run, std::move(record), std::move(offered).error());
  }
  if (auto admitted = admit(*run); !admitted) {
    co_return earlierOr(*run, std::move(record), std::move(admitted).error());
  }
  Place place(queue, *run);
  auto recorded = co_await accept(run, std::move(record));
  if (!recorded || recorded->replayed) uncountRun(*run);
  const store::Accepted accepted = CO_TRY(std::move(recorded));
  if (accepted.replayed) co_return accepted.execution;
  if (accepted.execution.status == model::Status::kRunning) {
    launch(run);
  } else {
    place.filled();
    enqueue(run);
  }
  co_return accepted.execution;
}

Task<Result<Execution>> RunService::Impl::recordDenial(LivePtr run, store::NewExecution record,
                                                       policy::Denied denied,
                                                       base::json::object details) {
  // A denial's record is kept like a run's, and has the same size.
  if (auto counted = countRun(*run, 0); !counted) {
    co_return earlierOr(*run, std::move(record), std::move(counted).error());
  }
  applyDenial(run->execution, denied);
  for (auto& [name, value] : details)
    run->execution.error->details[name] = std::move(value);
  noteRefusal(*run);
  run->facts.rule = denied.rule;
  run->execution.finished_at = run->clock.now();
  record.execution = run->execution;
  record.spec.clear();  // never runs
  auto accepted = co_await control->ledger.write(
      store::acceptExecution, std::move(record),
      withRuling(deniedEvent(run->execution, run->facts), run->ruling));
  if (!accepted || accepted->replayed) uncountRun(*run);
  if (!accepted) co_return std::unexpected(std::move(accepted).error());
  if (!accepted->replayed) countDenial(*run);
  endTrace(*run);
  co_return std::move(accepted->execution);
}

void RunService::Impl::countDenial(const Live& run) const {
  control->metrics.refused("denied");
  control->metrics.denied(run.execution.session_id.empty() ? "run" : "exec");
}

// Counts the run, if its session and the quotas of its owner have room.
Result<> RunService::Impl::countRun(const Live& run, uint64_t memory_bytes) {
  if (run.home) TRY(run.home->count());
  if (control->quotas == nullptr) return {};
  auto within = control->quotas->admit(run.execution.principal, memory_bytes);
  if (!within && run.home) run.home->uncount();
  return within;
}

void RunService::Impl::uncountRun(const Live& run) {
  if (run.home) run.home->uncount();
  if (control->quotas != nullptr) control->quotas->takeBack(run.execution.principal);
}

Result<> RunService::Impl::admit(const Live& run) {
  const bool alone = run.execution.session_id.empty();
  if (alone) TRY(admitDisk(run.facts.limits));
  TRY(countRun(run, alone ? run.facts.limits.memory_bytes : 0));
  auto place = run.host->startsAtOnce() ? run.host->admit()
                                        : queue.reserve(run.execution.principal.tenant, run.bytes);
  if (place) return {};
  uncountRun(run);
  Error error = std::move(place).error();
  if (error.code == Code::kQuota) error.retry_after_seconds = retryAfter();
  return std::unexpected(std::move(error));
}

Result<Execution> RunService::Impl::earlierOr(const Live& run, store::NewExecution record,
                                              Error refusal) const {
  record.execution = run.execution;
  if (auto earlier = TRY(control->store.earlier(record))) return *std::move(earlier);
  control->metrics.refused(base::codeName(refusal.code));
  return std::unexpected(std::move(refusal));
}

Task<Result<store::Accepted>> RunService::Impl::accept(LivePtr run, store::NewExecution record) {
  record.execution = run->execution;
  const bool at_once = run->host->startsAtOnce();
  const auto has_room = [this](const LivePtr& other) { return hasRoom(*other); };
  const bool first = queue.first(has_room) == nullptr && hasRoom(*run);
  const bool begun = (at_once || (first && !lacksLayers(*run) && mayStart(*run))) && begin(*run);
  if (at_once && !begun) co_return fail(Code::kDenied, "running in a session: denied of late");
  if (begun) occupy(*run);
  // A possible replay gets no sandbox yet. Otherwise the sandbox is made during the write, though
  // nothing runs in the sandbox before the start is durable.
  if (record.idempotency_key.empty()) askForSandbox(run);
  if (begun) {
    record.start = {run->execution, started(*run)};
  }
  run->facts.rule = control->permits.decidingRule(run->ruling, subjectOf(*run));
  model::AuditEvent event = withRuling(acceptedEvent(record.execution, run->facts), run->ruling);
  trace::Step writing = run->traced.within("ledger.accept");
  auto accepted = writing.endedBy(
      co_await control->ledger.write(store::acceptExecution, std::move(record), std::move(event)));
  if (begun && (!accepted || accepted->replayed)) async::spawn(control->executor, abandon(run));
  if (!accepted) {
    control->metrics.refused(base::codeName(accepted.error().code));
    if (accepted.error().code == Code::kQuota) accepted.error().retry_after_seconds = retryAfter();
    co_return accepted;
  }
  run->execution.seq = accepted->execution.seq;
  co_return accepted;
}

// Room is free and no run waits, so the start is recorded together with the acceptance. False if
// policy no longer permits the start; the run is then decided at its turn in the queue.
bool RunService::Impl::begin(Live& run) {
  if (!loadSecrets(run)) return false;
  furnish(run);
  Permission granted = permit(run, base::newId("permit"));
  if (!granted) return false;
  markStarted(run, granted->fields, granted->fields.id);
  run.permit = std::move(granted->permit);
  keepPlan(run, std::move(granted->network), granted->fields.id);
  return true;
}

// Undoes the preparation of a run that was not accepted.
Task<void> RunService::Impl::abandon(LivePtr run) {
  const auto self = shared_from_this();
  while (!run->provisioned && !run->permit)
    co_await run->settled.wait();
  co_await tearDown(run);
  vacate(*run);
  startWaiting();
}

void RunService::Impl::launch(const LivePtr& run) {
  show(run);
  if (draining) endFromOutside(*run, Cause::kStopping);
  // An end during the ledger's write did not reach this run.
  if (run->host->cause() != Cause::kNone) endFromOutside(*run, run->host->cause());
  askForSandbox(run);
  async::spawn(control->executor, execute(run));
  reportDepth();
}

// After acceptance: clients can query the run from now on.
void RunService::Impl::show(const LivePtr& run) {
  run->log->publish(run->execution);
  live[run->execution.id] = run;
  run->host->tell(run->execution);
  control->metrics.accepted();
}

Result<> RunService::recover() {
  for (store::Pending& pending : TRY(impl_->control->store.unfinished())) {
    const bool alone = pending.execution.session_id.empty();
    const bool blocked = pending.execution.status == model::Status::kBlocked;
    if (alone && (blocked || pending.execution.status == model::Status::kQueued)) {
      const auto again = blocked ? impl_->holdAgain(pending) : impl_->requeue(pending);
      if (again) continue;
      const bool ours = again.error().code != Code::kUnsupported;
      applyFault(pending.execution, again.error(), Cause::kNone, ours);
    } else {
      applyCause(pending.execution, Cause::kStopping);
    }
    TRY(impl_->settleNow(pending.execution));
    if (blocked) {
      async::spawn(impl_->control->executor, impl_->withdraw(std::move(pending.execution)));
    }
  }
  impl_->startWaiting();
  return {};
}

// Nothing runs yet, so this thread may wait for the ledger's thread.
Result<> RunService::Impl::settleNow(Execution execution) {
  execution.finished_at = base::RecordClock(model::latestTime(execution)).now();
  const model::AuditEvent event = finishedEvent(execution);
  Result<> written;
  std::latch done(1);
  control->store.write(store::writing(store::updateExecution, execution, event),
                       [&](Result<void> result) {
                         written = std::move(result);
                         done.count_down();
                       });
  done.wait();
  return control->orInsist(std::move(written), execution.id, [on = control, execution, event] {
    return on->ledger.write(store::updateExecution, execution, event);
  });
}

std::shared_ptr<Programs> RunService::programs() const {
  return impl_;
}

std::shared_ptr<Approvals> RunService::approvals() const {
  return impl_;
}

void RunService::Impl::nodeCame() {
  if (control->levels != nullptr) control->levels->image->set(linksOf(control->nodes.offer()));
  startWaiting();
}

void RunService::Impl::nodeLost() {
  const auto runs = live;
  for (const auto& [id, run] : runs) {
    if (run->recorder) endFromOutside(*run, Cause::kNodeLost);
  }
}

const NodeState& RunService::node() const {
  return impl_->control->nodes.current();
}

std::optional<model::PoolStats> RunService::pool() const {
  return !impl_->control->nodes.connected() ? std::nullopt
                                            : impl_->control->nodes.runtime()->pool();
}

std::optional<model::ImageState> RunService::image() const {
  return !impl_->control->nodes.connected() ? std::nullopt : impl_->control->nodes.image();
}

Quotas* RunService::quotas() const {
  return impl_->control->quotas;
}

void RunService::quotasChanged() {
  impl_->startWaiting();
}

Task<Result<base::json::object>> RunService::plan(model::Principal principal,
                                                  model::RunRequest request) {
  const std::shared_ptr<Impl> impl = impl_;
  CO_TRY(settleForAgent(impl->control->store, principal, request));
  store::NewExecution record;
  Asked asked{.request = {.run = std::move(request), .cwd = {}, .parent_id = {}}};
  const AgentJudgement judged = CO_TRY(impl->heldBack(principal, asked));
  if (judged.refusal) co_return std::unexpected(toError(*judged.refusal, "planning the run"));
  const LivePtr live = CO_TRY(impl->prepare(std::move(principal), asked));
  live->held = judged.held;
  co_await impl->consult(*live);
  impl->settleLimits(*live);
  CO_TRY(impl->resolve(*live, std::move(asked), record));
  const Permission granted = impl->permit(*live, base::newId("permit"));
  if (!granted) {
    applyDenial(live->execution, granted.error());
    co_return fail(Code::kDenied, live->execution.error->message);
  }
  if (!impl->control->nodes.connected()) {
    co_return fail(Code::kUnavailable, "planning the run: no node is connected");
  }
  base::json::object plan = CO_TRY(co_await impl->control->nodes.runtime()->plan(granted->permit));
  const auto& argv = live->spec.run.argv;
  plan["command"] = base::json::array(argv.begin(), argv.end());
  for (const model::Command& compile : live->spec.compile) {
    plan["compile"] = base::json::array(compile.argv.begin(), compile.argv.end());
  }
  plan["environment"] = base::json::array(live->spec.env.begin(), live->spec.env.end());
  plan["requested_limits"] = toJsonObject(granted->fields.limits);
  plan["policy_id"] = granted->fields.policy_id;
  if (granted->network)
    plan["network"] = CO_TRY(base::parseJson(model::encodePlan(*granted->network)));
  if (live->held) {
    const auto& by_text = live->held->by_text;
    base::json::value& walls = plan["walls"];
    if (!walls.is_object()) walls.emplace_object();
    walls.get_object()["by_text"] = base::json::array(by_text.begin(), by_text.end());
  }
  co_return plan;
}

Result<Execution> RunService::get(const model::Principal& principal, const std::string& id) {
  const std::shared_ptr<OutputLog> log = impl_->findLog(principal, id);
  // The ledger may have received the digest of the image since.
  const bool whole = log && !(log->closed() && isUnverified(log->latest().provenance));
  if (!whole) return impl_->control->store.get(store::Scope::of(principal), id);
  return log->withOutput();
}

Result<base::json::object> RunService::request(const model::Principal& principal,
                                               const std::string& id) {
  const store::RecordedRequest kept =
      TRY(impl_->control->store.request(store::Scope::of(principal), id));
  base::json::object stored = TRY(parseStored(kept.request_json));
  base::json::object request = TRY(bodyToRepeat(std::move(stored)));
  const model::Principal& by = kept.principal;
  const bool own =
      by.tenant == principal.tenant && by.agent == principal.agent && by.user == principal.user;
  const bool withheld = !own && model::withholdEnv(request);
  base::json::array names;
  if (withheld) names.emplace_back("env");
  return base::json::object{
      {"execution_id", kept.execution},
      {"session_id",
       kept.session_id.empty() ? base::json::value(nullptr) : base::json::value(kept.session_id)},
      {"request", std::move(request)},
      {"withheld", std::move(names)}};
}

Result<std::vector<Execution>> RunService::list(const model::Principal& principal,
                                                const store::ListQuery& query) {
  return impl_->control->store.list(store::Scope::of(principal), query);
}

Result<std::shared_ptr<OutputLog>> RunService::log(const model::Principal& principal,
                                                   const std::string& id) {
  if (auto log = impl_->findLog(principal, id)) return log;
  const Execution execution = TRY(impl_->control->store.get(store::Scope::of(principal), id));
  return OutputLog::ofRecord(impl_->control->executor, execution);
}

Task<Result<Execution>> RunService::wait(model::Principal principal, std::string id,
                                         std::chrono::milliseconds timeout) {
  const std::shared_ptr<Impl> impl = impl_;
  const auto until = base::monotonicNow() + timeout;
  const std::shared_ptr<OutputLog> log = impl->findLog(principal, id);
  const auto settled = [&] { return log->closed() || impl->blocked.contains(id); };
  while (log && !settled() && base::monotonicNow() < until) {
    const auto left = std::chrono::ceil<Millis>(until - base::monotonicNow());
    co_await log->wait(log->version(), left);
  }
  co_return get(principal, id);
}

Task<Result<Execution>> RunService::cancel(model::Principal principal, std::string id) {
  const std::shared_ptr<Impl> impl = impl_;
  const std::string doing = "cancelling an execution";
  if (const LivePtr live = impl->findLive(principal, id)) {
    CO_TRY(mustReach(principal, live->execution.principal, doing));
    co_await impl->cancelLive(live, principal);
  }
  auto is = get(principal, id);
  if (is) CO_TRY(mustReach(principal, is->principal, doing));
  co_return is;
}

// A started and unfinished program of a session.
Task<Result<LivePtr>> RunService::Impl::programOf(model::Principal principal, std::string id,
                                                  std::string_view doing) {
  const LivePtr run = findLive(principal, id);
  const auto refused = [&](std::string_view why) {
    return fail(Code::kConflict, std::string(doing) + ": " + std::string(why));
  };
  if (!run) {
    const auto log = findLog(principal, id);
    const model::Principal maker =
        log ? log->latest().principal
            : CO_TRY(control->store.get(store::Scope::of(principal), id)).principal;
    CO_TRY(mustReach(principal, maker, std::string(doing)));
    co_return refused("the program has ended");
  }
  CO_TRY(mustReach(principal, run->execution.principal, std::string(doing)));
  if (run->execution.session_id.empty()) {
    co_return refused("only programs of a session take it; DELETE cancels this run");
  }
  while (!run->started && !model::isTerminal(run->execution.status))
    co_await run->settled.wait();
  if (model::isTerminal(run->execution.status)) co_return refused("the program has ended");
  co_return run;
}

Task<Result<>> RunService::input(model::Principal principal, std::string id,
                                 model::ProgramInput input) {
  const std::shared_ptr<Impl> impl = impl_;
  const LivePtr run = CO_TRY(co_await impl->programOf(principal, std::move(id), "sending input"));
  CO_TRY(impl->mayType(principal, *run));
  if (!input.data.empty()) CO_TRY(co_await run->host->input(std::move(input.data)));
  if (input.eof) CO_TRY(co_await run->host->input({}));
  co_return Result<>{};
}

Task<Result<>> RunService::signal(model::Principal principal, std::string id, int number) {
  const std::shared_ptr<Impl> impl = impl_;
  const LivePtr run =
      CO_TRY(co_await impl->programOf(std::move(principal), std::move(id), "sending a signal"));
  co_return run->host->signal(number);
}

Task<Result<>> RunService::resize(model::Principal principal, std::string id,
                                  model::TerminalSize size) {
  const std::shared_ptr<Impl> impl = impl_;
  const LivePtr run =
      CO_TRY(co_await impl->programOf(std::move(principal), std::move(id), "resizing a terminal"));
  co_return run->host->resize(size);
}

Result<> RunService::ready() {
  if (impl_->draining) return fail(Code::kUnavailable, "the service is stopping");
  if (const uint32_t refused = impl_->control->unrecorded(); refused > 0) {
    return fail(Code::kUnavailable, "the ledger refuses " + std::to_string(refused) +
                                        " records of runs; they are tried again");
  }
  TRY(impl_->control->engine.ready());
  if (auto health = impl_->control->store.health(); !health) {
    return std::unexpected(std::move(health).error().within("the ledger does not accept writes"));
  }
  if (!impl_->control->nodes.connected()) return fail(Code::kUnavailable, "no node is connected");
  return {};
}

std::shared_ptr<OutputLog> RunService::Impl::findLog(const model::Principal& principal,
                                                     const std::string& id) const {
  if (const LivePtr run = findLive(principal, id)) return run->log;
  const auto found = finished.find(id);
  if (found == finished.end() || !principal.sees(found->second->latest().principal)) return nullptr;
  return found->second;
}

LivePtr RunService::Impl::findLive(const model::Principal& principal, const std::string& id) const {
  const auto found = live.find(id);
  if (found == live.end() || !principal.sees(found->second->execution.principal)) return nullptr;
  return found->second;
}

}  // namespace cloister::orchestrator
