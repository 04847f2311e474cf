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

bool isSame(model::NetworkPlan a, const model::NetworkPlan& b) {
  a.generation = b.generation;
  return a == b;
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

Task<Result<std::string>> Doors::open(model::NetworkPlan first, DoorOwner owner, Again again,
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
  auto sent = co_await EgressLink::plan(link_, door->signed_plan, door->secrets);
  if (sent) {
    door->opened = true;
    door->certificate = *sent;
    parts_.metrics.planned("start");
    co_return sent;
  }
  close(permit);
  Error error = std::move(sent).error().within("opening the network");
  if (error.code == Code::kUnavailable) error.code = Code::kInternal;
  co_return std::unexpected(std::move(error));
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

Task<void> Doors::send(DoorPtr door, model::SignedPlan plan) {
  const auto sent = co_await EgressLink::plan(link_, plan, door->secrets);
  if (sent && *sent != door->certificate && !door->closed) {
    // The key of an authority is in the memory of one process alone.
    base::log(base::Level::kWarn,
              "a running sandbox does not trust the new authority of its inspected destinations",
              {{"permit", door->plan.permit}});
  }
  if (sent || sent.error().code == Code::kUnavailable) co_return;
  if (door->closed || door->signed_plan.encoded != plan.encoded) co_return;  // a later one came
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
    co_await recordLate();
    const bool near = parts_.engine.name() == "embedded";
    const bool changed = std::exchange(policy_id_, parts_.engine.policyId()) != policy_id_;
    const bool ask_policy = near || changed || turn % terms_.far_looks == 0;
    const auto doors = doors_;
    for (const auto& [permit, door] : doors)
      co_await lookAt(door, ask_policy);
  }
}

Task<void> Doors::lookAt(DoorPtr door, bool ask_policy) {
  if (door->closed || !door->opened) co_return;
  if (ask_policy) {
    auto by_policy = co_await door->again();
    if (door->closed) co_return;
    door->by_policy = std::move(by_policy);
  }
  model::NetworkPlan plan = wantedPlan(*door);
  if (!isSame(plan, door->plan)) co_await replace(door, std::move(plan));
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

// While the ledger refuses the row of an addition, only what the plan takes away is put in force.
Task<void> Doors::replace(DoorPtr door, model::NetworkPlan plan) {
  const bool approved = door->by_policy && plan.rules.size() != door->by_policy->rules.size();
  plan.generation = door->plan.generation + 1;
  const model::AuditEvent event = plannedEvent(door->owner, plan, approved ? "approval" : "policy");
  if (onlyNarrows(door->plan, plan)) {
    co_await putInForce(door, std::move(plan));
    if (late_.size() < kMostLate) late_.push_back(event);
    co_return co_await recordLate();
  }
  const auto written = co_await ledger_.write(store::appendEvent, event);
  if (door->closed) co_return;
  if (written) co_return co_await putInForce(door, std::move(plan));
  base::log(base::Level::kError, "a later network plan not recorded",
            {{"permit", plan.permit}, {"reason", written.error().message}});
  model::NetworkPlan kept = narrowed(door->plan, plan);
  if (!isSame(kept, door->plan)) co_await replace(door, std::move(kept));
}

Task<void> Doors::putInForce(DoorPtr door, model::NetworkPlan plan) {
  door->signed_plan = sign(plan);
  door->plan = std::move(plan);
  parts_.metrics.planned("later");
  // Without a connection nothing is in force; connected() sends the plan.
  if (link_->connected()) co_await send(door, door->signed_plan);
}

Task<void> Doors::recordLate() {
  while (!late_.empty()) {
    const model::AuditEvent event = late_.front();
    const auto written = co_await ledger_.write(store::appendEvent, event);
    if (!written) co_return;
    late_.pop_front();
  }
}

}  // namespace cloister::orchestrator
