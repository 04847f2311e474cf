// SPDX-License-Identifier: Apache-2.0
// Door: the network of one sandbox. Its sockets are in the sandbox's network namespace; this
// process accepts there, answers look-ups, reads the log of refused packets, and relays allowed
// connections by name. Everything that comes from these sockets is hostile. One thread. Always in a
// shared_ptr.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/result.h"
#include "egress/service/connection_guard.h"
#include "egress/service/door_dns.h"
#include "egress/service/door_sockets.h"
#include "egress/service/hub.h"
#include "wire/egress.h"

namespace cloister::egress {

class Door {
 public:
  // Asks the node for the program with a connection; "" if unknown.
  using WhoIs = std::function<Task<std::string>(wire::egress::Who)>;

  // Serves the sockets from now on until stop(). kQuota: there are too many doors. `hub` outlives
  // the door and its connections.
  static Result<std::shared_ptr<Door>> open(Hub& hub, std::shared_ptr<PermitState> permit,
                                            DoorSockets sockets, WhoIs who_is);
  Door(Hub& hub, std::shared_ptr<PermitState> permit, Names names, WhoIs who_is);
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  ~Door();

  [[nodiscard]] const std::string& permit() const { return permit_->id(); }

  // Closes the sockets, and cuts the connections: each ends as soon as its coroutine runs.
  void stop();
  // Returns once no connection of a stopped door is left, or at the deadline.
  static Task<void> gone(std::shared_ptr<Door> self, base::Monotonic deadline);

 private:
  using Acceptor = boost::asio::ip::tcp::acceptor;
  using Socket = boost::asio::ip::tcp::socket;

  Result<> start(const std::shared_ptr<Door>& self, DoorSockets sockets);
  static Task<void> acceptAll(std::shared_ptr<Door> self, std::shared_ptr<Acceptor> acceptor);
  static void accepted(const std::shared_ptr<Door>& self, Socket socket);
  static Task<void> serve(std::shared_ptr<Door> self, Socket socket, std::string name,
                          uint16_t port);
  static Task<void> readRefused(std::shared_ptr<Door> self);
  void readRefusedNow(int most);
  bool readRefusedOnce();
  void refused(const std::string& transport, const base::Address& to, uint16_t port);
  [[nodiscard]] std::string overBounds();
  [[nodiscard]] std::string hostOf(const base::Address& address) const;

  Hub& hub_;
  std::shared_ptr<PermitState> permit_;
  WhoIs who_is_;
  std::shared_ptr<DoorLife> life_;
  std::shared_ptr<DoorDns> dns_;
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
  boost::asio::posix::stream_descriptor log_;
};

}  // namespace cloister::egress
