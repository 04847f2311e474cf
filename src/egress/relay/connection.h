// SPDX-License-Identifier: Apache-2.0
// Connection: the two sockets of a relayed connection, its guard and its deadline. The protocols
// (relay.cc, http_relay.h, proxy.cc) are written over it. A plan that no longer allows the standing
// attempt, a deadline, or a used-up bound resets both sockets, and the waiting protocol then ends
// by the error of its operation. One thread; always in a shared_ptr.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "egress/dial/dial.h"
#include "egress/relay/guard.h"

namespace cloister::egress {

// An Attempt with texts of its own.
struct Standing {
  std::string host;
  uint16_t port = 0;
  std::optional<model::Protocol> protocol = {};
  std::optional<std::string> method = {};
  std::optional<std::string> path = {};

  [[nodiscard]] Attempt attempt() const;
};

// A verdict without a pointer into the plan.
struct Ruling {
  bool allowed = false;
  model::Protocol protocol = model::Protocol::kTcp;  // of the rule
  bool anyone = false;                               // of the rule
  bool internal = false;                             // of the rule
  std::string rule;                                  // its name; "" where none matched
  std::string reason;                                // of a refusal
  std::string remedy;                                // of a refusal
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  Connection(Inside inside, std::shared_ptr<Guard> guard, Dialler& dialler,
             const RelayLimits& limits);

  [[nodiscard]] Socket& inside() { return inside_.socket; }
  [[nodiscard]] Socket& outside() { return outside_; }
  [[nodiscard]] const std::string& name() const { return inside_.name; }
  [[nodiscard]] uint16_t port() const { return inside_.port; }
  // A CONNECT names another destination.
  void redirect(std::string name, uint16_t port);
  [[nodiscard]] const RelayLimits& limits() const { return limits_; }

  // Judges the attempt, waits for an approver if the plan says so, and records a refusal. An
  // allowed attempt stands from now on: each later plan judges it again.
  Task<Ruling> admit(Standing standing);
  // Takes one request from the rate, and records a refusal.
  bool takeRequest(const Standing& standing, Ruling& refusal);
  // Records the relay's own refusal.
  Ruling refuse(const Standing& standing, std::string reason, std::string remedy);

  // Connects outside(), and sends inside what the peer sent with it. kDenied is recorded, and so is
  // kQuota of the guard.
  Task<Result<>> dial(const Standing& standing, const Ruling& ruling);

  // At most `most` bytes behind `into`, waiting for them without a buffer. 0: the stream ended.
  // An error: the socket failed, or the connection is over.
  using Error = boost::system::error_code;
  Task<std::pair<Error, size_t>> read(Socket& from, std::string& into, size_t most);
  Task<Error> write(Socket& to, std::string_view bytes);

  // After the end of `from`: whether its stream broke off instead of ending.
  [[nodiscard]] bool brokeOff(const Socket& from) const;

  // Counts moved bytes and postpones the deadline. False: over the bound; the connection is reset.
  bool moved(uint64_t in, uint64_t out);
  // From now on the deadline, until bytes are moved.
  void expireIn(Millis time);

  // Ends both sockets at once, with RST. Idempotent.
  void reset();
  // Ends both sockets in order.
  void close();
  [[nodiscard]] bool over() const { return over_; }

  // Resets the connection when the guard says so. Ends by cancellation alone.
  Task<void> watch();

 private:
  Task<Verdict> judge(const Standing& standing);
  void arm(base::Monotonic at);

  Inside inside_;
  Socket outside_;
  std::shared_ptr<const bool> broken_;  // of outside_, as Dialled::broken
  std::shared_ptr<Guard> guard_;
  Dialler& dialler_;
  RelayLimits limits_;
  std::optional<Standing> standing_;
  boost::asio::steady_timer timer_;
  base::Monotonic armed_ = base::Monotonic::max();
  base::Monotonic deadline_ = base::Monotonic::max();
  uint32_t at_once_ = 0;
  bool over_ = false;
};

// Runs the protocol beside the connection's watch, and closes the connection.
Task<void> watched(std::shared_ptr<Connection> connection, Task<void> protocol);

}  // namespace cloister::egress
