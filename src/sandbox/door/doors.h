// SPDX-License-Identifier: Apache-2.0
// Doors: the node's connection to cloister-egress (wire/door_message.h). It hands over the sockets
// of sandboxes, keeps duplicates while the sandboxes live, and hands them over again after a
// restart of cloister-egress. Until then a sandbox's connections wait in the sockets, and nothing
// is relayed.
//
// One thread. Always in a shared_ptr.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "runtime/runtime.h"
#include "sandbox/box/door.h"
#include "sandbox/box/held_door.h"
#include "wire/door_message.h"

namespace cloister::runtime {

class Doors : public std::enable_shared_from_this<Doors> {
 public:
  struct Terms {
    Millis attach{8'000};  // cloister-egress itself waits a shorter time for the plan
    Millis detach{3'000};
    Millis again{
        1'000};  // before a door that was attached once, and is now refused, is tried again
  };

  // `socket`: the path of egress-node.sock.
  Doors(boost::asio::any_io_executor executor, std::string socket)
      : Doors(std::move(executor), std::move(socket), Terms{}) {}
  Doors(boost::asio::any_io_executor executor, std::string socket, Terms terms);
  Doors(const Doors&) = delete;
  Doors& operator=(const Doors&) = delete;
  ~Doors() = default;

  // Keeps a connection for as long as the executor runs, with a bounded back-off (5 to 200 ms).
  void start();

  // Hands the sockets over, and returns once cloister-egress serves them. kDenied: it knows another
  // plan for the permit. kInternal: it is not there, or knows no plan of the permit in time.
  // `first_process`: the sandbox's, to find the program behind a connection; 0 when it is gone.
  using FirstProcess = std::function<pid_t()>;
  Task<Result<std::shared_ptr<HeldDoor>>> attach(std::string permit, std::string plan_sha256,
                                                 DoorSockets sockets,
                                                 FirstProcess first_process = {});
  // Answers about programs in a second: a look at many processes costs milliseconds.
  static constexpr uint32_t kLooksPerSecond = 20;

  [[nodiscard]] bool connected() const { return socket_.is_open(); }
  [[nodiscard]] size_t size() const { return entries_.size(); }

 private:
  class Hold;
  struct Entry {
    enum class State { kUnsent, kSent, kAttached, kRefused };
    wire::egress::Door door;
    DoorSockets sockets;
    FirstProcess first_process;
    State state = State::kUnsent;
    bool was_attached = false;
    Error why;  // of kRefused
  };

  static Task<void> keepConnected(std::shared_ptr<Doors> self);
  static Task<void> serve(std::shared_ptr<Doors> self);
  Result<> connect();
  Result<bool> receiveOne(const std::shared_ptr<Doors>& self);
  Result<> take(const std::shared_ptr<Doors>& self, const wire::egress::DoorPacket& packet);
  void answerWho(const Entry& entry, const wire::egress::DoorPacket& packet);
  [[nodiscard]] std::string programOf(const Entry& entry, const wire::egress::Who& who);
  static Task<void> tryAgain(std::shared_ptr<Doors> self, uint64_t id);
  void handOver(Entry& entry);
  // Hands over what a full socket had no room for, as the other end reads.
  static Task<void> handOverRest(std::shared_ptr<Doors> self);
  void lose();
  void drop(uint64_t id);
  static Task<void> release(std::shared_ptr<Doors> self, uint64_t id);

  boost::asio::any_io_executor executor_;
  std::string path_;
  Terms terms_;
  boost::asio::posix::stream_descriptor socket_;
  std::map<uint64_t, Entry> entries_;
  std::map<uint64_t, bool> leaving_;  // doors whose kDetached is awaited; true once it came
  uint64_t next_ = 1;
  bool waits_for_room_ = false;  // handOverRest() runs
  base::Monotonic look_second_{};
  uint32_t looks_ = 0;  // in this second
  async::Signal changed_;
};

}  // namespace cloister::runtime
