// SPDX-License-Identifier: Apache-2.0
// The tunnel: bytes of both directions, until both have ended.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "egress/relay/connection.h"

namespace cloister::egress {

// Returns when both directions have ended, or the connection was reset. The end of one direction
// is passed on, and the other continues.
Task<void> tunnel(Connection& connection);

// Bytes of one direction on their way → the bytes to pass on. The message of an error is a sentence
// for the record; the connection is reset.
using Filter = std::function<Result<std::string>(std::string_view bytes)>;

struct Filters {
  Filter in = {};          // towards the sandbox; null: as they are
  Filter out = {};         // null: as they are
  std::string_view rule;   // of the record of an error
  std::string early = {};  // bytes from outside that came already, counted
  std::string late = {};   // bytes from inside that came already, not yet counted
};

// The same through filters, and for connections with TLS.
Task<void> tunnel(Connection& connection, Standing standing, Filters filters);

}  // namespace cloister::egress
