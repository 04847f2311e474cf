// SPDX-License-Identifier: Apache-2.0
// Reading the weights of a policy document.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "policy/risk.h"

namespace cloister::policy {

inline constexpr int64_t kMaxScore = 100'000;
inline constexpr int64_t kMaxPoints = 1000;  // maximum of a single name

// The member `risk` of a document; errors name members below `path`.
Result<RiskWeights> readRiskWeights(const base::json::object& object, const std::string& path);

}  // namespace cloister::policy
