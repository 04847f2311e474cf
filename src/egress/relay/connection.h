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
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "egress/dial/dial.h"
#include "egress/relay/guard.h"
#include "egress/relay/request_rules.h"
#include "net/tls_session.h"

namespace cloister::egress {

// An Attempt with texts of its own.
struct Standing {
  std::string host;
  uint16_t port = 0;
  std::optional<model::Protocol> protocol = {};
  std::optional<std::string> method = {};
  std::optional<std::string> path = {};
  std::vector<std::string> field_methods = {};
  std::vector<std::string> field_paths = {};

  [[nodiscard]] Attempt attempt() const;
};

// A verdict without a pointer into the plan.
struct Ruling {
  bool allowed = false;
  model::Protocol protocol = model::Protocol::kTcp;  // of the rule
  bool anyone = false;                               // of the rule
  bool internal = false;                             // of the rule
  bool inspect = false;                              // TLS is read: by the rule, or for a secret
  std::string rule;                                  // its name; "" where none matched
  std::string reason;                                // of a refusal
  std::string remedy;                                // of a refusal
};

// A refusal of the relay itself. `rule`: of records, where no rule of the plan decided.
struct Refusal {
  std::string reason;
  std::string remedy;
  std::string_view rule = {};
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Error = boost::system::error_code;

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
  // As admit(), for one of several requests at the same time: what stands is not changed.
  Task<Ruling> admitBeside(Standing standing);
  // Notified when the plan changed.
  [[nodiscard]] async::Signal& changed() { return guard_->changed(); }
  // Whether the plan in force still allows the attempt. Records a refusal.
  bool stillAllowed(const Standing& standing);
  // Takes one request from the rate, and records a refusal.
  bool takeRequest(const Standing& standing, Ruling& refusal);
  // Records the relay's own refusal.
  Ruling refuse(const Standing& standing, std::string reason, std::string remedy);
  Ruling refuse(const Standing& standing, Refusal refusal);

  // Records the texts that DLP rules found in a request that passes.
  void note(const Standing& standing, RequestRules& rules);
  // A DLP rule refuses the request: records the refusal.
  Ruling refuse(const Standing& standing, const redact::Rule& rule);

  // Connects outside(), and sends inside what the peer sent with it. kDenied is recorded, and so is
  // kQuota of the guard.
  Task<Result<>> dial(const Standing& standing, const Ruling& ruling);

  // --- TLS, for connections that are inspected

  // Speaks TLS outside, as a client of name(). Offers `protocols`, and returns the server's choice,
  // or "". kDenied: the server is not accepted; the message is a sentence.
  Task<Result<std::string>> secureOutside(std::vector<std::string> protocols);
  // Speaks TLS inside, as name(), whose client sent `arrived` already, and agrees on `protocol`.
  // kDenied: the client does not accept the certificate; the message is a sentence.
  Task<Result<>> secureInside(std::string arrived, std::string protocol);
  [[nodiscard]] std::shared_ptr<Authority> authority() const { return guard_->authority(); }
  [[nodiscard]] std::shared_ptr<const Broker> broker() const { return guard_->broker(); }
  // TLS passes as it is from now on. A plan that wants to read it ends the connection.
  void passUnread() { unread_ = true; }

  // Waits until the sandbox may have sent a request. False: the origin ended the connection
  // meanwhile, or sent bytes without a request.
  Task<bool> awaitRequest();
  // Ends the direction of writing, in order.
  Task<Error> sayEnd(Socket& to);
  [[nodiscard]] bool hasTls(const Socket& side) const { return tlsOf(side) != nullptr; }

  // At most `most` bytes behind `into`, waiting for them without a buffer. 0: the stream ended.
  // An error: the socket failed, or the connection is over.
  Task<std::pair<Error, size_t>> read(Socket& from, std::string& into, size_t most);
  Task<Error> write(Socket& to, std::string_view bytes);

  // After the end of `from`: whether its stream broke off instead of ending.
  [[nodiscard]] bool brokeOff(const Socket& from) const;

  // Counts moved bytes and postpones the deadline. False: over the bound; the connection is reset.
  bool moved(uint64_t in, uint64_t out);
  // As moved(), by the rule of one of several requests.
  bool moved(const Standing& standing, uint64_t in, uint64_t out);
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
  using Tls = net::TlsSession;
  [[nodiscard]] Tls* tlsOf(const Socket& side) const;
  [[nodiscard]] bool mustRead(const Standing& standing, const Verdict& verdict) const;
  Task<Ruling> ask(Standing& standing);
  Task<Error> ready(Socket& side, Tls::Wait what);
  template <class Step>
  Task<Tls::Step> overTls(Socket& side, Step step);
  Task<Error> shakeHands(Socket& side);
  Task<std::pair<Error, size_t>> readTls(Socket& from, Tls& tls, std::string& into, size_t most);
  Task<Error> writeTls(Socket& to, Tls& tls, std::string_view bytes);
  void arm(base::Monotonic at);

  Inside inside_;
  Socket outside_;
  std::shared_ptr<const bool> broken_;  // of outside_, as Dialled::broken
  std::shared_ptr<Guard> guard_;
  Dialler& dialler_;
  RelayLimits limits_;
  std::optional<Standing> standing_;
  std::string protocol_;  // agreed on inside
  std::unique_ptr<Tls> inside_tls_;
  std::unique_ptr<Tls> outside_tls_;
  bool unread_ = false;
  boost::asio::steady_timer timer_;
  base::Monotonic armed_ = base::Monotonic::max();
  base::Monotonic deadline_ = base::Monotonic::max();
  uint32_t at_once_ = 0;
  bool over_ = false;
};

// Runs the protocol beside the connection's watch, and closes the connection.
Task<void> watched(std::shared_ptr<Connection> connection, Task<void> protocol);

}  // namespace cloister::egress
