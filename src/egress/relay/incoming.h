// SPDX-License-Identifier: Apache-2.0
// Incoming: the requests that a sandbox sends over one connection, one after the other, with their
// bodies in pieces. It holds at most a head, or one piece of a body. Its bytes count when they
// leave, against the rule of their request.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "egress/http/head.h"
#include "egress/relay/chunks.h"
#include "egress/relay/connection.h"

namespace cloister::egress {

class Incoming {
 public:
  // `arrived`: bytes that were read already.
  explicit Incoming(Connection& connection, std::string arrived = {})
      : connection_(connection), bytes_(std::move(arrived)) {}

  // The head of the next request; its body follows. kUnavailable: there is none, and nobody to
  // answer. Other errors are a client's fault, and are to be answered (readHead()).
  Task<Result<RequestHead>> head();
  // The next bytes of the body, without its coding; "" at its end. kInvalid: malformed.
  // kUnavailable: it broke off.
  Task<Result<std::string>> piece();
  [[nodiscard]] bool bodyDone() const;

  // The bytes behind the last head that have arrived, for a tunnel.
  std::string takeRest() { return std::exchange(bytes_, {}); }
  // Reads and drops what a refused client still sends, so that it reads the answer (RFC 9112 §9.6).
  Task<void> linger();

 private:
  Task<bool> more(size_t most);

  Connection& connection_;
  std::string bytes_;  // arrived, not yet used
  bool any_ = false;   // a request was read
  std::optional<ChunkReader> chunks_;
  uint64_t left_ = 0;  // of a body with a length
};

}  // namespace cloister::egress
