// SPDX-License-Identifier: Apache-2.0
// NodeLink: the node's connection, over which doors come and go (wire/door_message.h). The doors of
// a connection end with it: the node attaches them again after a reconnection. A malformed message
// ends the connection. One thread. Always in a shared_ptr.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "async/signal.h"
#include "base/fd.h"
#include "base/result.h"
#include "egress/service/door.h"
#include "egress/service/hub.h"
#include "egress/service/plans.h"
#include "linux/message.h"
#include "wire/door_message.h"

namespace cloister::egress {

class NodeLink {
 public:
  // Accepts nodes of the user `uid` at the listening socket, for as long as the executor runs. At
  // most kMostNodes at a time: a node, and its predecessor whose end is not yet known.
  static Task<void> listen(Hub& hub, Plans& plans, uint32_t uid, Fd listener);
  static constexpr size_t kMostNodes = 4;
  // Doors of a connection that wait for their plans.
  static constexpr size_t kMostWaiting = 1024;
  static constexpr size_t kMostQuestions = 64;  // at a time; further ones have no answer

  NodeLink(Hub& hub, Plans& plans, Fd socket);
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;
  ~NodeLink() = default;

 private:
  static Task<void> serve(std::shared_ptr<NodeLink> self);
  Result<bool> receiveOne(const std::shared_ptr<NodeLink>& self);
  Result<> take(const std::shared_ptr<NodeLink>& self, linux::Message message,
                std::string_view bytes);
  // A door, or the sockets of one that waits for its plan: a detachment closes them at once.
  struct Place {
    std::shared_ptr<Door> door;
    std::shared_ptr<DoorSockets> waiting;
  };

  static Task<void> attach(std::shared_ptr<NodeLink> self, wire::egress::Door door,
                           std::shared_ptr<DoorSockets> sockets);
  [[nodiscard]] bool waits(uint64_t door, const std::shared_ptr<DoorSockets>& sockets) const;
  static Result<> attachNow(const std::shared_ptr<NodeLink>& self, const wire::egress::Door& door,
                            std::shared_ptr<PermitState> permit, DoorSockets sockets);
  // The node's answer, awaited for Settings::who; "": none, or not known.
  static Task<std::string> whoIs(std::weak_ptr<NodeLink> link, uint64_t door,
                                 wire::egress::Who who);
  static Task<void> detach(std::shared_ptr<NodeLink> self, uint64_t door);
  void end();
  void send(const std::string& packet);

  Hub& hub_;
  Plans& plans_;
  boost::asio::posix::stream_descriptor socket_;
  std::map<uint64_t, Place> doors_;
  // Questions about programs without an answer yet, by their numbers.
  std::map<uint32_t, std::optional<std::string>> questions_;
  uint32_t next_question_ = 1;
  async::Signal answered_;
  size_t waiting_ = 0;
};

}  // namespace cloister::egress
