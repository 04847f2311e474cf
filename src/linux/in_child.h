// SPDX-License-Identifier: Apache-2.0
// For tests: runs irreversible changes of a process in a child.
#pragma once

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "linux/credentials.h"
#include "linux/process.h"

namespace cloister::linux {

// The exit code of a child that runs `body` and exits with its result; 128 + N after signal N.
inline int inChild(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline constexpr int kNoNamespaces = 77;

// The same in new user and mount namespaces with all capabilities there; kNoNamespaces if this
// machine forbids the namespaces.
inline int inNamespaces(const std::function<int()>& body) {
  return inChild([&] {
    const uid_t uid = ::geteuid();
    const gid_t gid = ::getegid();
    if (!unshareNamespaces(CLONE_NEWUSER | CLONE_NEWNS) || !mapSelf(0, uid, gid)) {
      return kNoNamespaces;
    }
    return body();
  });
}

}  // namespace cloister::linux
