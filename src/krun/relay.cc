// SPDX-License-Identifier: Apache-2.0
#include "krun/relay.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <utility>

#include "vmm/pipe.h"

namespace cloister::krun {
namespace {

using Clock = std::chrono::steady_clock;

// Time after the first sign of the machine's end. A guest ends its machine at once, and a node
// reads the rest at once.
constexpr auto kPatience = std::chrono::seconds(5);
constexpr short kOver = POLLHUP | POLLERR;

// Forwards a machine's console to this process's stderr, in pieces for which POLLOUT guarantees
// room (pipe(7)), since the VMM writes there as well, and may block the pipe.
class Console {
 public:
  explicit Console(int from) : from_(from) {}
  [[nodiscard]] pollfd wants() const {
    if (size_ > 0) return {STDERR_FILENO, POLLOUT, 0};
    return {over_ ? -1 : from_, POLLIN, 0};
  }
  [[nodiscard]] bool isDone() const { return over_ && size_ == 0; }
  void move() {
    if (size_ > 0) {
      // A failed write is ignored: no reader is left.
      [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, bytes_.data(), size_);
      size_ = 0;
      return;
    }
    const ssize_t n = ::read(from_, bytes_.data(), bytes_.size());
    if (n > 0) size_ = static_cast<size_t>(n);
    over_ = n == 0 || (n < 0 && errno != EINTR);
  }

 private:
  int from_;
  bool over_ = false;
  size_t size_ = 0;
  std::array<char, PIPE_BUF> bytes_{};
};

class Relay {
 public:
  explicit Relay(RelayEnds& ends) : ends_(ends), console_(ends.console.get()) {}

  Result<RelayEnd> run() {
    for (;;) {
      std::array<pollfd, 4> fds = {node(), vmm(), console_.wants(), machine()};
      const int ready = ::poll(fds.data(), fds.size(), patience());
      if (ready < 0 && errno != EINTR) return failErrno("waiting for node and machine");
      if (ready == 0) return RelayEnd::kStuck;
      if (ready < 0) continue;
      if ((fds[0].revents & (POLLRDHUP | kOver)) != 0) return RelayEnd::kNode;
      if (fds[1].revents != 0) vmmEnded();
      if (fds[2].revents != 0) console_.move();
      if (met()) {
        carry(fds[0].revents, fds[3].revents);
      } else if (fds[3].revents != 0) {
        TRY(meet());
      }
      if (ended_ && (!met() || out_.isDone()) && console_.isDone()) return RelayEnd::kMachine;
    }
  }

 private:
  [[nodiscard]] bool met() const { return static_cast<bool>(machine_); }
  [[nodiscard]] pollfd node() const {
    const int events = (met() && in_.hasRoom() ? POLLIN : 0) | (out_.hasBytes() ? POLLOUT : 0);
    return {ends_.node, static_cast<short>(events | POLLRDHUP), 0};
  }
  [[nodiscard]] pollfd vmm() const { return {ended_ ? -1 : ends_.alive.get(), 0, 0}; }
  // Initially the listener. A side without work is skipped, since poll(2) would report a closed
  // peer again and again.
  [[nodiscard]] pollfd machine() const {
    if (!met()) return {ends_.listener.get(), POLLIN, 0};
    const int events = (out_.hasRoom() ? POLLIN : 0) | (in_.hasBytes() ? POLLOUT : 0);
    return {events != 0 ? machine_.get() : -1, static_cast<short>(events), 0};
  }
  [[nodiscard]] int patience() const {
    if (!ending_) return -1;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until_ - Clock::now());
    return static_cast<int>(std::max<int64_t>(left.count(), 0));
  }
  void beginEnd() {
    if (!std::exchange(ending_, true)) until_ = Clock::now() + kPatience;
  }
  void vmmEnded() {
    ended_ = true;
    ends_.listener.reset();
    beginEnd();
  }
  Result<> meet() {
    machine_.reset(::accept4(ends_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!machine_) return failErrno("taking the machine's connection");
    ends_.listener.reset();
    return {};
  }
  void carry(short node, short machine) {
    if (in_.hasRoom() && (node & POLLIN) != 0) in_.readFrom(ends_.node);
    if (out_.hasBytes() && (node & POLLOUT) != 0 && !out_.writeTo(ends_.node)) out_.clear();
    if (out_.hasRoom() && (machine & (POLLIN | kOver)) != 0) out_.readFrom(machine_.get());
    // A machine that no longer reads may still have sent data.
    const bool takes = (machine & (POLLOUT | kOver)) != 0;
    if (in_.hasBytes() && takes && !in_.writeTo(machine_.get())) in_.clear();
    if (!out_.isDone()) return;
    ::shutdown(ends_.node, SHUT_WR);
    beginEnd();
  }

  RelayEnds& ends_;
  Fd machine_;
  Console console_;
  vmm::Pipe in_;         // to the machine
  vmm::Pipe out_;        // from the machine
  bool ending_ = false;  // after the first sign, when `until_` was set
  bool ended_ = false;   // the VMM
  Clock::time_point until_;
};

}  // namespace

Result<RelayEnd> relay(RelayEnds& ends) {
  return Relay(ends).run();
}

}  // namespace cloister::krun
