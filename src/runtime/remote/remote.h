// SPDX-License-Identifier: Apache-2.0
// The remote runtime: a node on the other end of a stream, as a Runtime. There is one connection;
// at its end every sandbox of the connection fails with kUnavailable ("node lost").
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "base/result.h"
#include "model/plan.h"
#include "net/byte_stream.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

class RemoteNode : public Runtime {
 public:
  // The last received offer.
  [[nodiscard]] virtual const model::NodeOffer& offer() const = 0;
  // From now on calls `changed` after a new offer, or a new state of the image. `changed` must not
  // end the connection.
  virtual void onOffer(std::function<void()> changed) = 0;
  // Completes when the connection has ended.
  virtual Task<void> closed() = 0;
};

// When to give up a node whose connection stands but sends nothing: the node hangs, or is stopped.
struct Silence {
  // Counted in this process's own running time, tick by tick, so that a sleeping process misses
  // nothing. The node gets several pings meanwhile.
  std::chrono::milliseconds patience{30'000};
  // Called at the timeout, with the process at the other end; 0: the stream does not know it.
  std::function<void(pid_t)> hung{};
};

// Connects to the node's Unix socket and reads its offer.
Task<Result<std::unique_ptr<RemoteNode>>> connectNode(std::string socket_path,
                                                      Silence silence = {});
// The same over a connected stream.
Task<Result<std::unique_ptr<RemoteNode>>> adoptNode(std::unique_ptr<net::ByteStream> stream,
                                                    Silence silence = {});

}  // namespace cloister::runtime
