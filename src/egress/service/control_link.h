// SPDX-License-Identifier: Apache-2.0
// ControlLink: the control plane's connection (wire/egress.h, ToEgress and FromEgress). One control
// plane at a time. Plans outlive a connection: the next control plane repeats the wanted plans, and
// the others end. Every message is decoded strictly; a malformed one ends the connection. One
// thread. Always in a shared_ptr.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "base/crypto.h"
#include "base/fd.h"
#include "base/result.h"
#include "egress/service/plans.h"
#include "egress/service/record.h"
#include "net/frame_connection.h"
#include "wire/egress.h"

namespace cloister::egress {

class ControlLink : public std::enable_shared_from_this<ControlLink> {
 public:
  // `key` gives the control plane's public key, and is asked at each connection: the key may have
  // been rotated. `plans` and `record` outlive the link.
  ControlLink(boost::asio::any_io_executor executor, const Settings& settings, uint32_t uid,
              std::function<Result<base::VerifyKey>()> key, Plans& plans, Record& record);

  // Accepts control planes at the listening socket, for as long as the executor runs.
  static boost::asio::awaitable<void> listen(std::shared_ptr<ControlLink> self, Fd listener);
  // Closes a batch of attempts each second, and sends it.
  static boost::asio::awaitable<void> sendBatches(std::shared_ptr<ControlLink> self);

  // An attempt whose verdict asks an approver. Kept for the next connection without one.
  void want(wire::egress::Wanted wanted);
  static constexpr size_t kMostWanted = 256;

 private:
  using Frame = net::Frame;

  Result<> admit(boost::asio::local::stream_protocol::socket& peer);
  static boost::asio::awaitable<void> serve(std::shared_ptr<ControlLink> self);
  static boost::asio::awaitable<void> settle(std::shared_ptr<ControlLink> self, uint64_t round);
  void greet();
  Result<> take(const Frame& frame);
  Result<> takePlan(const Frame& frame);
  Result<> takeSecrets(const Frame& frame);
  void answerUse(const Frame& frame);
  void sendKept();
  void sendWanted();
  void post(wire::egress::FromEgress type, uint32_t channel, std::string payload);

  boost::asio::any_io_executor executor_;
  Settings settings_;
  uint32_t uid_;
  std::function<Result<base::VerifyKey>()> key_;
  Plans& plans_;
  Record& record_;
  std::shared_ptr<net::FrameConnection> connection_;  // nullptr: none
  uint64_t round_ = 0;                                // counts connections
  uint64_t sent_ = 0;                                 // last batch sent over this connection
  std::deque<wire::egress::Wanted> wanted_;
};

}  // namespace cloister::egress
