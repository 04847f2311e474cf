// SPDX-License-Identifier: Apache-2.0
// The fake runtime: runs nothing, in this process, for tests of everything above a runtime. A
// program is a behaviour named by argv[0] (fake_runtime.cc lists them); the permit's limits hold
// where there is something to hold them against. It isolates nothing and says so in `weakened`.
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

  // What image() says; sandboxes from now on have its digest, or lack one. Without, they have one.
  void setImage(model::ImageState state);
  // What used() of every sandbox says.
  void setUsed(const model::Usage& usage);
  // What pool() says.
  void keepReady(model::PoolStats stats);
  // Lets every program that runs "hold", now or later, go on.
  void release();
  // Every sandbox there is dies, and says `why` to a session.
  void killSandboxes(const model::SandboxEnd& why);
  // Every further provision takes until they are held no longer.
  void holdProvisions(bool hold);
  // Every further provision fails with this; nullopt: they work again.
  void failProvision(std::optional<Error> error);
  // Sandboxes that were provisioned and not torn down.
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
