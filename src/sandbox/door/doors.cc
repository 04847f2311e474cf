// SPDX-License-Identifier: Apache-2.0
#include "sandbox/door/doors.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/log.h"
#include "linux/message.h"
#include "linux/sock_diag.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;
using wire::egress::DoorMessage;
using DoorStream = asio::posix::stream_descriptor;

constexpr auto kDoorResult = asio::as_tuple(asio::use_awaitable);
constexpr Millis kFirstConnectPause{5};
constexpr Millis kLongestConnectPause{200};
constexpr int kPacketsAtOnce = 32;
static_assert(kMaxPortListeners == wire::egress::kMaxDoorListeners);

Result<Fd> connectSeqpacket(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path) return fail(Code::kInvalid, path + ": path too long");
  std::memcpy(at.sun_path, path.data(), path.size());
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failErrno("socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    return failErrno("connecting to " + path);
  }
  return socket;
}

std::vector<int> descriptorsOf(const DoorSockets& sockets) {
  std::vector<int> fds;
  for (const Fd& listener : sockets.listeners)
    fds.push_back(listener.get());
  if (sockets.dns) fds.push_back(sockets.dns.get());
  if (sockets.log) fds.push_back(sockets.log.get());
  return fds;
}

std::unexpected<Error> notAttached(Code code, std::string_view why) {
  return fail(code, "opening the sandbox's network: " + std::string(why));
}

}  // namespace

// Destroyed or released: the door goes.
class Doors::Hold : public HeldDoor {
 public:
  Hold(std::shared_ptr<Doors> doors, uint64_t id) : doors_(std::move(doors)), id_(id) {}
  ~Hold() override {
    if (doors_) doors_->drop(id_);
  }

  Task<void> release() override {
    if (const auto doors = std::exchange(doors_, nullptr)) co_await Doors::release(doors, id_);
  }

 private:
  std::shared_ptr<Doors> doors_;
  uint64_t id_;
};

Doors::Doors(asio::any_io_executor executor, std::string socket, Terms terms)
    : executor_(executor),
      path_(std::move(socket)),
      terms_(terms),
      socket_(executor),
      changed_(std::move(executor)) {}

void Doors::start() {
  async::spawn(executor_, keepConnected(shared_from_this()));
}

Task<void> Doors::keepConnected(std::shared_ptr<Doors> self) {
  Millis pause = kFirstConnectPause;
  while (true) {
    if (self->connect()) {
      pause = kFirstConnectPause;
      co_await serve(self);
    }
    asio::steady_timer timer(self->executor_, pause);
    co_await timer.async_wait(kDoorResult);
    pause = std::min(pause * 2, kLongestConnectPause);
  }
}

Result<> Doors::connect() {
  Fd socket = TRY(connectSeqpacket(path_));
  boost::system::error_code error;
  socket_.assign(socket.get(), error);
  if (error) return fail(Code::kInternal, error.message());
  std::ignore = socket.release();
  base::log(base::Level::kInfo, "cloister-egress connected",
            {{"doors", std::to_string(entries_.size())}});
  for (auto& [id, entry] : entries_)
    handOver(entry);
  changed_.notify();
  return {};
}

Task<void> Doors::serve(std::shared_ptr<Doors> self) {
  Result<> result;
  while (result && self->socket_.is_open()) {
    const auto [error] = co_await self->socket_.async_wait(DoorStream::wait_read, kDoorResult);
    if (error) break;
    Result<bool> more = true;
    for (int i = 0; i < kPacketsAtOnce && more && *more; ++i)
      more = self->receiveOne(self);
    if (!more) result = std::unexpected(std::move(more).error());
  }
  self->lose();
  base::log(base::Level::kWarn, "cloister-egress lost",
            {{"reason", result ? "the connection failed" : result.error().message}});
}

