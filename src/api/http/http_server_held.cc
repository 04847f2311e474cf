// SPDX-License-Identifier: Apache-2.0
// Bytes of bodies and answers that a connection holds, and the tenants' shares of them.
#include <algorithm>

#include "api/http/http_connection.h"

namespace cloister::api {
namespace {

// An answer up to this size, or a piece of a body, is not counted: a slow reader costs little.
constexpr size_t kLargeAnswer = size_t{512} << 10;

}  // namespace

// Received bytes count, not the announced length.
bool Connection::holdBody(const std::string& tenant) {
  const size_t wanted = parser_->bodyBytes();
  if (wanted <= held_) return true;
  const HttpLimits& limits = shared_->limits;
  const size_t share = std::max(limits.body_bytes, limits.bodies_bytes / 2);
  const size_t more = wanted - held_;
  orchestrator::FairShare& bodies = shared_->bodies;
  const bool fits =
      bodies.of(tenant) + more <= share && bodies.has(tenant, more, limits.bodies_bytes);
  if (!fits) return false;
  bodies.take(tenant, more);
  held_ = wanted;
  held_for_ = tenant;
  return true;
}

// A tenant may always hold an answer, whatever the answer's size.
bool Connection::mayHoldAnswer(size_t bytes) const {
  const auto found = shared_->answers.find(tenant_);
  if (bytes <= kLargeAnswer || found == shared_->answers.end()) return true;
  const size_t most = shared_->limits.answers_bytes;
  return bytes <= most - std::min(most, found->second);
}

// The bytes count while the returned pointer lives.
std::shared_ptr<void> Connection::holdAnswer(size_t bytes) {
  if (bytes <= kLargeAnswer) return nullptr;
  shared_->answers[tenant_] += bytes;
  return {nullptr, [shared = shared_, tenant = tenant_, bytes](void*) {
            size_t& left = shared->answers[tenant];
            left -= bytes;
            if (left == 0) shared->answers.erase(tenant);
          }};
}

void Connection::releaseBody() {
  if (held_ == 0) return;
  shared_->bodies.give(held_for_, held_);
  held_ = 0;
}

}  // namespace cloister::api
