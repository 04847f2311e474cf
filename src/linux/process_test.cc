// SPDX-License-Identifier: Apache-2.0
#include "linux/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "base/file.h"
#include "linux/in_child.h"
#include "linux/message.h"
#include "linux/proc_tree.h"

namespace cloister::linux {
namespace {

// Writes into the memory of both, and then becomes another program.
int shareAndLeave(void* argument) {
  *static_cast<std::string*>(argument) = std::to_string(::getpid());
  ::execl("/bin/sleep", "sleep", "60", nullptr);
  ::_exit(1);
}

TEST(SharingProcess, SharesMemoryUntilItExecutes) {
  std::vector<char> stack(size_t{128} << 10);
  std::string written;
  SharingProcess process;
  const auto child = process.start(0, stack, shareAndLeave, &written);
  ASSERT_TRUE(child) << child.error().message;
  process.wait();
  EXPECT_EQ(written, std::to_string(child->pid));
  EXPECT_TRUE(signalPidfd(child->pidfd.get(), SIGKILL));
  EXPECT_TRUE(reapPidfd(child->pidfd.get()));
}

TEST(SharingProcess, IsNotWaitedForWhenItEnds) {
  std::vector<char> stack(size_t{128} << 10);
  SharingProcess process;
  process.wait();
  const auto child = process.start(0, stack, [](void*) -> int { ::_exit(0); }, nullptr);
  ASSERT_TRUE(child) << child.error().message;
  process.wait();
  EXPECT_TRUE(reapPidfd(child->pidfd.get()));
}

TEST(Process, APidfdSignalsAndTellsTheEnd) {
  auto child = cloneProcess(0);
  ASSERT_TRUE(child) << child.error().message;
  if (child->pid == 0) {
    for (;;)
      ::pause();
  }
  EXPECT_EQ(pidOfPidfd(child->pidfd.get()), child->pid);
  EXPECT_EQ(usageOfTree(::getpid()).processes, 2U);
  pollfd waiting{child->pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
  EXPECT_TRUE(signalPidfd(child->pidfd.get(), SIGKILL));
  EXPECT_EQ(::poll(&waiting, 1, -1), 1);
  EXPECT_TRUE(reapPidfd(child->pidfd.get()));
  EXPECT_TRUE(signalPidfd(child->pidfd.get(), SIGKILL)) << "gone is no error";
  EXPECT_EQ(pidOfPidfd(child->pidfd.get()), -1);
}

TEST(Process, CloseFromLeavesNothingAbove) {
  EXPECT_EQ(inChild([] {
              const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
              const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, 500);
              if (!closeFrom(static_cast<unsigned>(fd))) return 1;
              return ::fcntl(fd, F_GETFD) == -1 && ::fcntl(high, F_GETFD) == -1 ? 0 : 2;
            }),
            0);
}

TEST(Process, MovedDescriptorsStayOpenAcrossExec) {
  EXPECT_EQ(inChild([] {
              const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
              if (!moveFd(fd, 9) || ::fcntl(9, F_GETFD) != 0) return 1;
              return moveFd(fd, fd) && ::fcntl(fd, F_GETFD) == 0 ? 0 : 2;
            }),
            0);
}

TEST(Process, AResourceLimitIsForGood) {
  EXPECT_EQ(inChild([] {
              if (!setResourceLimit({RLIMIT_NOFILE, 40})) return 1;
              rlimit now{};
              ::getrlimit(RLIMIT_NOFILE, &now);
              return now.rlim_cur == 40 && now.rlim_max == 40 ? 0 : 2;
            }),
            0);
  EXPECT_EQ(resourceName(RLIMIT_CORE), "RLIMIT_CORE");
}

TEST(Process, AnUnprivilegedLimitIsClamped) {
  EXPECT_EQ(inChild([] {
              if (!setResourceLimit({RLIMIT_NOFILE, 40}) || !dropCapabilities()) return 1;
              if (!setResourceLimit({RLIMIT_NOFILE, 4000})) return 2;
              rlimit now{};
              ::getrlimit(RLIMIT_NOFILE, &now);
              return now.rlim_max == 40 ? 0 : 3;
            }),
            0);
}

TEST(Message, CarriesDescriptors) {
  auto pair = socketPair(SOCK_SEQPACKET);
  ASSERT_TRUE(pair);
  auto& [a, b] = *pair;
  const Fd file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  const int fds[] = {file.get(), a.get()};
  ASSERT_TRUE(sendMessage(a.get(), "hello", fds));
  char text[16];
  const auto message = receiveMessage(b.get(), text);
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_EQ(std::string_view(text, message->size), "hello");
  ASSERT_EQ(message->fds.size(), 2U);
  EXPECT_GT(::read(message->fds[0].get(), text, sizeof text), 0);
  EXPECT_NE(::fcntl(message->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Message, SaysWhatIsCutClosedOrNotThere) {
  auto pair = socketPair(SOCK_SEQPACKET | SOCK_NONBLOCK);
  ASSERT_TRUE(pair);
  auto& [a, b] = *pair;
  char text[4];
  auto none = receiveMessage(b.get(), text);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  ASSERT_TRUE(sendMessage(a.get(), "too long"));
  EXPECT_FALSE(receiveMessage(b.get(), text));
  a.reset();
  const auto closed = receiveMessage(b.get(), text);
  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->size, 0U);
}

TEST(Message, ASealedProgramRunsAndCannotBeChanged) {
  const auto program = sealedProgram("/bin/true");
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(::write(program->get(), "x", 1), -1);
  EXPECT_EQ(::ftruncate(program->get(), 0), -1);
  EXPECT_EQ(
      inChild([&] { return executeFd(program->get(), {"true"}, {}).message.empty() ? 1 : 2; }), 0);
  EXPECT_FALSE(sealedProgram("/nonexistent"));
}

}  // namespace
}  // namespace cloister::linux
