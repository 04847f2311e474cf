// SPDX-License-Identifier: Apache-2.0
// What the command line does on this machine: the state directory, sockets, children, files.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "cli/download.h"
#include "cli/server.h"
#include "supervisor/child.h"
#include "supervisor/listener.h"
#include "supervisor/process.h"
#include "supervisor/sd_notify.h"
#include "supervisor/state_dir.h"

namespace cloister::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Local : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(dir_.data()), nullptr); }
  void TearDown() override { fs::remove_all(dir_); }
  std::string dir_ = testing::TempDir() + "cloister-XXXXXX";
};

TEST_F(Local, OneHolderOfAStateDirectory) {
  EXPECT_FALSE(supervisor::isHeld(dir_));
  {
    const auto lock = supervisor::lockState(dir_, Millis(0));
    ASSERT_TRUE(lock);
    EXPECT_TRUE(supervisor::isHeld(dir_));
    const auto second =
        supervisor::lockState(dir_, Millis(60'000));  // the holder lives: no waiting
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr(std::to_string(::getpid())));
  }
  EXPECT_FALSE(supervisor::isHeld(dir_));
  EXPECT_TRUE(supervisor::lockState(dir_, Millis(0)));
}

// The admin key goes to the server that holds the directory, and to nobody else.
TEST_F(Local, TheAdminKeyStaysWithItsServer) {
  ::unsetenv("CLOISTER_URL");
  ::unsetenv("CLOISTER_API_KEY");
  ASSERT_TRUE(base::writeFileAtomic(supervisor::addressPath(dir_), "127.0.0.1:4711\n", 0644));
  ASSERT_TRUE(base::writeFileAtomic(supervisor::adminKeyPath(dir_), "clo_admin\n", 0600));
  Globals here{.state = dir_};
  EXPECT_FALSE(findServer(here).value()) << "nobody holds the directory";
  const auto lock = supervisor::lockState(dir_, Millis(0));
  ASSERT_TRUE(findServer(here).value());
  EXPECT_EQ(findServer(here).value()->key, "clo_admin");
  EXPECT_EQ(findServer(here).value()->url.port, "4711");

  Globals same{.url = "http://127.0.0.1:4711", .state = dir_};
  EXPECT_EQ(findServer(same).value()->key, "clo_admin");
  Globals other{.url = "http://127.0.0.1:4712", .state = dir_};
  EXPECT_EQ(findServer(other).value()->key, "");
}

TEST_F(Local, KeysAreOneWord) {
  ASSERT_TRUE(base::writeFileAtomic(dir_ + "/key", "a\r\nX-Evil: 1\n", 0600));
  EXPECT_FALSE(supervisor::readKey(dir_ + "/key"));
  ASSERT_TRUE(base::writeFileAtomic(dir_ + "/key", "\n", 0600));
  EXPECT_FALSE(supervisor::readKey(dir_ + "/key"));
}

TEST_F(Local, DownloadsStayBelowTheirDirectory) {
  ASSERT_TRUE(createBelow(dir_, "a/b/c.txt"));
  EXPECT_TRUE(fs::is_regular_file(dir_ + "/a/b/c.txt"));
  for (const std::string path :
       {"../x", "/etc/x", "a/../x", "a//x", "./x", "", "a/", "..", "a/b/.."}) {
    EXPECT_FALSE(createBelow(dir_, path)) << path;
  }
  EXPECT_FALSE(createBelow(dir_, std::string_view("a\0b", 3)));
  fs::create_directory(dir_ + "/outside");
  fs::create_directory(dir_ + "/in");
  fs::create_symlink(dir_ + "/outside", dir_ + "/in/link");
  fs::create_symlink(dir_ + "/outside/target", dir_ + "/in/file");
  EXPECT_FALSE(createBelow(dir_ + "/in", "link/x"));
  EXPECT_FALSE(createBelow(dir_ + "/in", "file"));
  EXPECT_TRUE(fs::is_empty(dir_ + "/outside"));
}

TEST(Listener, Addresses) {
  EXPECT_TRUE(supervisor::isLoopback("127.0.0.1:1"));
  EXPECT_TRUE(supervisor::isLoopback("[::1]:1"));
  EXPECT_FALSE(supervisor::isLoopback("0.0.0.0:1"));
  EXPECT_EQ(supervisor::reachable("0.0.0.0:80"), "127.0.0.1:80");
  EXPECT_EQ(supervisor::reachable("[::]:80"), "[::1]:80");
  EXPECT_EQ(supervisor::reachable("10.0.0.1:80"), "10.0.0.1:80");
  for (const char* bad :
       {"", "8750", "host.example:80", "127.0.0.1", "127.0.0.1:70000", "[::1:80"}) {
    EXPECT_FALSE(supervisor::listenOn(bad, Millis(0))) << bad;
  }
  const auto first = supervisor::listenOn("127.0.0.1:0", Millis(0));
  ASSERT_TRUE(first);
  const auto second = supervisor::listenOn(supervisor::addressOf(first->get()), Millis(60));
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("Address already in use"));
}

TEST(BackOff, DoublesAndStops) {
  EXPECT_EQ(supervisor::backOff(0), Millis(0));
  EXPECT_EQ(supervisor::backOff(1), Millis(100));
  EXPECT_EQ(supervisor::backOff(2), Millis(200));
  EXPECT_EQ(supervisor::backOff(7), Millis(6'400));
  EXPECT_EQ(supervisor::backOff(8), Millis(10'000));
  EXPECT_EQ(supervisor::backOff(1'000'000), Millis(10'000));
}

int waitFor(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

TEST(Process, ListenersAndDescriptorsArrive) {
  const Fd listener = *supervisor::listenOn("127.0.0.1:0", Millis(0));
  const supervisor::Pipe pipe = *supervisor::makePipe();
  supervisor::Program program;
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
  EXPECT_EQ(waitFor(*supervisor::start(program)), 0);
  char text[3] = {};
  EXPECT_EQ(::read(pipe.read.get(), text, 2), 2);
  EXPECT_STREQ(text, "ok");
}

TEST(Process, EndsAreDescribed) {
  EXPECT_EQ(
      supervisor::describeExit(waitFor(*supervisor::start({.argv = {"/bin/sh", "-c", "exit 3"}}))),
      "exited with status 3");
  EXPECT_EQ(supervisor::describeExit(
                waitFor(*supervisor::start({.argv = {"/bin/sh", "-c", "kill -9 $$"}}))),
            "was killed by SIGKILL");
  EXPECT_FALSE(supervisor::start({.argv = {"/nonexistent/program"}}));
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
  const supervisor::Notifier notifier;
  notifier.send("READY=1");
  char text[32] = {};
  EXPECT_EQ(::recv(socket.get(), text, sizeof text, MSG_DONTWAIT), 7);
  EXPECT_STREQ(text, "READY=1");
  EXPECT_EQ(notifier.watchdog(), Millis(2'000));
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(supervisor::Notifier().watchdog(), std::nullopt) << "meant for another process";
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
    ::unsetenv(name);
  supervisor::Notifier().send("nobody listens");
}

TEST(Listeners, OnlyThoseMeantForUs) {
  ::setenv("LISTEN_FDS", "1", 1);
  ::setenv("LISTEN_PID", "1", 1);
  EXPECT_TRUE(supervisor::takeListeners()->empty());
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", "99", 1);
  EXPECT_FALSE(supervisor::takeListeners());
  ::unsetenv("LISTEN_FDS");
  ::unsetenv("LISTEN_PID");
}

}  // namespace
}  // namespace cloister::cli
