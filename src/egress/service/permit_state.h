// SPDX-License-Identifier: Apache-2.0
// PermitState: the plan in force of one permit, and the use of its sandbox so far. The control
// plane's plans change the state; the sandbox's door and connections share the state. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "egress/plan/judge.h"
#include "egress/service/bucket.h"
#include "egress/service/settings.h"
#include "model/network.h"

namespace cloister::egress {

struct PlanInForce {
  model::NetworkPlan plan;
  std::string sha256;  // of its encoding
  size_t bytes = 0;    // of its encoding
};

class PermitState {
 public:
  PermitState(boost::asio::any_io_executor executor, std::string id, const Settings& settings);

  [[nodiscard]] const std::string& id() const { return id_; }

  // nullptr once the control plane has ended the permit: everything is refused.
  [[nodiscard]] const std::shared_ptr<const PlanInForce>& plan() const { return plan_; }
  // Wakes the connections. `agent`: the requests of the plan's agent; nullptr: without a bound.
  void set(std::shared_ptr<const PlanInForce> plan, std::shared_ptr<Bucket> agent);
  void end();
  // Notified at each change of the plan.
  [[nodiscard]] async::Signal& changed() { return changed_; }

  // By the plan in force. The verdict's rule lives as long as that plan.
  [[nodiscard]] Verdict judge(const Attempt& attempt) const;

  // Rates: false means refuse.
  bool takeConnection() { return connections_.take(); }
  bool takeLookup() { return lookups_.take(); }
  bool takeRequest() { return !agent_ || agent_->take(); }

  // At the resolver.
  [[nodiscard]] const std::shared_ptr<size_t>& lookUps() const { return look_ups_; }

  // Open connections.
  [[nodiscard]] uint32_t open() const { return open_; }
  void opened() { ++open_; }
  void closed() { --open_; }

  // The use, for results.
  void countConnection() { ++use_.connections; }
  // False when the rule's bytes (NetworkEntry::max_bytes) are used up.
  bool countBytes(const model::PlanRule* rule, uint64_t in, uint64_t out);
  void countDenied(const model::DeniedDestination& denied);
  [[nodiscard]] const model::NetworkUse& use() const { return use_; }
  // `count` counts what the kernel has logged and nobody has read: call catchUp() before use().
  void onCatchUp(std::function<void()> count) { catch_up_ = std::move(count); }
  void catchUp() const {
    if (catch_up_) catch_up_();
  }

  // True for an attempt of a kind that was not wanted since the last change of the plan, or not
  // lately: the control plane asks an approver once, but perhaps it could not ask before. False
  // beyond kMostWanted kinds, too.
  bool firstWanted(std::string_view host, uint16_t port, std::string_view rule);
  // Whether firstWanted() would say so now.
  [[nodiscard]] bool isNewlyWanted(std::string_view host, uint16_t port,
                                   std::string_view rule) const;
  static constexpr size_t kMostWanted = 64;
  static constexpr Millis kWantedLately{5'000};

 private:
  std::string id_;
  async::Signal changed_;
  std::shared_ptr<const PlanInForce> plan_;
  Bucket connections_;
  Bucket lookups_;
  std::shared_ptr<Bucket> agent_;
  uint32_t open_ = 0;
  std::shared_ptr<size_t> look_ups_ = std::make_shared<size_t>(0);
  model::NetworkUse use_;
  std::set<std::string> denied_left_out_;          // keys, bounded
  std::map<std::string, uint64_t> bytes_by_rule_;  // of rules with a bound
  std::map<std::string, base::Monotonic> wanted_;
  std::function<void()> catch_up_;
};

}  // namespace cloister::egress
