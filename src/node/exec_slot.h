// SPDX-License-Identifier: Apache-2.0
// ExecSlot: one program in a session's sandbox, as a control connection sees it. One thread.
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

  // To the program's end, with which the channel is free, whatever was answered. A program that may
  // run is held until go(). The control plane lets none go while its session's workspace is held,
  // but those that it has opened since; one that it lets go all the same waits a little, and fails.
  runtime::Task<void> run(std::shared_ptr<Slot> slot, model::PermitFields permit,
                          wire::OpenRequest request);

  // False if it was said before.
  [[nodiscard]] bool go();
  void cancel();
  // Ends it; kTornDown comes instead of its result.
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
  std::unique_ptr<runtime::Exec> exec_;  // while it runs
  std::deque<std::string> input_;        // on its way to the program
  uint32_t input_bytes_ = 0;
  bool feeding_ = false;
  bool going_ = false;
  bool cancelled_ = false;
};

}  // namespace cloister::node
