// SPDX-License-Identifier: Apache-2.0
// The node: accepts one control plane at a time on a Unix socket, and serves its local runtimes
// over the wire. It obeys only permits that are signed by the control plane's key, fresh, unused,
// within the node's own ceiling, and whose digest matches the ExecSpec that follows. When the
// connection ends, every sandbox of it is killed.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "base/crypto.h"
#include "base/result.h"
#include "model/limits.h"
#include "model/plan.h"
#include "runtime/runtime.h"

namespace cloister::node {

// Checks signed permits and remembers, until they expire, those that were used.
class PermitGate {
 public:
  PermitGate(base::VerifyKey key, model::Limits ceiling, size_t remember = 65'536);
  // kDenied: bad signature, expired or not yet valid, used before, over the ceiling, unknown tier.
  Result<model::PermitFields> admit(const model::SignedPermit& permit, int64_t now, bool use);

 private:
  base::VerifyKey key_;
  model::Limits ceiling_;
  size_t remember_;
  std::map<std::string, int64_t> used_;  // id → expiry
};

struct ServerConfig {
  std::string socket;        // path; made with mode 0660, group given to cloisterd
  uint32_t control_uid = 0;  // only this uid (or root) may connect (SO_PEERCRED)
  model::NodeOffer offer;
};

// Serves until the io_context stops.
boost::asio::awaitable<void> serve(ServerConfig config, PermitGate& gate,
                                   std::map<std::string, runtime::Runtime*> runtimes);

}  // namespace cloister::node
