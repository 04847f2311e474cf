// SPDX-License-Identifier: Apache-2.0
// Sends input and signals to a program on the server while its output arrives. Input and signals
// have a thread each, because the program may be slow to take either.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/result.h"
#include "cli/server.h"
#include "net/blocking_client.h"
#include "supervisor/signals.h"

namespace cloister::cli {

// A descriptor that becomes readable when set() is called.
class Latch {
 public:
  static Result<Latch> make();
  void set() const;
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit Latch(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

// A program's input at its start.
struct FirstInput {
  std::string bytes;
  bool more = false;  // stdin had not ended yet
};
// The bytes now available on stdin, without waiting. An unreadable stdin (closed, a directory) is
// empty.
Result<FirstInput> firstInput();

// All of stdin, unless a signal comes first; kTooLarge beyond 16 MiB. An unreadable stdin is empty.
Result<std::string> readStdin(const supervisor::Signals& signals);

// Passes stdin on, piece by piece, to its end or the program's. Input that cannot be passed on
// cancels the program, because half of the input must not pass for the whole.
class InputRelay {
 public:
  // `id`: the execution.
  InputRelay(net::Endpoint endpoint, std::string id, Latch stop);
  InputRelay(const InputRelay&) = delete;
  InputRelay& operator=(const InputRelay&) = delete;
  ~InputRelay();  // drops input not yet passed on

 private:
  void run();
  Result<bool> passOn();  // passes on a piece; false at the end
  Result<bool> send(std::string_view piece);

  net::Endpoint endpoint_;
  std::string id_;
  Latch stop_;
  net::BlockingClient client_;
  std::thread thread_;
};

// Passes signals on. A second SIGINT cancels the program; a third waits for nobody any more.
class SignalRelay {
 public:
  SignalRelay(net::Endpoint endpoint, std::string id, const supervisor::Signals& signals,
              Latch stop, Latch gone);
  SignalRelay(const SignalRelay&) = delete;
  SignalRelay& operator=(const SignalRelay&) = delete;
  ~SignalRelay();

  // Readable once the user waits no longer.
  [[nodiscard]] int gone() const { return gone_.fd(); }
  // True once the user has cancelled the program.
  [[nodiscard]] bool cancelled() const { return interrupts_ > 1; }

 private:
  void run();
  void handle(int signal);
  void cancel();

  net::Endpoint endpoint_;
  std::string id_;
  const supervisor::Signals& signals_;
  Latch stop_;
  Latch gone_;
  std::atomic<int> interrupts_ = 0;
  std::thread thread_;
};

}  // namespace cloister::cli
