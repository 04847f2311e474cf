// SPDX-License-Identifier: Apache-2.0
#include "supervisor/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace cloister::supervisor {

Result<Signals> Signals::block(std::initializer_list<int> signals) {
  sigset_t set;
  sigset_t before;
  sigemptyset(&set);
  for (const int signal : signals)
    sigaddset(&set, signal);
  if (::sigprocmask(SIG_BLOCK, &set, &before) != 0) return failErrno("blocking signals");
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return failErrno("making a signal descriptor");
  return Signals(std::move(fd), before);
}

Signals::~Signals() {
  if (!fd_) return;
  while (take() != 0) {  // handled signals must not strike after the mask is restored
  }
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int Signals::take() const {
  signalfd_siginfo info;
  return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                              : 0;
}

}  // namespace cloister::supervisor
