// SPDX-License-Identifier: Apache-2.0
// Separate from the compiler in seccomp.cc, so that programs that only install need no libseccomp.
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "linux/seccomp.h"

namespace cloister::linux {

int installSeccompRaw(const sock_filter* filter, size_t length) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  const sock_fprog program{static_cast<unsigned short>(length), const_cast<sock_filter*>(filter)};
  const long result =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (result > 0) return EBUSY;  // a thread has another filter
  return result == 0 ? 0 : errno;
}

Result<> installSeccomp(const std::vector<sock_filter>& filter) {
  if (const int error = installSeccompRaw(filter.data(), filter.size()); error != 0)
    return failErrno("installing a system call filter", error);
  return {};
}

}  // namespace cloister::linux
