// SPDX-License-Identifier: Apache-2.0
// The state directory, the sockets and the processes of a server.
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "supervisor/child.h"
#include "supervisor/listener.h"
#include "supervisor/process.h"
#include "supervisor/sd_notify.h"
#include "supervisor/state_dir.h"

namespace cloister::supervisor {
namespace {

using testing::HasSubstr;

class Local : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(dir_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string dir_ = testing::TempDir() + "cloister-XXXXXX";
};

TEST_F(Local, OneHolderOfAStateDirectory) {
  EXPECT_FALSE(isHeld(dir_));
  {
    const auto lock = lockState(dir_, Millis(0));
    ASSERT_TRUE(lock);
    EXPECT_TRUE(isHeld(dir_));
    const auto second = lockState(dir_, Millis(60'000));  // the holder lives: no waiting
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr(std::to_string(::getpid())));
  }
  EXPECT_FALSE(isHeld(dir_));
  EXPECT_TRUE(lockState(dir_, Millis(0)));
}

TEST(StateDir, AnotherOneIsNamedInTheCommand) {
  const std::string standard = "/var/lib/cloister";
  EXPECT_EQ(clientCommand(standard, standard), "cloister");
  EXPECT_EQ(clientCommand("/srv/a-1.b", standard), "cloister --state /srv/a-1.b");
  EXPECT_EQ(clientCommand("/srv/it's $HOME", standard), "cloister --state '/srv/it'\\''s $HOME'");
}

TEST_F(Local, KeysAreOneWord) {
  ASSERT_TRUE(base::writeFileAtomic(dir_ + "/key", "a\r\nX-Evil: 1\n", 0600));
  EXPECT_FALSE(readKey(dir_ + "/key"));
  ASSERT_TRUE(base::writeFileAtomic(dir_ + "/key", "\n", 0600));
  EXPECT_FALSE(readKey(dir_ + "/key"));
}

TEST(Listener, Addresses) {
  EXPECT_TRUE(isLoopback("127.0.0.1:1"));
  EXPECT_TRUE(isLoopback("[::1]:1"));
  EXPECT_FALSE(isLoopback("0.0.0.0:1"));
  EXPECT_EQ(reachable("0.0.0.0:80"), "127.0.0.1:80");
  EXPECT_EQ(reachable("[::]:80"), "[::1]:80");
  EXPECT_EQ(reachable("10.0.0.1:80"), "10.0.0.1:80");
  for (const char* bad :
       {"", "8750", "host.example:80", "127.0.0.1", "127.0.0.1:70000", "[::1:80"}) {
    EXPECT_FALSE(listenOn(bad, Millis(0))) << bad;
  }
  const auto first = listenOn("127.0.0.1:0", Millis(0));
  ASSERT_TRUE(first);
  const auto second = listenOn(addressOf(first->get()), Millis(60));
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("Address already in use"));
}

TEST(BackOff, DoublesAndStops) {
  EXPECT_EQ(backOff(0), Millis(0));
  EXPECT_EQ(backOff(1), Millis(100));
  EXPECT_EQ(backOff(2), Millis(200));
  EXPECT_EQ(backOff(7), Millis(6'400));
  EXPECT_EQ(backOff(8), Millis(10'000));
  EXPECT_EQ(backOff(1'000'000), Millis(10'000));
  EXPECT_EQ(backOff(1, Millis(500)), Millis(100));
  EXPECT_EQ(backOff(1'000'000, Millis(500)), Millis(500));
}

int waitFor(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

TEST(Process, ListenersAndDescriptorsArrive) {
  const Fd listener = *listenOn("127.0.0.1:0", Millis(0));
  const Pipe pipe = *makePipe();
  Program program;
  const std::string fd = std::to_string(pipe.write.get());
  program.argv = {"/bin/sh", "-c",
                  "[ $LISTEN_PID = $$ ] && [ $LISTEN_FDS = 1 ] && [ -S /proc/self/fd/3 ] && "
                  "[ ! -e /proc/self/fd/" +
                      std::to_string(pipe.read.get()) +
                      " ] && "
                      "[ \"$ONLY\" = this ] && [ -z \"$HOME\" ] && printf ok > /proc/self/fd/" +
                      fd};
  program.env = {"ONLY=this", "PATH=/bin:/usr/bin"};
  program.pass = {pipe.write.get()};
  program.listeners = {listener.get()};
  EXPECT_EQ(waitFor(*start(program)), 0);
  char text[3] = {};
  EXPECT_EQ(::read(pipe.read.get(), text, 2), 2);
  EXPECT_STREQ(text, "ok");
}

TEST(Process, EndsAreDescribed) {
  EXPECT_EQ(describeExit(waitFor(*start({.argv = {"/bin/sh", "-c", "exit 3"}}))),
            "exited with status 3");
  EXPECT_EQ(describeExit(waitFor(*start({.argv = {"/bin/sh", "-c", "kill -9 $$"}}))),
            "was killed by SIGKILL");
  EXPECT_FALSE(start({.argv = {"/nonexistent/program"}}));
}

TEST_F(Local, NotificationsArrive) {
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = dir_ + "/notify";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  ::setenv("WATCHDOG_USEC", "4000000", 1);
  const Notifier notifier;
  notifier.send("READY=1");
  char text[32] = {};
  EXPECT_EQ(::recv(socket.get(), text, sizeof text, MSG_DONTWAIT), 7);
  EXPECT_STREQ(text, "READY=1");
  EXPECT_EQ(notifier.watchdog(), Millis(2'000));
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(Notifier().watchdog(), std::nullopt) << "meant for another process";
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
    ::unsetenv(name);
  Notifier().send("nobody listens");
}

TEST(Listeners, OnlyThoseMeantForUs) {
  ::setenv("LISTEN_FDS", "1", 1);
  ::setenv("LISTEN_PID", "1", 1);
  EXPECT_TRUE(takeListeners()->empty());
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", "99", 1);
  EXPECT_FALSE(takeListeners());
  ::unsetenv("LISTEN_FDS");
  ::unsetenv("LISTEN_PID");
}

}  // namespace
}  // namespace cloister::supervisor
