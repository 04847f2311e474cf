// SPDX-License-Identifier: Apache-2.0
// Outlet: sends a program's output out of the node, through the window of its channel. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "async/signal.h"
#include "net/frame_connection.h"
#include "node/cpu_rate.h"
#include "runtime/runtime.h"
#include "wire/node.h"

namespace cloister::node {

class Outlet final : public runtime::ExecObserver {
 public:
  Outlet(std::shared_ptr<net::FrameConnection> connection,
         const boost::asio::any_io_executor& executor, uint32_t channel);

  void onStarted() override;
  runtime::Task<void> onOutput(model::Stream stream, std::string_view bytes) override;
  runtime::Task<void> onFileBegin(std::string path, uint64_t size) override;
  runtime::Task<void> onFileData(std::string_view bytes) override;
  runtime::Task<void> onFileEnd() override;
  // Also reports the current processor use.
  void onUsage(const model::Usage& usage) override;
  // The current processor use, given `cpu_ms` in total.
  uint32_t cpuNow(int64_t cpu_ms) { return cpu_.tell(cpu_ms, base::monotonicNow()); }

  // Without the window.
  void post(wire::FromNode type, std::string payload = {});
  void postError(const Error& error);

  // False if more is acknowledged than is on the way.
  [[nodiscard]] bool acknowledge(uint32_t units);
  // From now on drops the program's output.
  void shut();
  [[nodiscard]] bool isShut() const { return shut_; }

 private:
  // Sends once the window has room.
  runtime::Task<void> sendWindowed(wire::FromNode type, std::string payload);

  std::shared_ptr<net::FrameConnection> connection_;
  uint32_t channel_;
  uint32_t in_flight_ = 0;  // window units sent and not yet acknowledged
  bool shut_ = false;
  CpuRate cpu_;
  async::Signal changed_;
};

}  // namespace cloister::node
