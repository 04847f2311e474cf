// SPDX-License-Identifier: Apache-2.0
// Processes: making processes in fresh namespaces, signalling without a race, and the switches that
// a process sets on itself before running untrusted code. Every function is one system call or a
// fixed short sequence, with a reference to the man page.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::linux {

struct Cloned {
  pid_t pid = -1;  // 0 in the child
  Fd pidfd;        // in the parent
};

// clone3(2) with CLONE_PIDFD: a copy of this process, like fork(2), in the new namespaces of
// `flags` (CLONE_NEW*). `cgroup`: a v2 directory for CLONE_INTO_CGROUP, or -1. The caller must be
// single-threaded, or the child must not use objects that other threads may have locked.
Result<Cloned> cloneProcess(uint64_t flags, int cgroup = -1);

// A process that shares its parent's memory until execve(2) or its end, so that no page is copied;
// clone(2) with CLONE_VM. The two must take turns: the child waits without writing to memory until
// told to go on, and then the parent calls only wait().
class SharingProcess {
 public:
  // Starts in new namespaces (CLONE_NEW*), on `stack`, with `run(argument)`, which must not return.
  Result<Cloned> start(uint64_t flags, std::span<char> stack, int (*run)(void*), void* argument);
  // Waits until no memory is shared. Returns at once if no process was started.
  void wait() const;

 private:
  uint32_t shares_ = 0;  // the kernel's CLONE_CHILD_CLEARTID
};

// For a child of such a process. The C library believes its thread registered for restartable
// sequences, rseq(2), but the kernel has no registration: registers again.
void registerRseq();

// unshare(2).
Result<> unshareNamespaces(int flags);

// setns(2) with a pidfd: enters that process's namespaces named by `flags` (CLONE_NEW*), all at
// once. A pid namespace applies to later children.
Result<> joinNamespaces(int pidfd, int flags);

// fchdir(2), chroot(2): makes the open directory this process's root and working directory.
Result<> changeRoot(int directory);

// pidfd_send_signal(2). An ended process is no error.
Result<> signalPidfd(int pidfd, int signal);

// Waits until the process of `pidfd`, a child of ours, has ended, and reaps the process; waitid(2)
// P_PIDFD.
Result<> reapPidfd(int pidfd);

// The process number of `pidfd` in this process's /proc; -1 once ended.
pid_t pidOfPidfd(int pidfd);

// close_range(2): closes `first` and every higher descriptor.
Result<> closeFrom(unsigned first);

// dup3(2), or nothing if equal; the result stays open across execve(2).
Result<> moveFd(int from, int to);

// execveat(2) with AT_EMPTY_PATH: runs the program open at `fd`. Returns only to say why not.
Error executeFd(int fd, const std::vector<std::string>& argv, const std::vector<std::string>& env);

// execvpe(3): looks for argv[0] in the PATH of `env`. Returns only to say why not.
Error executeInPath(const std::vector<std::string>& argv, const std::vector<std::string>& env);

// prctl(2) PR_SET_NO_NEW_PRIVS.
Result<> setNoNewPrivs();

// prctl(2) PR_SET_DUMPABLE 0: no core dump, and no other process of this user may trace this
// process or read its memory. A change of the user id resets the flag, so call again afterwards.
Result<> hideMemory();

// The other way round, as after an execve(2).
Result<> showMemory();

// sched_setattr(2): how long this thread and its children may run on while others wait (Linux
// 6.12). A thread with a short slice gets the processor sooner when woken. 0: the kernel's default.
// Older kernels ignore the call.
void askForSlice(std::chrono::microseconds length);
// The slice of threads that answer requests, besides programs that run long: less than the kernel's
// default, but enough for an answer, so that such threads do not interrupt each other.
inline constexpr std::chrono::microseconds kServiceSlice{700};

// prctl(2) PR_SET_PDEATHSIG: SIGKILL when the parent thread ends.
Result<> dieWithParent();

// An RLIMIT_*, soft and hard alike.
struct ResourceLimit {
  int resource = 0;
  uint64_t value = 0;

  friend bool operator==(const ResourceLimit&, const ResourceLimit&) = default;
};
// setrlimit(2). Clamps the value to an unprivileged caller's hard limit.
Result<> setResourceLimit(ResourceLimit limit);
// Sets only the soft limit.
Result<> setSoftLimit(ResourceLimit limit);
// sched_setaffinity(2): this process and its children run on `count` of the processors now allowed,
// starting at number `first` and wrapping around. More than available: all.
Result<> limitProcessors(uint32_t count, uint32_t first);
// Raises the soft limit of descriptors to `wanted`, at most to the hard limit. Returns the new
// limit, 0 if unknown.
size_t raiseDescriptors(size_t wanted);
// "RLIMIT_NOFILE" and so on.
std::string resourceName(int resource);

}  // namespace cloister::linux
