// SPDX-License-Identifier: Apache-2.0
// CpuShares: what sandboxes that belong together, as those of an agent, may use of processors
// together. Each has a limit of its own in its control group; while they live, that is kept so low
// that all of them stay within what they have together, and what one leaves goes to the others.
//
// A group above theirs would do the same in the kernel. But a sandbox that is ready before it is
// known whose it will be has its group already, and a group cannot be moved. A group begins each
// time that its limit is written with all of a period's time, so what was used is added up here, of
// sandboxes that have ended too, and what was too much is taken from what they get next. One
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"

namespace cloister::runtime {

// A sandbox, to who shares processors out. Amounts are thousandths of a processor.
class CpuSharer {
 public:
  virtual ~CpuSharer() = default;
  [[nodiscard]] virtual uint64_t cpuMicros() const = 0;  // used so far
  [[nodiscard]] virtual uint32_t cpuMost() const = 0;    // that its own limits allow
  // From now on it may have so much, and never more than its own limits allow. False: it has what
  // it had before.
  virtual bool giveCpu(uint32_t millis) = 0;
};

// What each may have at least, as the kernel counts no less of a period of 100 ms than 1 ms. So
// many sandboxes that their least exceeds what they have together get the least each.
inline constexpr uint32_t kLeastCpu = 10;

// What one did with what it had lately, and may have at most.
struct CpuNeed {
  uint32_t used = 0;
  uint32_t given = 0;
  uint32_t most = 0;
};

// Shares `together` out: who used nearly all of what it had may want its most; who used less wants
// some more than that. Wants are met evenly, and what is left is spread over all.
std::vector<uint32_t> shareCpu(uint32_t together, std::span<const CpuNeed> needs);

class CpuShares : public std::enable_shared_from_this<CpuShares> {
 public:
  // `now` tells how long ago it last looked.
  explicit CpuShares(boost::asio::any_io_executor executor,
                     std::chrono::milliseconds period = std::chrono::milliseconds(200),
                     std::function<base::Monotonic()> now = base::monotonicNow);
  CpuShares(const CpuShares&) = delete;
  CpuShares& operator=(const CpuShares&) = delete;
  ~CpuShares() = default;

  // With all of `owner`, who from now on have `together`, until what is returned goes; it goes
  // before `sharer` does, who can tell then what it has used.
  std::shared_ptr<void> add(const std::string& owner, uint32_t together, CpuSharer& sharer);

 private:
  struct Member {
    CpuSharer* sharer;
    uint64_t micros = 0;  // used when it was last looked at
    uint32_t used = 0;    // lately
    uint32_t given = 0;
  };
  struct Owner {
    uint32_t together = 0;
    std::vector<Member> members;
    uint64_t used_micros = 0;  // since it was last looked at
    uint64_t debt_micros = 0;  // used beyond what they had together
    base::Monotonic looked_at{};
  };
  void leave(const std::string& owner, const CpuSharer* sharer);
  static void count(Owner& owner, Member& member);
  void look(Owner& owner) const;
  void share(Owner& owner) const;
  [[nodiscard]] uint32_t partOf(const Owner& owner) const;
  void rest();
  void lookAtAll();

  boost::asio::any_io_executor executor_;
  std::chrono::milliseconds period_;
  std::function<base::Monotonic()> now_;
  boost::asio::steady_timer timer_;
  std::map<std::string, Owner> owners_;
  bool watching_ = false;
};

}  // namespace cloister::runtime
