// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/policy_engine.h"

#include <utility>

namespace cloister::orchestrator {

boost::asio::awaitable<Ruling> EmbeddedEngine::rule(const policy::Question&) {
  co_return Ruling{.policy = current_.get(), .trace = {}};
}

Result<> EmbeddedEngine::ready() const {
  const auto policy = current_.get();
  if (policy->broken.empty()) return {};
  return fail(Code::kUnavailable,
              "the policy cannot be used, so every run is denied: " + policy->broken);
}

model::AuditEvent withRuling(model::AuditEvent event, const Ruling& ruling) {
  if (!ruling.trace.empty()) event.details["decision"] = ruling.trace;
  return event;
}

}  // namespace cloister::orchestrator
