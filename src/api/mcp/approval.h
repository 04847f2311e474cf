// SPDX-License-Identifier: Apache-2.0
// Asking the person at the client: elicitation, in each era's way. A modern request is answered
// with the question, and made again with the reply and a state that we gave; a legacy client is
// asked while its request waits. The state is the client's to keep, so it is signed, expires, is
// good for one use, and only for the same principal, tool and arguments.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "api/mcp/message.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "model/principal.h"

namespace cloister::api::mcp {

// What a state is bound to.
struct Subject {
  model::Principal principal;
  std::string tool;       // or the prompt or resource
  std::string arguments;  // SHA-256 of their canonical text
};

class Approvals {
 public:
  static constexpr size_t kMaxUsed = 65'536;  // remembered until they expire; then nothing is taken

  explicit Approvals(Millis life) : life_(life) {}

  // A state that carries `payload`, which the client can read.
  std::string seal(const Subject& subject, json::object payload);
  // Its payload; -32602 for one that is not ours, has expired, was used, or is for something else.
  Rpc<json::object> open(const Subject& subject, const std::string& state);

 private:
  Millis life_;
  base::SigningKey key_ = base::SigningKey::generate();
  std::map<std::string, int64_t> used_;  // nonce → when it expires, wall microseconds
};

// The same for equal arguments, in whatever order their members are.
std::string digestOf(const json::object& arguments);

}  // namespace cloister::api::mcp
