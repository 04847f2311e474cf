// SPDX-License-Identifier: Apache-2.0
// LockWatch: ends a sandbox whose programs hold more locks on files than a bound. Linux charges the
// locks to no cgroup, and has no limit of its own on the number of locks of a process.
//
//   every second while there is a sandbox to watch
//     └─ the kernel has memory for more than the bound   one small file; else that was all
//          └─ /proc/locks, on a thread of its own        the first kMostRead; then it rests
//               └─ by process, and its sandbox           what descends from its first process
//
// All methods on one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include "linux/file_locks.h"

namespace cloister::runtime {

// More locks than a sandbox may have.
struct LocksOver {
  uint64_t held = 0;
  uint64_t most = 0;
};

// A sandbox as seen by LockWatch.
class LockHolder {
 public:
  virtual ~LockHolder() = default;
  // The pid in this process's /proc; -1 once gone.
  [[nodiscard]] virtual pid_t firstProcess() const = 0;
  virtual void endFor(const LocksOver& locks) = 0;
};

struct LockWatchConfig {
  uint64_t most = 1024;  // of a sandbox
  std::chrono::milliseconds period{1000};
  std::chrono::milliseconds longest_rest{5000};
  std::string locks = "/proc/locks";
  std::string room = "/sys/kernel/slab/file_lock_cache/total_objects";
};

// Reading more takes seconds, because the kernel walks the list from its beginning for each read.
inline constexpr uint64_t kMostRead = 65'536;

// The limit for each of `holders` sandboxes: `most`. If not all locks could be read, half of the
// locks read divided by `holders`, since the host's locks are included; never more than `most`.
uint64_t locksEach(const linux::FileLocks& locks, uint64_t most, size_t holders);

// The pause after a reading of duration `took`: a multiple of `took`, so that many permitted locks
// cost a twentieth of a processor. Never more than `longest_rest`, because other processes' locks
// can make a reading take seconds.
std::chrono::steady_clock::duration restAfter(const LockWatchConfig& config,
                                              std::chrono::steady_clock::duration took);

class LockWatch : public std::enable_shared_from_this<LockWatch> {
 public:
  LockWatch(boost::asio::any_io_executor executor, LockWatchConfig config);
  LockWatch(const LockWatch&) = delete;
  LockWatch& operator=(const LockWatch&) = delete;
  // Waits for a running reading.
  ~LockWatch() = default;

  // Watches the holder while `holder` is alive and has processes.
  void watch(std::weak_ptr<LockHolder> holder);

 private:
  // Number of locks by the first process of the holding sandbox.
  struct Seen {
    linux::FileLocks locks;
    std::unordered_map<pid_t, uint64_t> held;
    std::chrono::steady_clock::duration took{};
  };
  void rest(std::chrono::steady_clock::duration pause);
  void look();
  [[nodiscard]] bool dropEnded();
  void readAside();
  static Seen read(const std::string& path, const std::vector<pid_t>& first);
  void judge(const Seen& seen);

  boost::asio::any_io_executor executor_;
  LockWatchConfig config_;
  boost::asio::steady_timer timer_;
  std::vector<std::weak_ptr<LockHolder>> holders_;
  bool watching_ = false;
  std::optional<boost::asio::thread_pool> aside_;  // once there was something to read
};

}  // namespace cloister::runtime
