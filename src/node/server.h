// SPDX-License-Identifier: Apache-2.0
// The node: accepts one control plane at a time on a Unix socket, and serves its local runtimes
// over the wire. The node obeys only permits that are signed by the control plane's key, fresh,
// unused, and within the node's own ceiling. The permit's digest must match the ExecSpec that
// follows. At the end of the connection every sandbox of the connection is killed. Another control
// plane may connect once these sandboxes are removed, or after a second. Sandboxes still left then
// occupy capacity of the next control plane until removed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/result.h"
#include "model/limits.h"
#include "model/plan.h"
#include "net/byte_stream.h"
#include "runtime/runtime.h"

namespace cloister::node {

// Checks signed permits, and remembers used permits until they expire. A single thread.
class PermitGate {
 public:
  // No key yet: refuses everything until trust().
  explicit PermitGate(model::Limits ceiling, size_t remember = 65'536);
  PermitGate(base::VerifyKey key, model::Limits ceiling, size_t remember = 65'536);

  // From now on trusts only this key. Used permits stay used.
  void trust(base::VerifyKey key);

  // kDenied: bad signature, malformed, not yet valid or expired (a second of clock difference is
  // allowed), too long-lived, used before, over the ceiling, a network without the digest of its
  // plan or the other way round. kQuota: too many used permits to remember. `use` marks it used,
  // until it has expired.
  Result<model::PermitFields> admit(const model::SignedPermit& permit, int64_t now, bool use);

 private:
  [[nodiscard]] Result<> withinCeiling(const model::Limits& asked) const;
  Result<> markUsed(const model::PermitFields& permit, int64_t now);
  void forgetExpired(int64_t now);

  std::optional<base::VerifyKey> key_;
  model::Limits ceiling_;
  size_t remember_;
  std::map<std::string, int64_t> used_;  // id → expiry
  size_t forget_at_ = 0;                 // number of entries at which expired ones are removed
};

struct ServerConfig {
  std::string socket;        // path; made with mode 0660, replacing a stale socket
  uint32_t control_uid = 0;  // only this uid (or root) may connect (checkPeer())
  // The socket's group; -1: unchanged.
  uint32_t control_gid = UINT32_MAX;
  // File with the control plane's public key (base64), read at each connection, so that a rotated
  // key needs a reconnect only. Empty: the gate's key is used.
  std::string key_path;
  // A control plane that sends nothing for so long, though it is asked, loses its connection.
  // Counted in the node's own running time, tick by tick (net/heartbeat.h).
  Millis control_silence{120'000};
  model::NodeOffer offer;  // without the images, which the runtimes provide
};

// kDenied: the process at the other end is neither of `control_uid` nor of root, or the transport
// has no record of its user.
Result<> checkPeer(const net::ByteStream& stream, uint32_t control_uid);

// Listens, then serves until the io_context stops. The error of listening is returned; afterwards
// errors are logged and end a connection. `gate`, the runtimes and the io_context outlive it.
boost::asio::awaitable<Result<>> serve(ServerConfig config, PermitGate& gate,
                                       std::map<std::string, runtime::Runtime*> runtimes);

}  // namespace cloister::node
