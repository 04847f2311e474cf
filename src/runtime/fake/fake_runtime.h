// SPDX-License-Identifier: Apache-2.0
// The fake runtime: runs no real program, in this process, for tests of everything above a runtime.
// A program is a behaviour named by argv[0] (fake_runtime.cc lists the behaviours). The permit's
// limits apply where the behaviour has such a quantity. The runtime isolates nothing and reports so
// in `weakened`.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "async/signal.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

class FakeRuntime : public Runtime {
 public:
  explicit FakeRuntime(boost::asio::any_io_executor executor);
  ~FakeRuntime() override;

  Task<Result<std::unique_ptr<Sandbox>>> provision(const model::SignedPermit& permit) override;
  Task<Result<base::json::object>> plan(const model::SignedPermit& permit) override;

  [[nodiscard]] std::optional<model::PoolStats> pool() const override;

  [[nodiscard]] std::optional<model::ImageState> image() const override;

  // Sets the result of image(); later sandboxes have its digest, or lack a digest. By default
  // sandboxes have a digest.
  void setImage(model::ImageState state);
  // Sets the result of used() for all sandboxes.
  void setUsed(const model::Usage& usage);
  // Sets the result of pool().
  void keepReady(model::PoolStats stats);
  // Lets all present and future "hold" programs continue.
  void release();
  // Ends all sandboxes; sessions report `why`.
  void killSandboxes(const model::SandboxEnd& why);
  // Delays further provisions until released.
  void holdProvisions(bool hold);
  // Makes further provisions fail with this error; nullopt: succeed again.
  void failProvision(std::optional<Error> error);
  // Number of sandboxes provisioned and not torn down.
  [[nodiscard]] size_t live() const;
  // The execution (or else session) ids of all permits provisioned, in order.
  [[nodiscard]] const std::vector<std::string>& provisioned() const;
  // Suspends until `count` sandboxes have been provisioned since construction.
  Task<void> waitProvisioned(size_t count);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace cloister::runtime
