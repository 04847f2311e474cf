// SPDX-License-Identifier: Apache-2.0
// Inspection: the relay is the server of the sandbox's TLS client and the client of the origin, so
// that each request is judged and secrets can be put in. The origin is reached first, with the
// usual checks of its certificate, and the sandbox's client is offered exactly the protocol that
// the origin chose. A client that does not trust the sandbox's authority fails with a record.
#pragma once

#include <cstdint>
#include <string>

#include "egress/relay/connection.h"
#include "egress/tls/hello.h"

namespace cloister::egress {

enum class Alert : uint8_t {  // RFC 8446 §6
  kAccessDenied = 49,
  kDecodeError = 50,
  kNoProtocol = 120,
};

// Ends a TLS connection before its handshake, so that the client's error is not just "reset".
Task<void> sendAlert(Connection& connection, Alert alert);

// Serves an admitted connection whose hello came in `arrived`.
Task<void> inspect(Connection& connection, Ruling ruling, Hello hello, std::string arrived);

}  // namespace cloister::egress
