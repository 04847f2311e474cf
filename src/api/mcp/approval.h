// SPDX-License-Identifier: Apache-2.0
// Asking the client's user: elicitation, in each era's way. A modern request is answered with the
// question, and made again with the reply and a signed state; a legacy client is asked while its
// request waits. The client keeps the state, so a state expires, is good for a single use, and is
// bound to the principal, tool and arguments.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "api/mcp/message.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "model/principal.h"

namespace cloister::api::mcp {

// The request that a state is bound to.
struct Subject {
  model::Principal principal;
  std::string tool;       // or the prompt or resource
  std::string arguments;  // SHA-256 of their canonical text
};

class Approvals {
 public:
  static constexpr size_t kMaxUsed =
      65'536;  // remembered until they expire; beyond, no state is accepted

  explicit Approvals(Millis life) : life_(life) {}

  // A state with `payload`, readable by the client.
  std::string seal(const Subject& subject, json::object payload);
  // The state's payload; -32602 for a foreign, expired or used state, or another subject.
  Rpc<json::object> open(const Subject& subject, const std::string& state);

 private:
  Millis life_;
  base::SigningKey key_ = base::SigningKey::generate();
  std::map<std::string, int64_t> used_;  // nonce → expiry, wall microseconds
};

// Equal for equal arguments, in any order of members.
std::string digestOf(const json::object& arguments);

}  // namespace cloister::api::mcp
