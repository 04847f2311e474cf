// SPDX-License-Identifier: Apache-2.0
#include "egress/service/plans.h"

#include <utility>

#include "base/log.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;

std::string certificateOf(const PermitState& state) {
  return state.authority() ? state.authority()->certificate() : std::string();
}

std::unexpected<Error> refusedPlan(Code code, std::string_view why) {
  return fail(code, "taking a network plan: " + std::string(why));
}

}  // namespace

Plans::Plans(asio::any_io_executor executor, const Settings& settings)
    : executor_(executor), settings_(settings), arrived_(std::move(executor)) {}

Result<std::string> Plans::accept(const model::SignedPlan& plan) {
  if (!key_) return refusedPlan(Code::kDenied, "there is no key to check it with");
  if (!key_->verify(plan.encoded, plan.signature)) {
    return refusedPlan(Code::kDenied, "its signature is not the control plane's");
  }
  auto decoded = model::decodePlan(plan.encoded);
  if (!decoded) return std::unexpected(std::move(decoded).error().within("taking a network plan"));
  const std::string permit = decoded->permit;
  auto taken = put(std::make_shared<const PlanInForce>(
      PlanInForce{*std::move(decoded), base::sha256Hex(plan.encoded), plan.encoded.size()}));
  if (!taken) refuse(permit, taken.error());
  return taken;
}

// The permit's door may be waiting already.
void Plans::refuse(const std::string& permit, const Error& why) {
  if (permits_.contains(permit) || refused_.size() >= settings_.plans) return;
  refused_[permit] = why;
  arrived_.notify();
}

Result<std::string> Plans::put(std::shared_ptr<const PlanInForce> plan) {
  const std::string& id = plan->plan.permit;
  const auto known = permits_.find(id);
  const PlanInForce* before = known == permits_.end() ? nullptr : known->second.state->plan().get();
  if (before != nullptr && before->sha256 == plan->sha256) {
    known->second.round = round_;
    return certificateOf(*known->second.state);
  }
  if (before != nullptr && plan->plan.generation <= before->plan.generation) {
    return refusedPlan(Code::kDenied, "generation " + std::to_string(plan->plan.generation) +
                                          " is not higher than " +
                                          std::to_string(before->plan.generation));
  }
  const size_t bytes_before = before == nullptr ? 0 : before->bytes;
  if (bytes_ - bytes_before + plan->bytes > settings_.plan_bytes ||
      (known == permits_.end() && permits_.size() >= settings_.plans)) {
    return refusedPlan(Code::kQuota, "there are too many plans");
  }
  Entry& entry = permits_[id];
  // A plan that ended and comes again, as after a slow reconnection, is that of the same door.
  if (const auto ended = ended_.find(id); !entry.state && ended != ended_.end()) {
    entry.state = ended->second.lock();
    ended_.erase(ended);
  }
  if (!entry.state) entry.state = std::make_shared<PermitState>(executor_, id, settings_);
  entry.round = round_;
  refused_.erase(id);
  if (auto early = early_.extract(id)) entry.state->learn(std::move(early.mapped()));
  const size_t bytes = plan->bytes;
  auto agent = agentBucket(plan->plan);
  if (auto set = entry.state->set(std::move(plan), std::move(agent)); !set) {
    if (before == nullptr) permits_.erase(id);
    return std::unexpected(std::move(set).error().within("taking a network plan"));
  }
  bytes_ += bytes - bytes_before;
  arrived_.notify();
  return certificateOf(*entry.state);
}

// All sandboxes of an agent share the agent's requests per minute, also one after another: a bucket
// stays until it is full again.
std::shared_ptr<Bucket> Plans::agentBucket(const model::NetworkPlan& plan) {
  constexpr double kMinute = 60.0;
  if (plan.requests_per_minute == 0) return nullptr;
  std::erase_if(agents_, [](const auto& entry) {
    return entry.second.use_count() == 1 && entry.second->full();
  });
  std::shared_ptr<Bucket>& bucket = agents_[plan.tenant + '\0' + plan.agent];
  const double rate = plan.requests_per_minute / kMinute;
  if (!bucket || bucket->perSecond() != rate)
    bucket = std::make_shared<Bucket>(rate, plan.requests_per_minute);
  return bucket;
}

void Plans::forget(const std::string& permit) {
  refused_.erase(permit);
  const auto known = permits_.find(permit);
  early_.erase(permit);
  if (known != permits_.end()) drop(known, true);
}

void Plans::learn(const std::string& permit, SecretValues values) {
  if (const auto state = find(permit)) return state->learn(std::move(values));
  if (early_.size() < settings_.plans || early_.contains(permit)) {
    early_[permit] = std::move(values);
  }
}

void Plans::drop(std::map<std::string, Entry>::iterator entry, bool forever) {
  const auto state = std::move(entry->second.state);
  permits_.erase(entry);
  if (state->plan()) bytes_ -= state->plan()->bytes;
  state->end(forever);
  std::erase_if(ended_, [](const auto& each) { return each.second.expired(); });
  ended_[state->id()] = state;
}

std::shared_ptr<PermitState> Plans::find(const std::string& permit) const {
  const auto known = permits_.find(permit);
  return known == permits_.end() ? nullptr : known->second.state;
}

asio::awaitable<Result<std::shared_ptr<PermitState>>> Plans::await(std::string permit,
                                                                   std::string sha256,
                                                                   base::Monotonic deadline,
                                                                   std::function<bool()> wanted) {
  while (true) {
    if (!wanted()) co_return fail(Code::kUnavailable, "opening a door: it was detached");
    if (auto state = find(permit)) {
      const PlanInForce& plan = *state->plan();
      if (plan.plan.generation == 1 && plan.sha256 != sha256) {
        co_return fail(Code::kDenied, "opening a door: the permit's plan is another one");
      }
      co_return state;
    }
    if (const auto refused = refused_.find(permit); refused != refused_.end()) {
      co_return std::unexpected(refused->second);
    }
    if (base::monotonicNow() >= deadline) {
      co_return fail(Code::kUnavailable,
                     "opening a door: the control plane has sent no plan for " + permit);
    }
    co_await arrived_.wait(deadline);
  }
}

void Plans::endRound() {
  early_.clear();
  size_t ended = 0;
  for (auto entry = permits_.begin(); entry != permits_.end();) {
    const auto each = entry++;
    if (each->second.round == round_) continue;
    drop(each, false);
    ++ended;
  }
  if (ended == 0) return;
  base::log(base::Level::kInfo, "plans of an earlier control plane ended",
            {{"plans", std::to_string(ended)}});
}

}  // namespace cloister::egress
