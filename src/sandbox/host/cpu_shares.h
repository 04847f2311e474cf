// SPDX-License-Identifier: Apache-2.0
// CpuShares: the processor time that related sandboxes, such as an agent's, may use together. Each
// sandbox has a limit of its own in its control group. While the sandboxes live, CpuShares keeps
// these limits so low that all stay within the common share. A sandbox's unused part goes to the
// others.
//
// A common parent group would do the same in the kernel. But a ready sandbox has its group before
// the owner is known, and a group cannot be moved. Each write of a limit gives the group a full
// period's time again. So CpuShares adds up the usage here, also of ended sandboxes, and subtracts
// an excess from the next shares. One thread.
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

// A sandbox as seen by CpuShares. Amounts are thousandths of a processor.
class CpuSharer {
 public:
  virtual ~CpuSharer() = default;
  [[nodiscard]] virtual uint64_t cpuMicros() const = 0;  // used so far
  [[nodiscard]] virtual uint32_t cpuMost() const = 0;    // allowed by its own limits
  // Sets the share, at most as much as its own limits allow. False: the previous share stays.
  virtual bool giveCpu(uint32_t millis) = 0;
};

// The minimum for each sandbox: the kernel accepts no less than 1 ms of a period of 100 ms. If the
// minimums exceed the owner's processors, each sandbox gets the minimum.
inline constexpr uint32_t kLeastCpu = 10;

// A member's recent usage, its share, and its maximum.
struct CpuNeed {
  uint32_t used = 0;
  uint32_t given = 0;
  uint32_t most = 0;
};

// Divides `together`: a member that used nearly all of its share may want its maximum; another
// wants somewhat more than its usage. Wants are met evenly, and the rest is spread over all.
std::vector<uint32_t> shareCpu(uint32_t together, std::span<const CpuNeed> needs);

class CpuShares : public std::enable_shared_from_this<CpuShares> {
 public:
  // `now` measures the time since the last look.
  explicit CpuShares(boost::asio::any_io_executor executor,
                     std::chrono::milliseconds period = std::chrono::milliseconds(200),
                     std::function<base::Monotonic()> now = base::monotonicNow);
  CpuShares(const CpuShares&) = delete;
  CpuShares& operator=(const CpuShares&) = delete;
  ~CpuShares() = default;

  // Shares `together` among all sandboxes of `owner` until the result is released. Release the
  // result before `sharer`, whose usage is read then.
  std::shared_ptr<void> add(const std::string& owner, uint32_t together, CpuSharer& sharer);

 private:
  struct Member {
    CpuSharer* sharer;
    uint64_t micros = 0;  // usage at the last look
    uint32_t used = 0;    // lately
    uint32_t given = 0;
  };
  struct Owner {
    uint32_t together = 0;
    std::vector<Member> members;
    uint64_t used_micros = 0;  // usage since the last look
    uint64_t debt_micros = 0;  // usage beyond `together`
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
