// SPDX-License-Identifier: Apache-2.0
// One direction of the relay: a bounded buffer of bytes read from one socket and not yet written to
// the other. While the buffer is full nothing is read, so a writer that is faster than the other
// side's reader waits.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace cloister::vmm {

class Pipe {
 public:
  [[nodiscard]] bool hasRoom() const { return !ended_ && end_ < sizeof bytes_; }
  [[nodiscard]] bool hasBytes() const { return begin_ < end_; }
  [[nodiscard]] bool hasEnded() const { return ended_; }
  // The reading side has ended, and all data was written.
  [[nodiscard]] bool isDone() const { return ended_ && !hasBytes(); }

  // Reads available data; a socket error counts as the end.
  void readFrom(int socket) {
    const ssize_t n = ::recv(socket, bytes_ + end_, sizeof bytes_ - end_, MSG_DONTWAIT);
    if (n > 0) {
      end_ += static_cast<size_t>(n);
    } else if (n == 0 || !isForLater(errno)) {
      ended_ = true;
    }
  }
  void clear() { begin_ = end_ = 0; }
  // As much as is taken now; false where no more will be.
  bool writeTo(int socket) {
    const ssize_t n = ::send(socket, bytes_ + begin_, end_ - begin_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) return isForLater(errno);
    begin_ += static_cast<size_t>(n);
    if (begin_ == end_) clear();
    return true;
  }

 private:
  static bool isForLater(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
  }

  size_t begin_ = 0;
  size_t end_ = 0;  // data behind the unwritten part is read only after all is written
  bool ended_ = false;
  char bytes_[65'536];
};

}  // namespace cloister::vmm
