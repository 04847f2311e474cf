// SPDX-License-Identifier: Apache-2.0
#include "vmm/api.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>

#include <string.h>
#include <time.h>

#include "vmm/http_answer.h"

namespace cloister::vmm {
namespace {

constexpr int64_t kConnectMillis = 10'000;
constexpr int64_t kAnswerMillis =
    20'000;  // starting a machine copies its kernel, saving a machine its memory
constexpr useconds_t kPause = 1'000;
constexpr size_t kMostShown = 400;
constexpr int kNoContent = 204;

int64_t nowMillis() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000 + now.tv_nsec / 1'000'000;
}

bool hasEnded(int process) {
  pollfd ended{process, POLLIN, 0};
  return poll(&ended, 1, 0) > 0;
}

// Waits until the socket is ready for `events`; false when the time is over.
bool waitFor(int socket, short events, int64_t until) {
  for (;;) {
    const int64_t left = until - nowMillis();
    if (left <= 0) return false;
    pollfd ready{socket, events, 0};
    if (poll(&ready, 1, static_cast<int>(left)) > 0) return true;
  }
}

bool failErrno(Fault& fault, std::string_view doing) {
  fault.add(doing).add(": ").add(strerror(errno));
  return false;
}

}  // namespace

bool Api::connect(const char* path, int server, Fault& fault) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return failErrno(fault, "naming the API's socket");
  }
  strcpy(address.sun_path, path);
  const int64_t until = nowMillis() + kConnectMillis;
  while (nowMillis() < until) {
    socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket_) return failErrno(fault, "making a socket");
    const auto* at = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(socket_.get(), at, sizeof address) == 0) return true;
    if (errno != ENOENT && errno != ECONNREFUSED && errno != EINTR) {
      return failErrno(fault, "connecting to the API");
    }
    if (hasEnded(server)) {
      fault.add("connecting to the API: Firecracker has ended");
      return false;
    }
    usleep(kPause);
  }
  fault.add("connecting to the API: Firecracker does not open it");
  return false;
}

bool Api::request(std::string_view method, std::string_view path, std::string_view body,
                  Fault& fault) {
  fault.add(method).add(" ").add(path).add(": ");
  Text<8'192> request;
  request.add(method).add(" ").add(path);
  request.add(" HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n");
  request.add("Content-Type: application/json\r\nContent-Length: ").number(body.size());
  request.add("\r\n\r\n").add(body);
  if (request.full()) {
    fault.add("it is too long");
    return false;
  }
  if (!send(request.view(), fault) || !receive(fault)) return false;
  fault = {};
  return true;
}

bool Api::send(std::string_view bytes, Fault& fault) {
  const int64_t until = nowMillis() + kAnswerMillis;
  while (!bytes.empty()) {
    if (!waitFor(socket_.get(), POLLOUT, until)) {
      fault.add("it is not taken");
      return false;
    }
    const ssize_t n =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return failErrno(fault, "sending it");
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool Api::receive(Fault& fault) {
  char bytes[kMostAnswer + 1];
  size_t have = 0;
  Answer answer;
  const int64_t until = nowMillis() + kAnswerMillis;
  for (Parsed parsed = Parsed::kMore; parsed == Parsed::kMore;) {
    if (!waitFor(socket_.get(), POLLIN, until)) {
      fault.add("no answer");
      return false;
    }
    const ssize_t n = recv(socket_.get(), bytes + have, sizeof bytes - have, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n < 0) return failErrno(fault, "reading the answer");
    if (n == 0) {
      fault.add("the connection was closed instead of an answer");
      return false;
    }
    have += static_cast<size_t>(n);
    parsed = parseAnswer({bytes, have}, answer);
    if (parsed == Parsed::kMalformed) {
      fault.add("the answer is malformed");
      return false;
    }
  }
  if (answer.status == kNoContent) return true;
  fault.add("refused with ").number(static_cast<uint64_t>(answer.status)).add(": ");
  fault.shown(answer.body, kMostShown);
  return false;
}

}  // namespace cloister::vmm
