// SPDX-License-Identifier: Apache-2.0
// Processes: making them in fresh namespaces, signalling them without a race, and the switches a
// process throws on itself before it runs what it does not trust. Every function is one system call
// or a fixed short sequence; the man page is named beside it.
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

// clone3(2) with CLONE_PIDFD: a copy of this process, like fork(2), in the new namespaces that
// `flags` (CLONE_NEW*) name. `cgroup` is a v2 directory for CLONE_INTO_CGROUP, or -1. The caller
// must be single-threaded or the child must not use what other threads may have locked.
Result<Cloned> cloneProcess(uint64_t flags, int cgroup = -1);

// A process that shares the memory of this one until it executes a program or ends, so that nothing
// of it is copied; clone(2) with CLONE_VM. The two must take turns: it waits, touching nothing,
// until it is told to go on, and from then on this one does nothing but wait().
class SharingProcess {
 public:
  // In new namespaces (CLONE_NEW*), on `stack`, where it runs `run(argument)`, which must not
  // return.
  Result<Cloned> start(uint64_t flags, std::span<char> stack, int (*run)(void*), void* argument);
  // Until it shares nothing any more. Returns at once where none was started.
  void wait() const;

 private:
  uint32_t shares_ = 0;  // the kernel's CLONE_CHILD_CLEARTID
};

// In a child of such a process, which has the C library's word that its thread is registered for
// restartable sequences, rseq(2), while the kernel knows nothing of it: registers it again.
void registerRseq();

// unshare(2).
Result<> unshareNamespaces(int flags);

// setns(2) with a pidfd: enters the namespaces of that process which `flags` (CLONE_NEW*) name, all
// at once. The pid namespace is that of the children from then on.
Result<> joinNamespaces(int pidfd, int flags);

// fchdir(2), chroot(2): the open directory becomes this process's root and working directory.
Result<> changeRoot(int directory);

// pidfd_send_signal(2). A process that is gone is no error.
Result<> signalPidfd(int pidfd, int signal);

// Waits until the process of `pidfd`, a child of ours, has ended, and reaps it; waitid(2) P_PIDFD.
Result<> reapPidfd(int pidfd);

// The process number of `pidfd` as this process's /proc shows it; -1 once it is gone.
pid_t pidOfPidfd(int pidfd);

// close_range(2): closes `first` and every higher descriptor.
Result<> closeFrom(unsigned first);

// dup3(2), or nothing when they are the same; the result stays open across execve(2).
Result<> moveFd(int from, int to);

// execveat(2) with AT_EMPTY_PATH: runs the program open at `fd`. Returns only to say why not.
Error executeFd(int fd, const std::vector<std::string>& argv, const std::vector<std::string>& env);

// execvpe(3): looks for argv[0] in the PATH of `env`. Returns only to say why not.
Error executeInPath(const std::vector<std::string>& argv, const std::vector<std::string>& env);

// prctl(2) PR_SET_NO_NEW_PRIVS.
Result<> setNoNewPrivs();

// prctl(2) PR_SET_DUMPABLE 0: no core dump, and no other process of this user may trace this one or
// read its memory. Lost when the user id changes, so call it after that (again).
Result<> hideMemory();

// The other way round, as after an execve(2).
Result<> showMemory();

// sched_setattr(2): for how long this thread, and what it will start, may run on while others wait
// (Linux 6.12). Who asks for little gets the processor sooner when woken. 0: the kernel's default.
// A kernel that knows nothing of it changes nothing.
void askForSlice(std::chrono::microseconds length);
// What those ask for who answer requests, beside programs that run as long as they may: less than
// the kernel gives by default, but enough for an answer, so that they do not interrupt each other.
inline constexpr std::chrono::microseconds kServiceSlice{700};

// prctl(2) PR_SET_PDEATHSIG: SIGKILL when the thread that made this process ends.
Result<> dieWithParent();

// One RLIMIT_*, soft and hard alike.
struct ResourceLimit {
  int resource = 0;
  uint64_t value = 0;

  friend bool operator==(const ResourceLimit&, const ResourceLimit&) = default;
};
// setrlimit(2). A value above an unprivileged caller's hard limit is clamped to it.
Result<> setResourceLimit(ResourceLimit limit);
// The same of the soft limit alone; the hard one stays.
Result<> setSoftLimit(ResourceLimit limit);
// sched_setaffinity(2): this process, and what it starts, runs on `count` of the processors that it
// may run on now, from the `first` on, which wraps. More than there are: on all.
Result<> limitProcessors(uint32_t count, uint32_t first);
// Raises the soft limit of descriptors to `wanted`, as far as the hard one allows; what it is then,
// 0 if that cannot be told.
size_t raiseDescriptors(size_t wanted);
// "RLIMIT_NOFILE" and so on.
std::string resourceName(int resource);

}  // namespace cloister::linux
