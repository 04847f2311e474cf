// SPDX-License-Identifier: Apache-2.0
// The remote runtime: a node on the other end of a stream, as a Runtime. One connection; when it
// ends, every sandbox of it fails with kUnavailable ("node lost").
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
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
  // From now on `changed` is called when another was told, or another state of the image; it must
  // not end the connection.
  virtual void onOffer(std::function<void()> changed) = 0;
  // Completes when the connection has ended.
  virtual Task<void> closed() = 0;
};

// When a node is given up of which nothing at all is heard, though its connection stands: it hangs,
// or is stopped.
struct Silence {
  // Of time in which this process ran itself, tick by tick: what was asleep has missed nothing. The
  // node is asked for a word several times meanwhile.
  std::chrono::milliseconds patience{30'000};
  // Called then, with the process that listens there, as the kernel names it to us; 0: not known.
  std::function<void(pid_t)> hung{};
};

// Connects to the node's Unix socket and reads its offer.
Task<Result<std::unique_ptr<RemoteNode>>> connectNode(std::string socket_path,
                                                      Silence silence = {});
// The same over a stream that is connected already.
Task<Result<std::unique_ptr<RemoteNode>>> adoptNode(
    boost::asio::local::stream_protocol::socket stream, Silence silence = {});

}  // namespace cloister::runtime
