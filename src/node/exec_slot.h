// SPDX-License-Identifier: Apache-2.0
// ExecSlot: one program in a session's sandbox, from the view of a control connection. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "async/signal.h"
#include "node/outlet.h"
#include "node/slot.h"
#include "runtime/runtime.h"
#include "wire/node.h"

namespace cloister::node {

class ExecSlot : public std::enable_shared_from_this<ExecSlot> {
 public:
  ExecSlot(std::shared_ptr<net::FrameConnection> connection, boost::asio::any_io_executor executor,
           uint32_t channel);

  // Runs the program to its end, after which the channel is free, whatever was answered. A
  // permitted program waits for go(). While the session's workspace is held, the control plane
  // sends go() only to programs opened since; any other program then waits a little, and fails.
  runtime::Task<void> run(std::shared_ptr<Slot> slot, model::PermitFields permit,
                          wire::OpenRequest request);

  // False if already called.
  [[nodiscard]] bool go();
  void cancel();
  // Ends the program; kTornDown replaces its result.
  void close();
  [[nodiscard]] bool closing() const { return outlet_.isShut(); }
  [[nodiscard]] bool acknowledge(uint32_t units) { return outlet_.acknowledge(units); }
  // False if more is sent than the window allows.
  [[nodiscard]] bool input(std::string bytes);
  void signal(int number);
  void resize(model::TerminalSize size);

 private:
  runtime::Task<Result<model::Outcome>> perform(Slot& slot, model::PermitFields permit,
                                                wire::OpenRequest request);
  runtime::Task<Result<>> mayStart(const Slot& slot, uint64_t opened);
  void feedOn();
  static runtime::Task<void> feed(std::shared_ptr<ExecSlot> self);

  Outlet outlet_;
  async::Signal changed_;
  std::unique_ptr<runtime::Exec> exec_;  // during the run
  std::deque<std::string> input_;        // on its way to the program
  uint32_t input_bytes_ = 0;
  bool feeding_ = false;
  bool going_ = false;
  bool cancelled_ = false;
};

}  // namespace cloister::node
