// SPDX-License-Identifier: Apache-2.0
#include "vmm/relay.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/fd.h"

namespace cloister::vmm {
namespace {

// The relay between the test's two ends, node and guest; in a separate process, since relay() may
// be called only once.
struct Relay {
  Fd node;
  Fd guest;
  pid_t pid = -1;

  Relay() {
    int to_node[2];
    int to_guest[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, to_node), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, to_guest), 0);
    pid = ::fork();
    if (pid == 0) {
      ::close(to_node[0]);
      ::close(to_guest[0]);
      relay(to_node[1], to_guest[1]);
      ::_exit(0);
    }
    node.reset(to_node[0]);
    guest.reset(to_guest[0]);
    ::close(to_node[1]);
    ::close(to_guest[1]);
  }
  ~Relay() {
    node.reset();
    EXPECT_TRUE(ended());
  }
  bool ended() {
    int status = 0;
    if (pid > 0 && ::waitpid(pid, &status, 0) == pid) pid = 0;
    return pid == 0 && status == 0;
  }
};

void writeAll(int socket, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return;
    at += static_cast<size_t>(n);
  }
}

std::string readUpTo(int socket, size_t size) {
  std::string bytes(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t n = ::read(socket, bytes.data() + have, size - have);
    if (n <= 0) break;
    have += static_cast<size_t>(n);
  }
  bytes.resize(have);
  return bytes;
}

std::string pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>(i * 31 + i / 251);
  return bytes;
}

TEST(Relay, CarriesBothWaysAtOnceAndLosesNothing) {
  Relay relay;
  const std::string in = pattern(3'000'000);
  const std::string out = pattern(5'000'001);
  std::thread writes_in([&] { writeAll(relay.node.get(), in); });
  std::thread writes_out([&] { writeAll(relay.guest.get(), out); });
  std::thread reads_in([&] { EXPECT_TRUE(readUpTo(relay.guest.get(), in.size()) == in); });
  EXPECT_TRUE(readUpTo(relay.node.get(), out.size()) == out);
  writes_in.join();
  writes_out.join();
  reads_in.join();
}

TEST(Relay, HoldsUpWhoWritesFasterThanIsRead) {
  Relay relay;
  const std::string chunk(65'536, 'x');
  size_t taken = 0;
  for (int idle = 0; idle < 50;) {
    const ssize_t n = ::send(relay.guest.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n > 0) taken += static_cast<size_t>(n);
    idle = n > 0 ? 0 : idle + 1;
    if (n <= 0) ::usleep(1'000);
  }
  EXPECT_LT(taken, size_t{2} << 20);  // the capacity of sockets, and the relay's 64 KiB
  EXPECT_EQ(readUpTo(relay.node.get(), taken).size(), taken);
}

TEST(Relay, WritesWhatTheGuestHasSaidBeforeItEnded) {
  Relay relay;
  const std::string out = pattern(100'000);
  std::thread writes([&] {
    writeAll(relay.guest.get(), out);
    relay.guest.reset();
  });
  EXPECT_TRUE(readUpTo(relay.node.get(), out.size() + 1) == out);
  writes.join();
  EXPECT_TRUE(relay.ended());
}

TEST(Relay, EndsWhenTheNodeHangsUpThoughTheGuestTakesNothing) {
  Relay relay;
  std::thread writes([&] { writeAll(relay.node.get(), pattern(1'000'000)); });
  ::usleep(50'000);
  ::shutdown(relay.node.get(), SHUT_RDWR);
  writes.join();
  EXPECT_TRUE(relay.ended());
}

}  // namespace
}  // namespace cloister::vmm
