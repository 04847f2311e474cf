// SPDX-License-Identifier: Apache-2.0
// A scripted server for unit tests: any answer, in any pieces.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "net/blocking_client.h"

namespace cloister::net {

// A socket that listens on a port of loopback.
class Loopback {
 public:
  Loopback() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    ::bind(fd_.get(), reinterpret_cast<sockaddr*>(&at), size);
    ::listen(fd_.get(), SOMAXCONN);
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
  }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] Endpoint endpoint(std::string key = "") const {
    return {*parseBaseUrl("http://127.0.0.1:" + std::to_string(port_)), {}, std::move(key)};
  }

 private:
  Fd fd_;
  uint16_t port_ = 0;
};

// Accepts connections one after another; on each reads a head, writes the next answer, closes.
class Scripted {
 public:
  Scripted(std::vector<std::string> answers, size_t step = SIZE_MAX, bool keep = false)
      : thread_([this, answers = std::move(answers), step, keep] { run(answers, step, keep); }) {}
  Scripted(const Scripted&) = delete;
  Scripted& operator=(const Scripted&) = delete;
  ~Scripted() {
    ::shutdown(listener_.fd(), SHUT_RDWR);
    thread_.join();
  }

  [[nodiscard]] BlockingClient client(int interrupt = -1) const {
    return BlockingClient(listener_.endpoint("secret"), interrupt);
  }
  // The received heads; the last head. Valid after the answer's end.
  [[nodiscard]] const std::vector<std::string>& requests() const { return requests_; }
  [[nodiscard]] const std::string& request() const { return requests_.back(); }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  [[nodiscard]] Fd accepted() const {
    for (;;) {
      Fd fd(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      if (fd || (errno != EAGAIN && errno != EINTR)) return fd;
      std::this_thread::yield();
    }
  }

  void run(const std::vector<std::string>& answers, size_t step, bool keep) {
    Fd peer;
    for (const std::string& answer : answers) {
      if (!peer || !keep) peer = accepted();
      if (!peer) return;
      ++connections_;
      std::string head;
      char c = 0;
      while (head.find("\r\n\r\n") == std::string::npos && ::recv(peer.get(), &c, 1, 0) == 1)
        head += c;
      requests_.push_back(head);
      for (size_t at = 0; at < answer.size(); at += std::min(step, answer.size())) {
        const std::string piece = answer.substr(at, step);
        if (::send(peer.get(), piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
      }
      if (!keep) peer.reset();
    }
  }

  Loopback listener_;
  std::vector<std::string> requests_;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace cloister::net
