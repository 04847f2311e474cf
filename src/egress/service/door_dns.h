// SPDX-License-Identifier: Apache-2.0
// DoorDns: the look-ups of one sandbox, over UDP and TCP. The answers come from the plan
// (egress/dns/answers.h); only a record type that a rule names is asked of a resolver. Every byte
// is hostile. One thread. Always in a shared_ptr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/fd.h"
#include "egress/dns/answers.h"
#include "egress/dns/names.h"
#include "egress/service/connection_guard.h"
#include "egress/service/hub.h"

namespace cloister::egress {

class DoorDns {
 public:
  DoorDns(Hub& hub, std::shared_ptr<PermitState> permit, std::shared_ptr<DoorLife> life,
          Names names);

  // The synthetic addresses in answers to look-ups.
  [[nodiscard]] const Names& names() const { return names_; }

  // Whether the name has, or gets, a synthetic address. For names without a look-up.
  bool takesName(std::string_view name) { return names_.addressOf(name).has_value(); }

  // Answers queries at the UDP socket until stop().
  static Task<void> serveUdp(std::shared_ptr<DoorDns> self, Fd socket);
  // Answers the queries of a connection (RFC 7766) until its end, or a bounded time without one.
  static Task<void> serveTcp(std::shared_ptr<DoorDns> self, boost::asio::ip::tcp::socket socket);
  void stop();

  static constexpr size_t kMostTcp = 16;     // connections at once; further ones are reset
  static constexpr size_t kMostPassed = 32;  // queries at a resolver at once

 private:
  struct Datagram;

  static bool readOne(const std::shared_ptr<DoorDns>& self);
  static Task<void> sendPassed(std::shared_ptr<DoorDns> self, std::shared_ptr<Datagram> datagram,
                               std::string name);
  std::string answerNow(std::string_view query, size_t most_bytes, Asked& asked);
  std::string refusePlaceholder(std::string_view query, size_t most_bytes);
  std::string answerAsking(std::string_view query, size_t most_bytes, const Asked& asked);
  static Task<std::string> passedOn(std::shared_ptr<DoorDns> self, std::string query,
                                    size_t most_bytes, std::string name);
  static Task<void> converse(std::shared_ptr<DoorDns> self,
                             std::shared_ptr<boost::asio::ip::tcp::socket> shared);
  void report(const Asked& asked);

  Hub& hub_;
  std::shared_ptr<PermitState> permit_;
  std::shared_ptr<DoorLife> life_;
  Names names_;
  boost::asio::posix::stream_descriptor udp_;
  bool flooded_ = false;  // the last datagram was over the rate
  size_t tcp_ = 0;        // connections
  size_t passed_ = 0;     // queries at a resolver
};

}  // namespace cloister::egress
