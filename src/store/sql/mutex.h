// SPDX-License-Identifier: Apache-2.0
// std::mutex with the attributes for -Wthread-safety, and a condition variable for the mutex.
// https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#define CLOISTER_GUARDED_BY(mutex) __attribute__((guarded_by(mutex)))
#define CLOISTER_REQUIRES(mutex) __attribute__((requires_capability(mutex)))

namespace cloister::store {

class __attribute__((capability("mutex"))) Mutex {
 public:
  friend class Condition;
  void lock() __attribute__((acquire_capability())) { mutex_.lock(); }
  void unlock() __attribute__((release_capability())) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class __attribute__((scoped_lockable)) Lock {
 public:
  explicit Lock(Mutex& mutex) __attribute__((acquire_capability(mutex))) : mutex_(mutex) {
    mutex_.lock();
  }
  ~Lock() __attribute__((release_capability())) { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

// Wait in a loop around the condition; wakes may be spurious.
class Condition {
 public:
  void wait(Mutex& mutex) CLOISTER_REQUIRES(mutex) {
    std::unique_lock held(mutex.mutex_, std::adopt_lock);
    condition_.wait(held);
    held.release();
  }
  void waitFor(Mutex& mutex, std::chrono::milliseconds time) CLOISTER_REQUIRES(mutex) {
    std::unique_lock held(mutex.mutex_, std::adopt_lock);
    condition_.wait_for(held, time);
    held.release();
  }
  void notifyOne() { condition_.notify_one(); }
  void notifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace cloister::store
