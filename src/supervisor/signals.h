// SPDX-License-Identifier: Apache-2.0
// Signals as a descriptor to poll: blocked for the process during this object's life. Children must
// reset their mask (see process.h).
#pragma once

#include <signal.h>

#include <initializer_list>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::supervisor {

class Signals {
 public:
  static Result<Signals> block(std::initializer_list<int> signals);
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  Signals(Signals&&) noexcept = default;
  Signals& operator=(Signals&&) noexcept = delete;
  ~Signals();  // drops pending signals, restores the mask

  [[nodiscard]] int fd() const { return fd_.get(); }
  // The next pending signal, 0 if none.
  [[nodiscard]] int take() const;

 private:
  Signals(Fd fd, const sigset_t& before) : fd_(std::move(fd)), before_(before) {}
  Fd fd_;
  sigset_t before_;
};

}  // namespace cloister::supervisor
