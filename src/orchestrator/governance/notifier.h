// SPDX-License-Identifier: Apache-2.0
// Notifier: delivers the ledger's notifications about escalations. Each notification is a row until
// delivered or given up, so a crash loses none; a notification may be delivered twice, under the
// same number. Channels do not wait for each other. On one executor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "model/escalation.h"
#include "store/store.h"

namespace cloister::orchestrator {

struct Message {
  uint64_t number = 0;  // of the delivery: the same in a retry
  std::string event;    // "escalation.requested"
  model::Escalation escalation;
  int64_t at = 0;  // time of the event
};

// A way to notify people. `send` returns before the next call.
struct Channel {
  std::string name;   // "webhook", "smtp"; in the ledger
  std::string shown;  // the destination, for people
  std::function<boost::asio::awaitable<Result<>>(Message)> send;
};

// The public facts of an escalation: requester, operation and expiry. The code and command are left
// out, because they may hold secrets.
base::json::object toldOf(const model::Escalation& escalation);

struct NotifierConfig {
  uint32_t attempts = 10;     // of a delivery; then it is given up, and audited
  Millis first_pause{2'000};  // before the second; twice as long each time
  Millis longest_pause{600'000};
};

class Notifier {
 public:
  Notifier(boost::asio::any_io_executor executor, store::Store& store,
           std::vector<Channel> channels, NotifierConfig config);
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // There may be something new.
  void wake();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cloister::orchestrator