// False: no further packet is there.
Result<bool> Doors::receiveOne(const std::shared_ptr<Doors>& self) {
  if (!socket_.is_open()) return false;
  std::array<char, wire::egress::kMaxDoorMessage> buffer;
  const auto message = linux::receiveMessage(socket_.native_handle(), buffer);
  if (!message && message.error().code == Code::kUnavailable) return false;
  if (!message) return std::unexpected(message.error());
  if (message->size == 0) return fail(Code::kUnavailable, "it closed the connection");
  const std::string_view bytes(buffer.data(), message->size);
  const wire::egress::DoorPacket packet = TRY(wire::egress::decodeDoorPacket(bytes));
  TRY(take(self, packet));
  return true;
}

Result<> Doors::take(const std::shared_ptr<Doors>& self, const wire::egress::DoorPacket& packet) {
  const uint64_t id = packet.door.id;
  const auto known = entries_.find(id);
  switch (packet.type) {
    case DoorMessage::kDetached:
      if (const auto leaving = leaving_.find(id); leaving != leaving_.end()) leaving->second = true;
      break;
    case DoorMessage::kAttached:
      if (known == entries_.end()) break;
      known->second.state = Entry::State::kAttached;
      known->second.was_attached = true;
      break;
    case DoorMessage::kRefused:
      if (known == entries_.end()) break;
      known->second.state = Entry::State::kRefused;
      known->second.why = packet.why;
      if (known->second.was_attached) async::spawn(executor_, tryAgain(self, id));
      break;
    case DoorMessage::kWho:
      if (known != entries_.end()) answerWho(known->second, packet);
      return {};
    default:
      return fail(Code::kInvalid, "it sent a message of another kind");
  }
  changed_.notify();
  return {};
}

// cloister-egress waits a short time, so a full socket may lose the answer.
void Doors::answerWho(const Entry& entry, const wire::egress::DoorPacket& packet) {
  const std::string answer =
      wire::egress::encodeProgram(packet.door.id, packet.who.number, programOf(entry, packet.who));
  std::ignore = linux::sendMessage(socket_.native_handle(), answer);
}

// "" where it cannot be known: no module of the kernel, a guest's socket, too many questions, or a
// connection that its program has closed.
std::string Doors::programOf(const Entry& entry, const wire::egress::Who& who) {
  const base::Monotonic now = base::monotonicNow();
  if (now - look_second_ >= std::chrono::seconds(1)) {
    look_second_ = now;
    looks_ = 0;
  }
  if (!entry.sockets.diag || !entry.first_process || ++looks_ > kLooksPerSecond) return {};
  const auto inode = linux::inodeOf(entry.sockets.diag.get(), {.own = {htonl(who.client)},
                                                               .own_port = who.client_port,
                                                               .peer = {htonl(who.asked)},
                                                               .peer_port = who.asked_port});
  const pid_t first = entry.first_process();
  return inode && first > 0 ? linux::programWithSocket(first, *inode) : std::string();
}

// After a restart of cloister-egress the plan may come later than its patience.
Task<void> Doors::tryAgain(std::shared_ptr<Doors> self, uint64_t id) {
  asio::steady_timer timer(self->executor_, self->terms_.again);
  co_await timer.async_wait(kDoorResult);
  const auto known = self->entries_.find(id);
  if (known == self->entries_.end() || known->second.state != Entry::State::kRefused) co_return;
  self->handOver(known->second);
}

void Doors::handOver(Entry& entry) {
  if (!socket_.is_open()) return;
  const std::vector<int> fds = descriptorsOf(entry.sockets);
  const auto sent =
      linux::sendMessage(socket_.native_handle(), wire::egress::encodeAttach(entry.door), fds);
  entry.state = sent ? Entry::State::kSent : Entry::State::kUnsent;
  if (sent) return;
  // The kernel's bound is a few hundred doors: with more, all at once never fit.
  if (sent.error().code == Code::kUnavailable) {
    if (!std::exchange(waits_for_room_, true))
      async::spawn(executor_, handOverRest(shared_from_this()));
    return;
  }
  boost::system::error_code ignored;
  base::log(base::Level::kWarn, "door not handed over", {{"reason", sent.error().message}});
  socket_.close(ignored);
}

