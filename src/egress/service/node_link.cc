// SPDX-License-Identifier: Apache-2.0
#include "egress/service/node_link.h"

#include <sys/socket.h>

#include <array>
#include <span>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/log.h"
#include "egress/service/listen.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using wire::egress::DoorMessage;
using Descriptor = asio::posix::stream_descriptor;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr int kMessagesAtOnce = 32;
constexpr Millis kListenPause{100};
constexpr Millis kDetachPatience{2'000};

std::unexpected<Error> badMessage(std::string_view why) {
  return fail(Code::kInvalid, "reading a message of the node: " + std::string(why));
}

Result<Fd> acceptNode(int listener, uint32_t uid, size_t connected) {
  Fd peer(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!peer) return failErrno("accepting a node");
  TRY(checkPeerUser(peer.get(), uid));
  if (connected >= NodeLink::kMostNodes) return fail(Code::kConflict, "too many nodes");
  return peer;
}

}  // namespace

NodeLink::NodeLink(Hub& hub, Plans& plans, Fd socket)
    : hub_(hub), plans_(plans), socket_(hub.executor, socket.release()), answered_(hub.executor) {}

Task<void> NodeLink::listen(Hub& hub, Plans& plans, uint32_t uid, Fd listener) {
  Descriptor waiting(hub.executor, listener.release());
  std::vector<std::weak_ptr<NodeLink>> nodes;
  while (true) {
    const auto [error] = co_await waiting.async_wait(Descriptor::wait_read, kNoThrow);
    if (error) co_return;
    std::erase_if(nodes, [](const auto& node) { return node.expired(); });
    auto peer = acceptNode(waiting.native_handle(), uid, nodes.size());
    if (!peer) {
      base::log(base::Level::kWarn, "node refused", {{"reason", peer.error().message}});
      asio::steady_timer pause(hub.executor, kListenPause);
      co_await pause.async_wait(kNoThrow);
      continue;
    }
    const auto node = std::make_shared<NodeLink>(hub, plans, *std::move(peer));
    nodes.push_back(node);
    async::spawn(hub.executor, serve(node));
  }
}

Task<void> NodeLink::serve(std::shared_ptr<NodeLink> self) {
  base::log(base::Level::kInfo, "node connected");
  Result<> result;
  while (result && self->socket_.is_open()) {
    const auto [error] = co_await self->socket_.async_wait(Descriptor::wait_read, kNoThrow);
    if (error) break;
    Result<bool> more = true;
    for (int i = 0; i < kMessagesAtOnce && more && *more; ++i)
      more = self->receiveOne(self);
    if (!more) result = std::unexpected(std::move(more).error());
  }
  self->end();
  base::log(base::Level::kWarn, "node disconnected",
            {{"reason", result ? "it closed the connection" : result.error().message}});
}

// False: no further message is there.
Result<bool> NodeLink::receiveOne(const std::shared_ptr<NodeLink>& self) {
  std::array<char, wire::egress::kMaxDoorMessage> buffer;
  auto message = linux::receiveMessage(socket_.native_handle(), buffer);
  if (!message && message.error().code == Code::kUnavailable) return false;
  if (!message) return std::unexpected(std::move(message).error());
  const std::string_view bytes(buffer.data(), message->size);
  if (bytes.empty()) return fail(Code::kUnavailable, "it closed the connection");
  TRY(take(self, *std::move(message), bytes));
  return true;
}

Result<> NodeLink::take(const std::shared_ptr<NodeLink>& self, linux::Message message,
                        std::string_view bytes) {
  wire::egress::DoorPacket packet = TRY(wire::egress::decodeDoorPacket(bytes));
  if (packet.type == DoorMessage::kDetach && message.fds.empty()) {
    async::spawn(hub_.executor, detach(self, packet.door.id));
    return {};
  }
  if (packet.type == DoorMessage::kProgram && message.fds.empty()) {
    // A late answer has no question any more.
    const auto question = questions_.find(packet.who.number);
    if (question != questions_.end()) question->second = std::move(packet.program);
    answered_.notify();
    return {};
  }
  if (packet.type != DoorMessage::kAttach) return badMessage("unexpected");
  DoorSockets sockets = TRY(takeSockets(packet.door, std::move(message.fds)));
  if (doors_.contains(packet.door.id)) return badMessage("the door's number was used before");
  if (waiting_ >= kMostWaiting) {
    send(wire::egress::encodeRefused(
        packet.door.id, {Code::kQuota, "opening a door: too many wait for their plans", {}, 0}));
    return {};
  }
  const auto kept = std::make_shared<DoorSockets>(std::move(sockets));
  doors_[packet.door.id] = {.door = nullptr, .waiting = kept};
  async::spawn(hub_.executor, attach(self, std::move(packet.door), kept));
  return {};
}

