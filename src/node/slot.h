// SPDX-License-Identifier: Apache-2.0
// Slot: one sandbox of the node from the view of a control connection: the sandbox's permit and
// state. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "model/permit.h"
#include "node/outlet.h"
#include "runtime/runtime.h"
#include "wire/node.h"

namespace cloister::node {

class Slot : public std::enable_shared_from_this<Slot> {
 public:
  Slot(std::shared_ptr<net::FrameConnection> connection, boost::asio::any_io_executor executor,
       uint32_t channel, model::PermitFields permit);

  // Each answers on the connection; a refusal is an answer too. Start on the executor.
  runtime::Task<void> provision(runtime::Runtime& runtime, model::SignedPermit permit);
  runtime::Task<void> exec(std::string encoded_spec);
  // Ends all programs and releases the sandbox. Sends kTornDown unless the connection has ended.
  runtime::Task<void> close();

  // Checks whether a program may run in the session's sandbox, and decodes the program. `permit` is
  // the request's, already admitted.
  Result<model::ExecSpec> admit(const model::PermitFields& permit,
                                const wire::OpenRequest& request) const;
  // Call after admit().
  runtime::Task<Result<std::unique_ptr<runtime::Exec>>> open(model::SignedPermit permit,
                                                             const model::ExecSpec& spec);

  // Holds the workspace for a program of the session (wire::files::kHold). Programs opened before
  // may not start while the result lives.
  std::shared_ptr<void> hold();
  // The argument of mayStart() for a program opened now.
  [[nodiscard]] uint64_t opened() const { return holds_; }
  [[nodiscard]] bool mayStart(uint64_t opened) const { return holding_ == 0 || opened == holds_; }

  // Sends the usage of a session's sandbox, after the end of each program.
  void tellUsed();

  void cancel();
  // False if more is acknowledged than is on the way.
  [[nodiscard]] bool acknowledge(uint32_t units) { return outlet_.acknowledge(units); }
  [[nodiscard]] bool closing() const { return outlet_.isShut(); }
  [[nodiscard]] bool busy() const { return busy_; }  // provisioning or executing
  // Provisioning failed: nothing is here to be torn down.
  [[nodiscard]] bool failed() const { return !sandbox_ && !busy_; }
  [[nodiscard]] bool isSession() const { return !permit_.session_id.empty(); }

 private:
  static runtime::Task<void> execKept(std::shared_ptr<Slot> self, std::string encoded_spec);
  runtime::Task<Result<model::Outcome>> perform(std::string encoded_spec);
  static runtime::Task<void> tellDeath(std::shared_ptr<Slot> self);
  static runtime::Task<void> tellUsage(std::shared_ptr<Slot> self);
  void idle();

  Outlet outlet_;
  std::optional<model::Usage> told_;  // of a session's sandbox
  model::PermitFields permit_;
  std::unique_ptr<runtime::Sandbox> sandbox_;
  bool busy_ = true;
  bool dead_ = false;       // its sandbox has ended
  bool exec_used_ = false;  // a permit is for a single exec
  uint64_t holds_ = 0;      // total number of holds
  uint32_t holding_ = 0;    // number of current holds
  async::Signal changed_;
};

}  // namespace cloister::node
