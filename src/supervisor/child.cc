// SPDX-License-Identifier: Apache-2.0
#include "supervisor/child.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>

namespace cloister::supervisor {

Millis backOff(uint32_t failures, Millis longest) {
  constexpr uint32_t kMostDoublings = 7;
  constexpr Millis kFirst{100};
  if (failures == 0) return Millis(0);
  return std::min(kFirst * (1 << std::min(failures - 1, kMostDoublings)), longest);
}

Result<> Child::startNow(int lifeline) {
  Pipe pipe = TRY(makePipe());
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  Program program = program_;
  program.argv.insert(program.argv.end(), {"--lifeline", std::to_string(lifeline), "--ready-fd",
                                           std::to_string(pipe.write.get())});
  program.pass.insert(program.pass.end(), {lifeline, pipe.write.get()});
  pid_ = TRY(start(program));
  if (!last_end_.empty()) ++restarts_;
  ready_pipe_ = std::move(pipe.read);
  ready_text_.clear();
  ready_ = false;
  started_ = base::monotonicNow();
  return {};
}

void Child::ended(int wait_status) {
  constexpr Millis kStable{30'000};
  const auto now = base::monotonicNow();
  failures_ = now - started_ >= kStable ? 1 : failures_ + 1;
  next_start_ = now + backOff(failures_, longest_);
  last_end_ = describeExit(wait_status);
  pid_ = 0;
  ready_ = false;
  ready_pipe_.reset();
}

bool Child::checkReady() {
  char bytes[256];
  const ssize_t n = ::read(ready_pipe_.get(), bytes, sizeof bytes);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n <= 0) {
    ready_pipe_.reset();  // closed without a message: wait will report the process's end
    return false;
  }
  constexpr size_t kMostText = 4096;
  if (ready_text_.size() < kMostText) ready_text_.append(bytes, static_cast<size_t>(n));
  ready_ = ready_text_.find('\n') != std::string::npos;
  ever_ready_ = ever_ready_ || ready_;
  return ready_;
}

void Child::signal(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);
}

}  // namespace cloister::supervisor