Task<void> Doors::handOverRest(std::shared_ptr<Doors> self) {
  const auto unsent = [&] {
    return std::ranges::find_if(self->entries_, [](const auto& each) {
      return each.second.state == Entry::State::kUnsent;
    });
  };
  while (self->socket_.is_open() && unsent() != self->entries_.end()) {
    const auto [error] = co_await self->socket_.async_wait(DoorStream::wait_write, kDoorResult);
    if (error && error != asio::error::operation_aborted) break;
    for (auto next = unsent(); self->socket_.is_open() && next != self->entries_.end();
         next = unsent()) {
      self->handOver(next->second);
      if (next->second.state == Entry::State::kUnsent) break;  // full again
    }
  }
  self->waits_for_room_ = false;
}

void Doors::lose() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  for (auto& [id, entry] : entries_)
    entry.state = Entry::State::kUnsent;
  for (auto& [id, gone] : leaving_)
    gone = true;
  changed_.notify();
}

Task<Result<std::shared_ptr<HeldDoor>>> Doors::attach(std::string permit, std::string plan_sha256,
                                                      DoorSockets sockets,
                                                      FirstProcess first_process) {
  using State = Entry::State;
  const auto self = shared_from_this();
  const uint64_t id = next_++;
  Entry& entry = entries_[id];
  entry.door = {.id = id,
                .permit = std::move(permit),
                .plan_sha256 = std::move(plan_sha256),
                .transparent = sockets.transparent,
                .listeners = static_cast<uint32_t>(sockets.listeners.size()),
                .has_dns = static_cast<bool>(sockets.dns),
                .has_log = static_cast<bool>(sockets.log)};
  entry.sockets = std::move(sockets);
  entry.first_process = std::move(first_process);
  const auto hold = std::make_shared<Hold>(self, id);
  handOver(entry);
  const auto until = base::monotonicNow() + terms_.attach;
  const auto decided = [&] {
    return entry.state == State::kAttached || entry.state == State::kRefused;
  };
  while (!decided() && base::monotonicNow() < until)
    co_await changed_.wait(until);
  if (entry.state == State::kAttached) co_return hold;
  if (entry.state == State::kRefused) {
    const Code code = entry.why.code == Code::kDenied ? Code::kDenied : Code::kInternal;
    co_return notAttached(code, entry.why.message);
  }
  co_return notAttached(Code::kInternal, connected() ? "cloister-egress does not answer; try again"
                                                     : "cloister-egress is not running; try again");
}

// Closes the sockets.
void Doors::drop(uint64_t id) {
  const auto node = entries_.extract(id);
  if (node.empty() || node.mapped().state == Entry::State::kUnsent || !socket_.is_open()) return;
  const auto sent = linux::sendMessage(socket_.native_handle(),
                                       wire::egress::encodeDoorId(DoorMessage::kDetach, id));
  boost::system::error_code ignored;
  if (!sent) socket_.close(ignored);  // with the connection, all its doors go there
}

Task<void> Doors::release(std::shared_ptr<Doors> self, uint64_t id) {
  const auto known = self->entries_.find(id);
  const bool there = known != self->entries_.end() &&
                     known->second.state != Entry::State::kUnsent && self->socket_.is_open();
  if (there) self->leaving_[id] = false;
  self->drop(id);
  if (!there) co_return;
  const auto until = base::monotonicNow() + self->terms_.detach;
  while (self->socket_.is_open() && !self->leaving_[id] && base::monotonicNow() < until)
    co_await self->changed_.wait(until);
  self->leaving_.erase(id);
}

}  // namespace cloister::runtime
