// SPDX-License-Identifier: Apache-2.0
// Slot: one sandbox of the node as a control connection sees it: its permit, its state, and the
// window through which its output leaves. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/permit.h"
#include "runtime/remote/connection.h"
#include "runtime/runtime.h"
#include "wire/node.h"

namespace cloister::node {

class Slot final : public runtime::ExecObserver, public std::enable_shared_from_this<Slot> {
 public:
  Slot(std::shared_ptr<runtime::Connection> connection, boost::asio::any_io_executor executor,
       uint32_t channel, model::PermitFields permit);

  // Each answers on the connection; a refusal is an answer too. Start on the executor.
  runtime::Task<void> provision(runtime::Runtime& runtime, model::SignedPermit permit);
  runtime::Task<void> exec(std::string encoded_spec);
  // Ends what runs, releases the sandbox. Says kTornDown unless the connection has ended.
  runtime::Task<void> close();

  void cancel();
  // False if more is acknowledged than is on the way.
  [[nodiscard]] bool acknowledge(uint32_t units);
  [[nodiscard]] bool closing() const { return closing_; }
  [[nodiscard]] bool busy() const { return busy_; }  // provisioning or executing
  // Provisioning failed: nothing is here to be torn down.
  [[nodiscard]] bool failed() const { return !sandbox_ && !busy_; }

  void onStarted() override;
  runtime::Task<void> onOutput(model::Stream stream, std::string_view bytes) override;
  runtime::Task<void> onFileBegin(std::string path, uint64_t size) override;
  runtime::Task<void> onFileData(std::string_view bytes) override;
  runtime::Task<void> onFileEnd() override;
  void onUsage(const model::Usage& usage) override;

  void post(wire::FromNode type, std::string payload = {});
  void postError(const Error& error);

 private:
  static runtime::Task<void> execKept(std::shared_ptr<Slot> self, std::string encoded_spec);
  runtime::Task<Result<model::Outcome>> perform(std::string encoded_spec);
  // Sends once the window has room; drops it when the slot is closing.
  runtime::Task<void> sendWindowed(wire::FromNode type, std::string payload);
  void idle();

  std::shared_ptr<runtime::Connection> connection_;
  uint32_t channel_;
  model::PermitFields permit_;
  std::unique_ptr<runtime::Sandbox> sandbox_;
  uint32_t in_flight_ = 0;  // window units sent and not yet acknowledged
  bool busy_ = true;
  bool exec_used_ = false;  // a permit is for one exec
  bool closing_ = false;
  runtime::Signal changed_;
};

}  // namespace cloister::node
