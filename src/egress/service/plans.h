// SPDX-License-Identifier: Apache-2.0
// Plans: the plans in force by the ids of their permits. A plan is taken only with the control
// plane's signature, and only with a higher generation than the one before. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/result.h"
#include "egress/service/permit_state.h"

namespace cloister::egress {

class Plans {
 public:
  Plans(boost::asio::any_io_executor executor, const Settings& settings);

  // No plan is taken before a key is known.
  void trust(base::VerifyKey key) { key_ = key; }

  // From now on the plan of its permit. The plan in force may be repeated, as after a reconnection.
  // kDenied: not signed by the key, or an older generation, or another plan of the same generation.
  // kInvalid: not a plan. kQuota: too many. Returns the certificate of the sandbox's authority, if
  // a plan of the permit inspected.
  Result<std::string> accept(const model::SignedPlan& plan);
  // Values of brokered secrets, which come before the plan. Kept for a plan that is to come: at
  // most for Settings::plans permits.
  void learn(const std::string& permit, SecretValues values);
  // The permit's plan ends. An unknown permit is no error.
  void forget(const std::string& permit);
  // nullptr: not known.
  [[nodiscard]] std::shared_ptr<PermitState> find(const std::string& permit) const;
  [[nodiscard]] size_t size() const { return permits_.size(); }

  // The state of a permit whose first plan has the digest `sha256`, once its plan is here. Later
  // generations need only the signature: after a restart of this process the first plan of a permit
  // never comes again. kDenied: the plan is another one. kUnavailable: none came until `deadline`.
  boost::asio::awaitable<Result<std::shared_ptr<PermitState>>> await(std::string permit,
                                                                     std::string sha256,
                                                                     base::Monotonic deadline);

  // A control plane has connected, and will repeat the plans that it still wants.
  void beginRound() { ++round_; }
  // Ends the plans that were not repeated since beginRound().
  void endRound();

 private:
  struct Entry {
    std::shared_ptr<PermitState> state;
    uint64_t round = 0;
  };

  Result<std::string> put(std::shared_ptr<const PlanInForce> plan);
  void drop(std::map<std::string, Entry>::iterator entry, bool forever);
  std::shared_ptr<Bucket> agentBucket(const model::NetworkPlan& plan);

  boost::asio::any_io_executor executor_;
  Settings settings_;
  std::optional<base::VerifyKey> key_;
  std::map<std::string, Entry> permits_;
  std::map<std::string, std::weak_ptr<PermitState>> ended_;  // that doors may still have
  std::map<std::string, SecretValues> early_;                // before the first plan
  size_t bytes_ = 0;                                         // of all encoded plans
  uint64_t round_ = 0;
  std::map<std::string, std::shared_ptr<Bucket>> agents_;
  async::Signal arrived_;
};

}  // namespace cloister::egress
