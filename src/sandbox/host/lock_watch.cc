// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/lock_watch.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/log.h"
#include "linux/proc_tree.h"

namespace cloister::runtime {
namespace {

// The rest after a reading, as a multiple of its duration.
constexpr int kRest = 20;

// The process of `first` from which `pid` descends, or -1. `known`: earlier answers.
pid_t sandboxOf(pid_t pid, const std::unordered_set<pid_t>& first,
                std::unordered_map<pid_t, pid_t>& known) {
  constexpr size_t kDeepest = 4096;
  std::vector<pid_t> way;
  pid_t found = -1;
  for (; pid > 1 && way.size() < kDeepest; pid = linux::parentOf(pid)) {
    if (const auto before = known.find(pid); before != known.end()) {
      found = before->second;
      break;
    }
    way.push_back(pid);
    if (first.contains(pid)) {
      found = pid;
      break;
    }
  }
  for (const pid_t each : way)
    known[each] = found;
  return found;
}

}  // namespace

uint64_t locksEach(const linux::FileLocks& locks, uint64_t most, size_t holders) {
  if (locks.whole) return most;
  return std::min<uint64_t>(most, locks.all / 2 / std::max<size_t>(holders, 1));
}

std::chrono::steady_clock::duration restAfter(const LockWatchConfig& config,
                                              std::chrono::steady_clock::duration took) {
  using Duration = std::chrono::steady_clock::duration;
  const auto rest = std::min<Duration>(kRest * took, config.longest_rest);
  return std::max<Duration>(rest, config.period);
}

LockWatch::LockWatch(boost::asio::any_io_executor executor, LockWatchConfig config)
    : executor_(std::move(executor)), config_(std::move(config)), timer_(executor_) {}

void LockWatch::watch(std::weak_ptr<LockHolder> holder) {
  holders_.push_back(std::move(holder));
  if (!std::exchange(watching_, true)) rest(config_.period);
}

void LockWatch::rest(std::chrono::steady_clock::duration pause) {
  timer_.expires_after(pause);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) self->look();
  });
}

// Removes ended holders. True if any is left.
bool LockWatch::dropEnded() {
  std::erase_if(holders_, [](const auto& each) { return each.expired(); });
  return watching_ = !holders_.empty();
}

void LockWatch::look() {
  if (!dropEnded()) return;
  const auto room = linux::roomForFileLocks(config_.room);
  if (room && *room <= config_.most) return rest(config_.period);
  readAside();
}

void LockWatch::readAside() {
  std::vector<pid_t> first;
  for (const auto& each : holders_) {
    const auto holder = each.lock();
    const pid_t pid = holder ? holder->firstProcess() : -1;
    if (pid > 1) first.push_back(pid);
  }
  if (!aside_) aside_.emplace(1);
  boost::asio::post(*aside_, [weak = weak_from_this(), executor = executor_, path = config_.locks,
                              first = std::move(first)] {
    boost::asio::post(executor, [weak, seen = read(path, first)] {
      if (const auto self = weak.lock()) self->judge(seen);
    });
  });
}

LockWatch::Seen LockWatch::read(const std::string& path, const std::vector<pid_t>& first) {
  const auto begin = std::chrono::steady_clock::now();
  Seen seen;
  auto locks = linux::readFileLocks(kMostRead, path);
  if (locks) {
    seen.locks = *std::move(locks);
    const std::unordered_set<pid_t> sandboxes(first.begin(), first.end());
    std::unordered_map<pid_t, pid_t> known;
    for (const auto& [pid, held] : seen.locks.held) {
      const pid_t sandbox = sandboxOf(pid, sandboxes, known);
      if (sandbox > 0) seen.held[sandbox] += held;
    }
  } else {
    base::log(base::Level::kError, "file locks not seen", {{"error", locks.error().message}});
  }
  seen.took = std::chrono::steady_clock::now() - begin;
  return seen;
}

void LockWatch::judge(const Seen& seen) {
  const uint64_t most = locksEach(seen.locks, config_.most, holders_.size());
  // Ending a holder may release other holders.
  const auto holders = holders_;
  for (const auto& each : holders) {
    const auto holder = each.lock();
    const auto found = holder ? seen.held.find(holder->firstProcess()) : seen.held.end();
    if (found == seen.held.end() || found->second <= most) continue;
    holder->endFor({.held = found->second, .most = most});
  }
  rest(restAfter(config_, seen.took));
}

}  // namespace cloister::runtime
