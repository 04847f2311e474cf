// SPDX-License-Identifier: Apache-2.0
// Guard: the judge and accountant of one connection, as the relays see it. cloister-egress
// implements it over the plan in force. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/network.h"
#include "egress/broker/broker.h"
#include "egress/plan/judge.h"
#include "egress/tls/authority.h"
#include "redact/rules.h"

namespace cloister::egress {

template <class T>
using Task = boost::asio::awaitable<T>;

// Lives as long as the connection.
class Guard {
 public:
  Guard() = default;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  virtual ~Guard() = default;

  // By the plan in force now. The relays use the verdict's rule before they wait for anything.
  virtual Verdict judge(const Attempt& attempt) = 0;
  // Takes a request from the agent's rate: an HTTP request, or a connection of another protocol.
  // False: refuse.
  virtual bool takeRequest() = 0;
  // Counts moved bytes: `in` was received by the sandbox, `out` was sent by it. False: more than
  // the rule's max_bytes, so the connection is cut.
  virtual bool count(uint64_t in, uint64_t out) = 0;
  // Asked before each dial: why none may be made now, as a sentence; "": one may.
  virtual std::string overBounds() { return {}; }
  // An address was connected to.
  virtual void dialled(const std::string& address) = 0;
  // An attempt was refused, for the record. The verdict may be of the relay: an address, a Host
  // header or a server name that does not match.
  virtual void refused(const Attempt& attempt, const Verdict& verdict) = 0;
  // A DLP rule found `count` texts in a request that passes, perhaps masked: for the record.
  virtual void found(const Attempt&, std::string_view, uint64_t) {}
  // Notified when the plan changed: open connections are judged again.
  virtual async::Signal& changed() = 0;
  // The connection has to end now.
  [[nodiscard]] virtual bool cut() const = 0;

  // Before a refusal about which an approver is asked, while the program still has the connection:
  // looks for the program, for a short time. The attempt's texts live until the return.
  virtual Task<void> findProgram(const Attempt&, const Verdict&) { co_return; }
  // A refusal whose verdict says OnDenied::kAsk: waits for the approver, for a bounded time, and
  // judges again. The attempt's texts live until the return.
  virtual Task<Verdict> hold(const Attempt&, Verdict verdict) { co_return verdict; }
  // The operator's networks of the plan, for the rules with `internal`.
  [[nodiscard]] virtual std::vector<base::Network> internalNetworks() const { return {}; }
  // Issues certificates for inspected names; null: nothing can be inspected.
  [[nodiscard]] virtual std::shared_ptr<Authority> authority() const { return nullptr; }
  // The brokered secrets of the plan in force; null: there are none.
  [[nodiscard]] virtual std::shared_ptr<const Broker> broker() const { return nullptr; }
  // The sandbox's look-ups in flight, for Resolver.
  [[nodiscard]] virtual std::shared_ptr<size_t> lookUps() const { return nullptr; }
};

// A connection that a sandbox opened: to the synthetic address of `name`.
struct Inside {
  boost::asio::ip::tcp::socket socket;
  std::string name;  // of model::hostName()
  uint16_t port = 0;
};

struct RelayLimits {
  Millis idle{300'000};     // without a byte in either direction
  Millis greeting{10'000};  // until a ClientHello, or the head of a request, is complete
  Millis linger{2'000};     // until a client has read a refusal and closed
  std::shared_ptr<const redact::Rules> dlp = nullptr;  // over requests; null: none
};

}  // namespace cloister::egress
