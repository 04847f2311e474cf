// SPDX-License-Identifier: Apache-2.0
#include "runner/filter.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"

namespace cloister::runner {
bool enterFilter(const char* path) {
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  return file && enterFilter(file.get());
}

bool enterFilter(int file) {
  static sock_filter program[BPF_MAXINSNS];
  size_t size = 0;
  for (ssize_t n; size < sizeof program; size += static_cast<size_t>(n)) {
    n = ::read(file, reinterpret_cast<char*>(program) + size, sizeof program - size);
    if (n < 0) return false;
    if (n == 0) break;
  }
  if (size == 0 || size % sizeof(sock_filter) != 0) return false;
  const sock_fprog whole{static_cast<unsigned short>(size / sizeof(sock_filter)), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole, 0, 0) == 0;
}

}  // namespace cloister::runner
