// SPDX-License-Identifier: Apache-2.0
#include "vmm/keep.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include <string.h>

#include "wire/driver.h"
#include "wire/frame.h"

namespace cloister::vmm {
namespace {

constexpr size_t kPage = 4'096;

char the_pages[64 * kPage];  // zero pages until use

bool isEmpty(const char* page, size_t size) {
  return page[0] == 0 && memcmp(page, page + 1, size - 1) == 0;
}

// Frees the file's pages; on failure the pages stay allocated.
void drop(int file, off_t begin, off_t end) {
  if (begin == end) return;
  static_cast<void>(
      fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin));
}

}  // namespace

bool takeOrder(int orders) {
  char bytes[wire::kHeaderBytes];
  wire::FrameHeader header;
  return recv(orders, bytes, sizeof bytes, MSG_WAITALL) == static_cast<ssize_t>(sizeof bytes) &&
         wire::decodeHeader({bytes, sizeof bytes}, header) && header.length == 0 &&
         header.channel == 0 && header.type == static_cast<uint16_t>(wire::driver::ToDriver::kKeep);
}

void answerOrder(int orders, const Fault* fault) {
  using wire::driver::FromDriver;
  Text<wire::driver::kMaxReason> reason;
  if (fault != nullptr) reason.shown(fault->view(), wire::driver::kMaxReason - 1);
  const FromDriver type = fault != nullptr ? FromDriver::kNotKept : FromDriver::kKept;
  char frame[wire::kHeaderBytes + wire::driver::kMaxReason];
  const std::string_view text = reason.view();
  wire::encodeHeader(frame, static_cast<uint16_t>(type), 0, static_cast<uint32_t>(text.size()));
  memcpy(frame + wire::kHeaderBytes, text.data(), text.size());
  static_cast<void>(send(orders, frame, wire::kHeaderBytes + text.size(), MSG_NOSIGNAL));
}

void dropEmptyPages(const char* path) {
  const Fd opened(open(path, O_RDWR | O_CLOEXEC));
  const int file = opened.get();
  off_t begin = 0;  // start of the empty pages before `at`
  off_t at = 0;
  for (;;) {
    const ssize_t n = pread(file, the_pages, sizeof the_pages, at);
    if (n <= 0) break;
    for (size_t done = 0; done < static_cast<size_t>(n); done += kPage) {
      const size_t left = static_cast<size_t>(n) - done;
      const size_t size = left < kPage ? left : kPage;
      at += static_cast<off_t>(size);
      if (isEmpty(the_pages + done, size)) continue;
      drop(file, begin, at - static_cast<off_t>(size));
      begin = at;
    }
  }
  drop(file, begin, at);
}

}  // namespace cloister::vmm
