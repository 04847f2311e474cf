// SPDX-License-Identifier: Apache-2.0
#include "runner/channel.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace cloister::runner {
namespace {

uint64_t micros(const timeval& tv) {
  return static_cast<uint64_t>(tv.tv_sec) * 1'000'000 + static_cast<uint64_t>(tv.tv_usec);
}

}  // namespace

bool StdinBuffer::add(std::string_view bytes) {
  if (bytes.size() > wire::kStdinWindow - size_) return false;
  const size_t end = (begin_ + size_) % wire::kStdinWindow;
  const size_t first = std::min(bytes.size(), wire::kStdinWindow - end);
  if (first != 0) std::memcpy(bytes_ + end, bytes.data(), first);
  if (first != bytes.size()) std::memcpy(bytes_, bytes.data() + first, bytes.size() - first);
  size_ += bytes.size();
  return true;
}

std::string_view StdinBuffer::front() const {
  return {bytes_ + begin_, std::min(size_, wire::kStdinWindow - begin_)};
}

void StdinBuffer::take(size_t n) {
  size_ -= n;
  begin_ = size_ == 0 ? 0 : (begin_ + n) % wire::kStdinWindow;
}

void Channel::reset(uint32_t channel_number) {
  used = true;
  ended = kill_rest = adopted = waited = terminal = saves = holds = serves = notes = stdin_closing =
      windowed = draining = out_ready = err_ready = begun = false;
  taken = out_left = err_left = 0;
  window = wire::kOutputUnits;
  number = channel_number;
  kernel = -1;
  pid = -1;
  status = 0;
  user_micros = system_micros = max_rss_bytes = read_bytes = written_bytes = 0;
  reaped = open_files = file_table = 0;
  since = {};
  in.reset();
  out.reset();
  err.reset();
  pending.clear();
}

size_t Channel::allowance() const {
  constexpr uint32_t kFrame = wire::outputUnits(0);
  if (!windowed) return wire::kRunnerMaxPayload;
  return window <= kFrame ? 0 : std::min(window - kFrame, wire::kRunnerMaxPayload);
}

void Channel::account(const rusage& usage) {
  constexpr uint64_t kBlock = 512;  // of getrusage(2)
  ++reaped;
  user_micros += micros(usage.ru_utime);
  system_micros += micros(usage.ru_stime);
  max_rss_bytes = std::max(max_rss_bytes, static_cast<uint64_t>(usage.ru_maxrss) * 1024);
  read_bytes += static_cast<uint64_t>(usage.ru_inblock) * kBlock;
  written_bytes += static_cast<uint64_t>(usage.ru_oublock) * kBlock;
}

void Channel::feed() {
  while (in && !pending.empty()) {
    const std::string_view bytes = pending.front();
    const ssize_t n = write(in.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) in.reset();
    if (n > 0) pending.take(static_cast<size_t>(n));
    if (n > 0) taken += static_cast<uint32_t>(n);
  }
  if (!in) {
    taken += static_cast<uint32_t>(pending.size());
    pending.clear();
  }
  if (stdin_closing) {
    constexpr char kEndOfFile = 4;  // VEOF, as the terminal is made
    if (terminal && in) static_cast<void>(write(in.get(), &kEndOfFile, 1) == 1);
    in.reset();
  }
}

}  // namespace cloister::runner
