// SPDX-License-Identifier: Apache-2.0
// What a caller that sees something may do with it (model::Principal). What it does not see is
// kNotFound before any of these are asked.
#pragma once

#include <string>

#include "base/result.h"
#include "model/principal.h"

namespace cloister::orchestrator {

// For what keeps no whole principal.
inline model::Principal makerOf(const std::string& tenant, const std::string& agent) {
  model::Principal maker;
  maker.tenant = tenant;
  maker.agent = agent;
  maker.roles = {};
  return maker;
}

// To change or end what `maker` made. kDenied for a viewer, who only sees it.
inline Result<> mustReach(const model::Principal& by, const model::Principal& maker,
                          const std::string& doing) {
  if (by.reaches(maker)) return {};
  return fail(Code::kDenied, doing +
                                 ": it is another agent's, which this credential only sees; use a "
                                 "key of that agent, or one with the roles agent and operator");
}

// To read what is in it. kDenied for an administrator of another tenant, who sees that it exists.
inline Result<> mustBeOfTenant(const model::Principal& by, const model::Principal& maker,
                               const std::string& doing) {
  if (by.tenant == maker.tenant) return {};
  return fail(Code::kDenied, doing + ": it is another tenant's");
}

// To run in it or use what is in it: both.
inline Result<> mustUse(const model::Principal& by, const model::Principal& maker,
                        const std::string& doing) {
  TRY(mustBeOfTenant(by, maker, doing));
  return mustReach(by, maker, doing);
}

}  // namespace cloister::orchestrator
