// SPDX-License-Identifier: Apache-2.0
#include "supervisor/state_dir.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <thread>

#include "base/file.h"
#include "supervisor/process.h"

namespace cloister::supervisor {
namespace {

std::string lockPath(const std::string& dir) {
  return dir + "/lock";
}

pid_t holder(int fd) {
  char text[32];
  const ssize_t n = ::pread(fd, text, sizeof text, 0);
  pid_t pid = 0;
  if (n > 0) std::from_chars(text, text + n, pid);
  return pid;
}

}  // namespace

Result<Fd> lockState(const std::string& dir, Millis patience) {
  TRY(base::makeDirs(dir, 0755));
  const std::string path = lockPath(dir);
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return failErrno("opening " + path);
  Fd fd = TRY(moveUp(std::move(file)));
  const auto deadline = base::monotonicNow() + patience;
  constexpr Millis kPause{20};
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failErrno("locking " + path);
    const pid_t pid = holder(fd.get());
    const bool alive = pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
    if (alive || base::monotonicNow() >= deadline) {
      return fail(Code::kConflict, "using the state directory " + dir +
                                       ": another server holds it" +
                                       (pid > 0 ? " (process " + std::to_string(pid) + ")" : ""));
    }
    std::this_thread::sleep_for(kPause);
  }
  const std::string line = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), line.data(), line.size(), 0) < 0) {
    return failErrno("writing " + path);
  }
  return fd;
}

bool isHeld(const std::string& dir) {
  const Fd fd(::open(lockPath(dir).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::string clientCommand(const std::string& dir, const std::string& standard) {
  if (dir == standard) return "cloister";
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("/._-+").contains(c);
  };
  if (std::ranges::all_of(dir, plain)) return "cloister --state " + dir;
  std::string word = "'";
  for (const char c : dir)
    word += c == '\'' ? "'\\''" : std::string(1, c);
  return "cloister --state " + word + "'";
}

std::string certificatePath(const std::string& dir) {
  return dir + "/certificate.pem";
}

std::string addressPath(const std::string& dir) {
  return dir + "/address";
}

std::string adminKeyPath(const std::string& dir) {
  return dir + "/admin.key";
}

Result<std::string> readKey(const std::string& path) {
  constexpr size_t kMost = 4096;
  std::string key = TRY(base::readFile(path, kMost));
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' '))
    key.pop_back();
  const bool plain = std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7f; });
  if (key.empty() || !plain)
    return fail(Code::kInvalid, "reading the key in " + path + ": not a key");
  return key;
}

}  // namespace cloister::supervisor
