// SPDX-License-Identifier: Apache-2.0
// State shared by a fake runtime and its sandboxes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/fake/fake_runtime.h"

namespace cloister::runtime {

struct FakeRuntime::State {
  explicit State(boost::asio::any_io_executor e) : executor(std::move(e)), changed(executor) {}

  boost::asio::any_io_executor executor;
  async::Signal changed;                                             // released, or a sandbox more
  std::vector<std::function<void(const model::SandboxEnd&)>> kills;  // an entry per sandbox made
  bool released = false;
  size_t live = 0;
  std::vector<std::string> provisioned;
  std::optional<Error> provision_error;
  bool provisions_held = false;
  std::optional<model::PoolStats> pool;
  std::optional<model::ImageState> image;
  std::optional<model::Usage> used;
};

}  // namespace cloister::runtime
