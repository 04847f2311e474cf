// SPDX-License-Identifier: Apache-2.0
// Checks of a caller's actions on visible objects (model::Principal). Invisible objects are
// kNotFound before these checks.
#pragma once

#include <string>

#include "base/result.h"
#include "model/principal.h"

namespace cloister::orchestrator {

// For objects stored without a whole principal.
inline model::Principal makerOf(const std::string& tenant, const std::string& agent) {
  model::Principal maker;
  maker.tenant = tenant;
  maker.agent = agent;
  maker.roles = {};
  return maker;
}

// For changing or ending an object of `maker`. kDenied for a viewer, who may only read.
inline Result<> mustReach(const model::Principal& by, const model::Principal& maker,
                          const std::string& doing) {
  if (by.reaches(maker)) return {};
  return fail(Code::kDenied, doing +
                                 ": it is another agent's, which this credential only sees; use a "
                                 "key of that agent, or one with the roles agent and operator");
}

// For reading an object's content. kDenied for an administrator of another tenant, who sees only
// the object's existence.
inline Result<> mustBeOfTenant(const model::Principal& by, const model::Principal& maker,
                               const std::string& doing) {
  if (by.tenant == maker.tenant) return {};
  return fail(Code::kDenied, doing + ": it is another tenant's");
}

// For running in an object or using its content: both checks.
inline Result<> mustUse(const model::Principal& by, const model::Principal& maker,
                        const std::string& doing) {
  TRY(mustBeOfTenant(by, maker, doing));
  return mustReach(by, maker, doing);
}

}  // namespace cloister::orchestrator
