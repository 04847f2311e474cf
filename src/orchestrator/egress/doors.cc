// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/egress/doors.h"

#include <algorithm>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/log.h"
#include "orchestrator/egress/attempts.h"

namespace cloister::orchestrator {
namespace {

using wire::egress::Attempts;

constexpr size_t kMostPast = 4096;
constexpr size_t kMostLate = 4096;
constexpr size_t kMostRefusedShown = 64;  // destinations of a door
// Fewer than a remote engine takes at a time: the rest is for new runs. Further doors ask at the
// next look.
constexpr size_t kQuestionsAtOnce = 128;
// With the interval between looks, a removal is in force well within a second.
constexpr Millis kLedgerPatience{400};
constexpr Millis kSendAgain{50};

std::unexpected<Error> notOpened(Error error) {
  error = std::move(error).within("opening the network");
  if (error.code == Code::kUnavailable) error.code = Code::kInternal;  // no node is lost
  return std::unexpected(std::move(error));
}

bool isSame(model::NetworkPlan a, const model::NetworkPlan& b) {
  a.generation = b.generation;
  return a == b;
}

// Of a later plan: whose decision it follows.
std::string_view reasonOf(const std::optional<model::NetworkPlan>& by_policy,
                          const model::NetworkPlan& plan) {
  return by_policy && plan.rules.size() > by_policy->rules.size() ? "approval" : "policy";
}

}  // namespace

model::NetworkPlan narrowed(const model::NetworkPlan& before, const model::NetworkPlan& plan) {
  model::NetworkPlan kept = before;
  kept.policy_id = plan.policy_id;
  kept.on_denied = plan.on_denied;
  std::erase_if(kept.rules, [&](const model::PlanRule& rule) {
    return std::ranges::find(plan.rules, rule) == plan.rules.end();
  });
  std::erase_if(kept.internal_networks, [&](const std::string& network) {
    return std::ranges::find(plan.internal_networks, network) == plan.internal_networks.end();
  });
  const bool stricter =
      plan.requests_per_minute != 0 &&
      (before.requests_per_minute == 0 || plan.requests_per_minute < before.requests_per_minute);
  if (stricter) kept.requests_per_minute = plan.requests_per_minute;
  return kept;
}

bool onlyNarrows(const model::NetworkPlan& before, const model::NetworkPlan& plan) {
  return isSame(narrowed(before, plan), plan);
}

Doors::Doors(boost::asio::any_io_executor executor, DoorParts parts, Terms terms)
    : executor_(std::move(executor)),
      parts_(parts),
      terms_(terms),
      ledger_(parts.store),
      link_(std::make_shared<EgressLink>(executor_, static_cast<EgressLink::Watcher&>(*this),
                                         terms.link)) {}

void Doors::start(std::string socket_path) {
  link_->start();
  async::spawn(executor_, lookRegularly());
  async::spawn(executor_, EgressLink::keepConnected(link_, std::move(socket_path)));
}

void Doors::start(net::FrameConnection::Stream stream) {
  link_->start();
  async::spawn(executor_, lookRegularly());
  async::spawn(executor_, EgressLink::serve(link_, std::move(stream)));
}

model::SignedPlan Doors::sign(const model::NetworkPlan& plan) const {
  std::string encoded = model::encodePlan(plan);
  std::string signature = parts_.key.sign(encoded);
  return {std::move(encoded), std::move(signature)};
}

Doors::DoorPtr Doors::find(const std::string& permit) const {
  const auto found = doors_.find(permit);
  return found == doors_.end() ? nullptr : found->second;
}

// --- of runs and sessions

Task<Result<>> Doors::open(model::NetworkPlan first, DoorOwner owner, Again again,
                           DoorSecrets secrets) {
  const auto door = std::make_shared<Door>();
  if (!secrets.values.empty()) {
    door->secrets =
        wire::egress::encodeSecrets({.permit = first.permit, .values = std::move(secrets.values)});
  }
  door->redacted = std::move(secrets.redacted);
  door->owner = std::move(owner);
  door->again = std::move(again);
  door->by_policy = first;
  door->plan = std::move(first);
  door->signed_plan = sign(door->plan);
  const std::string permit = door->plan.permit;
  if (!doors_.emplace(permit, door).second) {
    co_return fail(Code::kInternal, "opening a door: permit " + permit + " has one already");
  }
  parts_.metrics.doors(doors_.size());
  auto sent = co_await EgressLink::sendPlan(link_, door->signed_plan, door->secrets);
  if (!sent) {
    close(permit);
    co_return notOpened(std::move(sent).error());
  }
  door->first = *std::move(sent);
  co_return Result<>{};
}

Task<Result<std::string>> Doors::confirm(std::string permit) {
  const DoorPtr door = find(permit);
  if (!door || !door->first) {
    co_return fail(Code::kInternal, "opening the network: permit " + permit + " has no new door");
  }
  auto planned = co_await EgressLink::planned(link_, std::exchange(door->first, nullptr));
  if (planned) {
    door->opened = true;
    door->certificate = *planned;
    parts_.metrics.planned("start");
    co_return planned;
  }
  close(permit);
  co_return notOpened(std::move(planned).error());
}

void Doors::close(const std::string& permit) {
  const auto found = doors_.find(permit);
  if (found == doors_.end()) return;
  const DoorPtr door = found->second;
  door->closed = true;
  door->again = nullptr;
  door->secrets = {};
  doors_.erase(found);
  link_->forget(permit);
  past_[permit] = door;
  past_order_.push_back(permit);
  if (past_order_.size() > kMostPast) {
    past_.erase(past_order_.front());
    past_order_.pop_front();
  }
  parts_.metrics.doors(doors_.size());
  if (const auto asker = asker_.lock()) asker->closed(permit);
}

Task<Result<model::NetworkUse>> Doors::use(std::string permit) {
  if (!find(permit)) co_return fail(Code::kNotFound, "permit " + permit + " has no door");
  co_return co_await EgressLink::use(link_, std::move(permit));
}

// --- of cloister-egress

// A process that has the plan already accepts its repetition.
Task<void> Doors::connected() {
  parts_.metrics.egress(true, link_->refuses());
  const auto doors = doors_;
  for (const auto& [permit, door] : doors) {
    if (!door->closed) co_await send(door, door->signed_plan);
  }
}

void Doors::disconnected() {
  parts_.metrics.egress(false, link_->refuses());
}

void Doors::refusing(bool refuses) {
  parts_.metrics.egress(link_->connected(), refuses);
}

// Without a connection nothing is in force, and connected() sends the plan. With one, the link has
// too many requests at the moment.
Task<void> Doors::send(DoorPtr door, model::SignedPlan plan) {
  const auto stale = [&] { return door->closed || door->signed_plan.encoded != plan.encoded; };
  auto sent = co_await EgressLink::plan(link_, plan, door->secrets);
  while (!sent && sent.error().code == Code::kUnavailable && link_->connected() && !stale()) {
    boost::asio::steady_timer pause(executor_, kSendAgain);
    co_await pause.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    sent = co_await EgressLink::plan(link_, plan, door->secrets);
  }
  if (sent && *sent != door->certificate && !door->closed) {
    // The key of an authority is in the memory of one process alone.
    base::log(base::Level::kWarn,
              "a running sandbox does not trust the new authority of its inspected destinations",
              {{"permit", door->plan.permit}});
  }
  if (sent || sent.error().code == Code::kUnavailable || stale()) co_return;
  // Without its plan the sandbox has no network.
  base::log(base::Level::kError, "a plan was refused; its door is shut",
            {{"permit", door->plan.permit}, {"reason", sent.error().message}});
  link_->forget(door->plan.permit);
}

Task<Result<>> Doors::record(wire::egress::Batch batch) {
  const auto owner_of = [this](const std::string& permit) -> const DoorOwner* {
    if (const DoorPtr door = find(permit)) return &door->owner;
    const auto past = past_.find(permit);
    return past == past_.end() ? nullptr : &past->second->owner;
  };
  redact(batch);
  auto events = attemptEvents(batch, owner_of);
  if (!events.empty()) CO_TRY(co_await ledger_.write(store::appendEvents, std::move(events)));
  count(batch);
  co_return Result<>{};
}

// Read once in the life of the process, at its first connection. All rows of a batch are of one
// transaction. The search is bounded: with many entries since the batch it may find none, and the
// batch is recorded twice.
uint64_t Doors::lastRecorded() {
  store::AuditSearch newest;
  newest.action = kAttemptsAction;
  newest.newest_first = true;
  newest.limit = 1;
  const auto page = parts_.store.searchAudit(store::Scope::allTenants(), newest);
  if (!page) {
    base::log(base::Level::kWarn, "the last recorded attempts are not known",
              {{"reason", page.error().message}});
  }
  return page && !page->entries.empty() ? batchOf(page->entries.front().event) : 0;
}

// A program may ask for a host whose name has a secret.
void Doors::redact(wire::egress::Batch& batch) const {
  for (Attempts& each : batch.attempts) {
    DoorPtr door = find(each.permit);
    if (const auto past = past_.find(each.permit); !door && past != past_.end())
      door = past->second;
    if (!door || !door->redacted) continue;
    each.host = door->redacted(each.host);
    each.reason = door->redacted(each.reason);
  }
}

void Doors::count(const wire::egress::Batch& batch) {
  const auto asker = asker_.lock();
  for (const Attempts& each : batch.attempts) {
    parts_.metrics.networkAttempts(each.allowed, each.transport, each.count);
    parts_.metrics.networkBytes(each.bytes_in, each.bytes_out);
    if (!each.allowed && model::isPackageRule(each.rule)) {
      // No violation of the agent: packages name other packages.
      parts_.metrics.packageRefused(each.rule, each.count);
      continue;
    }
    DoorPtr door = find(each.permit);
    if (const auto past = past_.find(each.permit); !door && past != past_.end())
      door = past->second;
    if (each.allowed || !door || !asker || door->refused.size() >= kMostRefusedShown) continue;
    if (door->refused.emplace(each.host, each.port).second) asker->refused(door->owner, each);
  }
  if (batch.left_out > 0) parts_.metrics.networkLeftOut(batch.left_out);
}

void Doors::wanted(wire::egress::Wanted wanted) {
  const DoorPtr door = find(wanted.permit);
  const auto asker = asker_.lock();
  if (!door || !asker) return;
  // An approver's record would have the name.
  if (door->redacted && door->redacted(wanted.host) != wanted.host) return;
  asker->wanted(wanted, door->owner);
}

// --- later plans

Task<void> Doors::lookRegularly() {
  boost::asio::steady_timer timer(executor_);
  for (uint32_t turn = 1;; turn++) {
    timer.expires_after(terms_.look);
    co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    link_->ledgerAccepts(parts_.store.health().has_value());
    if (!recording_late_) async::spawn(executor_, recordLate());
    const bool near = parts_.engine.name() == "embedded";
    const bool changed = std::exchange(policy_id_, parts_.engine.policyId()) != policy_id_;
    const bool ask_policy = near || changed || turn % terms_.far_looks == 0;
    const auto doors = doors_;
    for (const auto& [permit, door] : doors) {
      door->ask_policy = door->ask_policy || ask_policy;
      async::spawn(executor_, lookAt(door));
    }
  }
}

// No door waits for another one: neither for its question, nor for its row in the ledger.
Task<void> Doors::lookAt(DoorPtr door) {
  if (door->closed || !door->opened || std::exchange(door->looked_at, true)) co_return;
  if (door->ask_policy && questions_ < kQuestionsAtOnce) co_await askPolicy(door);
  if (!door->closed) {
    model::NetworkPlan plan = wantedPlan(*door);
    if (!isSame(plan, door->plan)) co_await replace(door, std::move(plan));
  }
  door->looked_at = false;
}

Task<void> Doors::askPolicy(DoorPtr door) {
  door->ask_policy = false;
  ++questions_;
  auto by_policy = co_await door->again();
  --questions_;
  if (!door->closed) door->by_policy = std::move(by_policy);
}

// An approval adds to what policy allows, and lifts no denial of the sandbox. Approvals beyond the
// bounds of a plan wait: cloister-egress would refuse the plan, and the door would be shut.
model::NetworkPlan Doors::wantedPlan(const Door& door) const {
  model::NetworkPlan plan = door.plan;
  if (!door.by_policy) {
    plan.rules.clear();
    plan.internal_networks.clear();
    plan.on_denied = model::OnDenied::kDeny;  // no approval could help
    plan.policy_id = parts_.engine.policyId();
    return plan;
  }
  plan = *door.by_policy;
  plan.permit = door.plan.permit;
  const auto asker = asker_.lock();
  const auto granted = asker ? asker->granted(plan.permit) : std::vector<model::PlanRule>();
  if (granted.empty() || plan.rules.size() >= model::kMaxNetworkEntries) return plan;
  const model::NetworkPlan by_policy = plan;
  const size_t room = std::min(granted.size(), model::kMaxNetworkEntries - plan.rules.size());
  plan.rules.insert(plan.rules.begin(), granted.begin(),
                    granted.begin() + static_cast<ptrdiff_t>(room));
  return model::encodePlan(plan).size() <= model::kMaxPlanBytes ? plan : by_policy;
}

// Usually the row is written within milliseconds, and the whole plan follows the one before:
// connections of a rule that was only rewritten live on. While the ledger is slow or refuses, what
// the plan takes away is put in force alone.
Task<void> Doors::replace(DoorPtr door, model::NetworkPlan plan) {
  if (!onlyNarrows(door->plan, plan)) {
    auto recorded = co_await recordAddition(door, plan);
    if (door->closed) co_return;
    if (recorded) co_return co_await putInForce(door, *std::move(recorded));
    plan = narrowed(door->plan, plan);
    if (isSame(plan, door->plan)) co_return;
  }
  plan.generation = ++door->generations;
  recordLater(plannedEvent(door->owner, plan, reasonOf(door->by_policy, plan)));
  co_await putInForce(door, std::move(plan));
}

// The plan with the generation of its row, once the row is in the ledger. Nothing if the ledger
// takes too long or refuses. A row of a plan that is not wanted any more has no effect: the next
// look writes another one.
Task<std::optional<model::NetworkPlan>> Doors::recordAddition(DoorPtr door,
                                                              model::NetworkPlan plan) {
  if (!door->addition) {
    door->addition = std::make_shared<Addition>(executor_);
    door->addition->plan = plan;
    door->addition->plan.generation = ++door->generations;
    async::spawn(executor_, writeAddition(door, door->addition));
  }
  const auto addition = door->addition;
  const base::Monotonic until = addition->since + kLedgerPatience;
  while (!addition->written && base::monotonicNow() < until)
    co_await addition->done.wait(until);
  if (!addition->written) co_return std::nullopt;
  door->addition = nullptr;
  const bool wanted =
      isSame(addition->plan, plan) && addition->plan.generation > door->plan.generation;
  co_return *addition->written&& wanted ? std::optional(addition->plan) : std::nullopt;
}

Task<void> Doors::writeAddition(DoorPtr door, std::shared_ptr<Addition> addition) {
  const model::NetworkPlan& plan = addition->plan;
  const auto event = plannedEvent(door->owner, plan, reasonOf(door->by_policy, plan));
  addition->written = co_await ledger_.write(store::appendEvent, event);
  if (!*addition->written) {
    base::log(base::Level::kError, "a later network plan not recorded",
              {{"permit", plan.permit}, {"reason", addition->written->error().message}});
  }
  addition->done.notify();
}

Task<void> Doors::putInForce(DoorPtr door, model::NetworkPlan plan) {
  door->signed_plan = sign(plan);
  door->plan = std::move(plan);
  parts_.metrics.planned("later");
  // Without a connection nothing is in force; connected() sends the plan.
  if (link_->connected()) co_await send(door, door->signed_plan);
}

void Doors::recordLater(model::AuditEvent event) {
  if (late_.size() < kMostLate) late_.push_back(std::move(event));
  if (!recording_late_) async::spawn(executor_, recordLate());
}

// One at a time. The rest follows at a later look.
Task<void> Doors::recordLate() {
  recording_late_ = true;
  while (!late_.empty()) {
    const model::AuditEvent event = late_.front();
    const auto written = co_await ledger_.write(store::appendEvent, event);
    if (!written) break;
    late_.pop_front();
  }
  recording_late_ = false;
}

}  // namespace cloister::orchestrator
