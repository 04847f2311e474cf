// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/cpu_shares.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace cloister::runtime {
namespace {

constexpr uint64_t kMostDebt = 2'000'000;  // microseconds: debt above is forgiven
constexpr uint32_t kNearly = 80;           // percent of the given share: higher usage asks for more
constexpr uint32_t kSpare = 150;           // percent of the used share: the next share of a low
                                           // user

uint32_t wantOf(const CpuNeed& need) {
  const bool wants_more = uint64_t{need.used} * 100 >= uint64_t{need.given} * kNearly;
  const uint64_t want = wants_more ? need.most : uint64_t{need.used} * kSpare / 100;
  return static_cast<uint32_t>(std::min<uint64_t>(std::max<uint64_t>(want, kLeastCpu), need.most));
}

// Gives each member up to its `wants`, smallest first, and returns the rest.
uint32_t giveEvenly(uint32_t left, std::span<const uint32_t> wants, std::vector<uint32_t>& given) {
  std::vector<size_t> order(wants.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return wants[i] - given[i]; });
  for (size_t done = 0; done < order.size(); ++done) {
    const size_t i = order[done];
    const auto part = static_cast<uint32_t>(left / (order.size() - done));
    const uint32_t more = std::min(wants[i] - given[i], part);
    given[i] += more;
    left -= more;
  }
  return left;
}

}  // namespace

std::vector<uint32_t> shareCpu(uint32_t together, std::span<const CpuNeed> needs) {
  std::vector<uint32_t> given(needs.size());
  std::vector<uint32_t> wants;
  std::vector<uint32_t> most;
  for (size_t i = 0; i < needs.size(); ++i) {
    given[i] = std::min(kLeastCpu, needs[i].most);
    wants.push_back(wantOf(needs[i]));
    most.push_back(needs[i].most);
  }
  const uint32_t least = std::accumulate(given.begin(), given.end(), uint32_t{0});
  const uint32_t left = giveEvenly(together - std::min(together, least), wants, given);
  giveEvenly(left, most, given);
  return given;
}

CpuShares::CpuShares(boost::asio::any_io_executor executor, std::chrono::milliseconds period,
                     std::function<base::Monotonic()> now)
    : executor_(std::move(executor)), period_(period), now_(std::move(now)), timer_(executor_) {}

std::shared_ptr<void> CpuShares::add(const std::string& owner, uint32_t together,
                                     CpuSharer& sharer) {
  const auto [found, is_new] = owners_.try_emplace(owner);
  Owner& of = found->second;
  if (is_new) of.looked_at = now_();
  of.together = together;
  // A new member has used none of no share, and so wants its maximum.
  of.members.push_back({.sharer = &sharer, .micros = sharer.cpuMicros()});
  share(of);
  if (!watching_) rest();
  return {&sharer, [weak = weak_from_this(), owner](const CpuSharer* which) {
            if (const auto self = weak.lock()) self->leave(owner, which);
          }};
}

void CpuShares::leave(const std::string& owner, const CpuSharer* sharer) {
  Owner& of = owners_.at(owner);
  const auto found = std::ranges::find(of.members, sharer, &Member::sharer);
  count(of, *found);
  of.members.erase(found);
  share(of);
}

void CpuShares::count(Owner& owner, Member& member) {
  const uint64_t micros = std::max(member.sharer->cpuMicros(), member.micros);
  owner.used_micros += micros - member.micros;
  member.micros = micros;
}

// Updates the usage since the last look, of each member and of all.
void CpuShares::look(Owner& owner) const {
  const base::Monotonic now = now_();
  const auto since = static_cast<uint64_t>(std::max<int64_t>(
      1, std::chrono::duration_cast<std::chrono::microseconds>(now - owner.looked_at).count()));
  owner.looked_at = now;
  for (Member& member : owner.members) {
    const uint64_t before = member.micros;
    count(owner, member);
    member.used = static_cast<uint32_t>(
        std::min<uint64_t>((member.micros - before) * 1000 / since, UINT32_MAX));
  }
  const uint64_t had = since * owner.together / 1000;
  const uint64_t used = std::exchange(owner.used_micros, 0) + owner.debt_micros;
  owner.debt_micros = std::min(used - std::min(used, had), kMostDebt);
}

// The owner's processors after paying off the debt.
uint32_t CpuShares::partOf(const Owner& owner) const {
  const auto period =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(period_).count());
  const uint64_t debt = owner.debt_micros * 1000 / period;
  return owner.together - static_cast<uint32_t>(std::min<uint64_t>(debt, owner.together));
}

void CpuShares::share(Owner& owner) const {
  std::vector<CpuNeed> needs;
  for (const Member& member : owner.members)
    needs.push_back({.used = member.used, .given = member.given, .most = member.sharer->cpuMost()});
  const std::vector<uint32_t> given = shareCpu(partOf(owner), needs);
  for (size_t i = 0; i < given.size(); ++i) {
    Member& member = owner.members[i];
    // A slightly larger share is not worth restarting the kernel's period.
    const bool more = given[i] > member.given + member.given / 10 || given[i] == needs[i].most;
    if (given[i] == member.given || (given[i] > member.given && !more)) continue;
    if (member.sharer->giveCpu(given[i])) member.given = given[i];
  }
}

void CpuShares::rest() {
  watching_ = true;
  timer_.expires_after(period_);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) self->lookAtAll();
  });
}

void CpuShares::lookAtAll() {
  watching_ = false;
  for (auto next = owners_.begin(); next != owners_.end();) {
    Owner& owner = next->second;
    look(owner);
    share(owner);
    const bool over = owner.members.empty() && owner.debt_micros == 0;
    next = over ? owners_.erase(next) : std::next(next);
  }
  if (!owners_.empty()) rest();
}

}  // namespace cloister::runtime
