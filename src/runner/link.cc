// SPDX-License-Identifier: Apache-2.0
#include "runner/link.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cloister::runner {

void protocolError() {
  _exit(kExitProtocol);
}

void Link::receive() {
  if (in_begin_ != 0) {
    std::memmove(in_, in_ + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  alignas(cmsghdr) char control[CMSG_SPACE(wire::kMaxGroups * sizeof(int))];
  iovec part{in_ + in_end_, sizeof in_ - in_end_};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(fd_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n > 0) {
    in_end_ += static_cast<size_t>(n);
    keepFds(message);
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    _exit(0);
  }
}

// The kernel merges all descriptors of a message into a single list.
void Link::keepFds(msghdr& message) {
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) return;
  const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  const bool fits = (message.msg_flags & MSG_CTRUNC) == 0 && count <= wire::kMaxGroups - fd_count_;
  if (header->cmsg_type != SCM_RIGHTS || !fits) protocolError();
  for (size_t i = 0; i < count; ++i) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
    fds_[fd_count_++].reset(fd);
  }
}

bool Link::takeFds(Fd* into, size_t count) {
  if (count > fd_count_) return false;
  for (size_t i = 0; i < count; ++i)
    into[i] = std::move(fds_[i]);
  std::move(fds_ + count, fds_ + fd_count_, fds_);
  fd_count_ -= count;
  return true;
}

bool Link::next(wire::FrameHeader& header, std::string_view& payload) {
  const std::string_view data(in_ + in_begin_, in_end_ - in_begin_);
  if (data.size() < wire::kHeaderBytes) return false;
  if (!wire::decodeHeader(data, header) || header.length > wire::kRunnerMaxPayload) protocolError();
  if (data.size() < wire::kHeaderBytes + header.length) return false;
  payload = {data.data() + wire::kHeaderBytes, header.length};
  in_begin_ += wire::kHeaderBytes + header.length;
  return true;
}

bool Link::hasRoom() const {
  return sizeof out_ - (out_end_ - out_begin_) >= kFrame;
}

char* Link::payload() {
  while (!hasRoom()) {
    flush();
    if (!hasRoom()) waitFor(POLLOUT);
  }
  if (sizeof out_ - out_end_ < kFrame) {
    std::memmove(out_, out_ + out_begin_, out_end_ - out_begin_);
    out_end_ -= out_begin_;
    out_begin_ = 0;
  }
  return out_ + out_end_ + wire::kHeaderBytes;
}

void Link::commit(wire::FromRunner type, uint32_t channel, size_t length) {
  wire::encodeHeader(out_ + out_end_, static_cast<uint16_t>(type), channel,
                     static_cast<uint32_t>(length));
  out_end_ += wire::kHeaderBytes + length;
}

void Link::send(wire::FromRunner type, uint32_t channel, std::string_view bytes) {
  char* place = payload();
  if (!bytes.empty()) std::memcpy(place, bytes.data(), bytes.size());
  commit(type, channel, bytes.size());
}

void Link::flush() {
  while (wantsWrite()) {
    const ssize_t n =
        ::send(fd_, out_ + out_begin_, out_end_ - out_begin_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EAGAIN) return;
      if (errno == EINTR) continue;
      _exit(0);
    }
    out_begin_ += static_cast<size_t>(n);
  }
  out_begin_ = out_end_ = 0;
}

void Link::finish() {
  for (flush(); wantsWrite(); flush())
    waitFor(POLLOUT);
}

void Link::await(wire::FrameHeader& header, std::string_view& payload) {
  while (!next(header, payload)) {
    waitFor(POLLIN);
    receive();
  }
}

void Link::waitFor(short events) const {
  pollfd p{fd_, events, 0};
  poll(&p, 1, -1);
}

}  // namespace cloister::runner
