// SPDX-License-Identifier: Apache-2.0
// The remote runtime: a node on the other end of a stream, as a Runtime. One connection; when it
// ends, every sandbox of it fails with kUnavailable ("node lost").
#pragma once

#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "base/result.h"
#include "model/plan.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

class RemoteNode : public Runtime {
 public:
  // As it was told last.
  [[nodiscard]] virtual const model::NodeOffer& offer() const = 0;
  // From now on `changed` is called when another was told; it must not end the connection.
  virtual void onOffer(std::function<void()> changed) = 0;
  // Completes when the connection has ended.
  virtual Task<void> closed() = 0;
};

// Connects to the node's Unix socket and reads its offer.
Task<Result<std::unique_ptr<RemoteNode>>> connectNode(std::string socket_path);
// The same over a stream that is connected already.
Task<Result<std::unique_ptr<RemoteNode>>> adoptNode(
    boost::asio::local::stream_protocol::socket stream);

}  // namespace cloister::runtime
