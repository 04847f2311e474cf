// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/ask_version.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <tuple>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "linux/process.h"
#include "linux/tree_digest.h"
#include "sandbox/host/own_cache.h"

namespace cloister::runtime {
namespace {
constexpr auto kPatience = std::chrono::seconds(5);
constexpr size_t kMaxVersion = 256;
}  // namespace

std::string askProgram(int program, const std::vector<std::string>& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const Fd out(ends[0]);
  Fd in(ends[1]);
  auto child = linux::cloneProcess(0);
  if (!child) return {};
  if (child->pid == 0) {
    std::ignore = linux::dieWithParent();
    std::ignore = linux::moveFd(in.get(), STDOUT_FILENO);
    std::ignore = linux::executeFd(program, command, {});
    ::_exit(127);
  }
  in.reset();
  std::string text;
  const auto until = base::monotonicNow() + kPatience;
  for (bool more = true; more && text.size() < kMaxVersion;) {
    const auto left = std::chrono::duration_cast<Millis>(until - base::monotonicNow()).count();
    pollfd ready{out.get(), POLLIN, 0};
    std::array<char, kMaxVersion> bytes;
    more = left > 0 && ::poll(&ready, 1, static_cast<int>(left)) == 1;
    const ssize_t n = more ? ::read(out.get(), bytes.data(), bytes.size()) : 0;
    more = n > 0;
    if (more) text.append(bytes.data(), static_cast<size_t>(n));
  }
  std::ignore = linux::signalPidfd(child->pidfd.get(), SIGKILL);
  std::ignore = linux::reapPidfd(child->pidfd.get());
  return text;
}

std::string askVersion(int program, const std::string& name) {
  struct stat status{};
  if (::fstat(program, &status) != 0) return {};
  const std::string stamp = linux::stampOf(status) + "\n";
  const CachePlace place = cachePlace("version-" + name);
  const std::string known = readCached(place, "", stamp.size() + kMaxVersion);
  if (known.starts_with(stamp)) return known.substr(stamp.size());
  std::string said = askProgram(program, {name, "--version"});
  if (said.empty() || place.own.empty()) return said;
  std::ignore = base::makeDirs(place.own.substr(0, place.own.rfind('/')));
  std::ignore = base::writeFileAtomic(place.own, stamp + said, 0644);
  return said;
}

}  // namespace cloister::runtime
