// SPDX-License-Identifier: Apache-2.0
// A server for unit tests that says whatever the test wants, in any pieces.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "cli/http_client.h"
#include "supervisor/listener.h"

namespace cloister::cli {

// Accepts connections one after another; on each reads a head, writes the next answer, closes.
class Scripted {
 public:
  Scripted(std::vector<std::string> answers, size_t step = SIZE_MAX, bool keep = false)
      : listener_(*supervisor::listenOn("127.0.0.1:0", Millis(0))),
        thread_([this, answers = std::move(answers), step, keep] { run(answers, step, keep); }) {}
  Scripted(const Scripted&) = delete;
  Scripted& operator=(const Scripted&) = delete;
  ~Scripted() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  [[nodiscard]] HttpClient client(int interrupt = -1) const {
    return {*parseUrl("http://" + supervisor::addressOf(listener_.get())), "secret", interrupt};
  }
  // The heads that came; the last one. Not before the answer has come to its end.
  [[nodiscard]] const std::vector<std::string>& requests() const { return requests_; }
  [[nodiscard]] const std::string& request() const { return requests_.back(); }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  [[nodiscard]] Fd accepted() const {
    for (;;) {
      Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
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

  Fd listener_;
  std::vector<std::string> requests_;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace cloister::cli