bool NodeLink::waits(uint64_t door, const std::shared_ptr<DoorSockets>& sockets) const {
  const auto known = doors_.find(door);
  return known != doors_.end() && known->second.waiting == sockets;
}

// The plan and the door take different ways here, so the door may be first.
Task<void> NodeLink::attach(std::shared_ptr<NodeLink> self, wire::egress::Door door,
                            std::shared_ptr<DoorSockets> sockets) {
  ++self->waiting_;
  const auto deadline = base::monotonicNow() + self->hub_.settings.attach_patience;
  const auto wanted = [self, id = door.id, sockets] { return self->waits(id, sockets); };
  auto permit = co_await self->plans_.await(door.permit, door.plan_sha256, deadline, wanted);
  --self->waiting_;
  if (!wanted()) co_return;  // detached meanwhile, or the node is gone
  Result<> attached = permit ? attachNow(self, door, *std::move(permit), std::move(*sockets))
                             : Result<>(std::unexpected(std::move(permit).error()));
  if (attached) {
    self->send(wire::egress::encodeDoorId(DoorMessage::kAttached, door.id));
    co_return;
  }
  self->doors_.erase(door.id);
  *sockets = {};
  base::log(base::Level::kWarn, "door refused",
            {{"permit", door.permit}, {"reason", attached.error().message}});
  self->send(wire::egress::encodeRefused(door.id, attached.error()));
}

Result<> NodeLink::attachNow(const std::shared_ptr<NodeLink>& self, const wire::egress::Door& door,
                             std::shared_ptr<PermitState> permit, DoorSockets sockets) {
  Door::WhoIs who_is = [link = std::weak_ptr(self), id = door.id](wire::egress::Who who) {
    return whoIs(link, id, who);
  };
  auto opened =
      TRY(Door::open(self->hub_, std::move(permit), std::move(sockets), std::move(who_is)));
  self->doors_[door.id] = {.door = std::move(opened), .waiting = nullptr};
  return {};
}

Task<std::string> NodeLink::whoIs(std::weak_ptr<NodeLink> link, uint64_t door,
                                  wire::egress::Who who) {
  const auto self = link.lock();
  if (!self || !self->socket_.is_open() || self->questions_.size() >= kMostQuestions)
    co_return std::string();
  const uint32_t number = self->next_question_++;
  who.number = number;
  self->questions_[number] = std::nullopt;
  self->send(wire::egress::encodeWho(door, who));
  const auto until = base::monotonicNow() + self->hub_.settings.who;
  while (!self->questions_[number] && self->socket_.is_open() && base::monotonicNow() < until)
    co_await self->answered_.wait(until);
  co_return self->questions_.extract(number).mapped().value_or("");
}

// Answers once no socket of the sandbox's namespace is left here. An unknown door is detached
// already: the answer is the same.
Task<void> NodeLink::detach(std::shared_ptr<NodeLink> self, uint64_t door) {
  const auto node = self->doors_.extract(door);
  if (!node.empty() && node.mapped().waiting) {
    *node.mapped().waiting = {};
    self->plans_.wake();
  }
  if (!node.empty() && node.mapped().door) {
    node.mapped().door->stop();
    co_await Door::gone(node.mapped().door, base::monotonicNow() + kDetachPatience);
  }
  self->send(wire::egress::encodeDoorId(DoorMessage::kDetached, door));
}

void NodeLink::end() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  answered_.notify();
  for (const auto& [id, place] : std::exchange(doors_, {})) {
    if (place.waiting) *place.waiting = {};
    if (place.door) place.door->stop();
  }
  plans_.wake();
}

// A node that reads nothing is disconnected: its doors come again with the next connection.
void NodeLink::send(const std::string& packet) {
  if (!socket_.is_open()) return;
  if (const auto sent = linux::sendMessage(socket_.native_handle(), packet); !sent) {
    boost::system::error_code ignored;
    base::log(base::Level::kWarn, "node not reached", {{"reason", sent.error().message}});
    socket_.close(ignored);
  }
}

}  // namespace cloister::egress
