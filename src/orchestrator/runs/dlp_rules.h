// SPDX-License-Identifier: Apache-2.0
// The rules of what programs must not let out (docs/DLP.md).
#pragma once

#include <memory>

#include "redact/rules.h"

namespace cloister::orchestrator {

// Null: no rule.
struct DlpRules {
  std::shared_ptr<const redact::Rules> output = nullptr;
  std::shared_ptr<const redact::Rules> artifacts = nullptr;
};

}  // namespace cloister::orchestrator
