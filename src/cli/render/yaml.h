// SPDX-License-Identifier: Apache-2.0
// JSON as YAML 1.2, in block style. Pure.
#pragma once

#include <string>

#include "base/json.h"

namespace cloister::cli {

// One document, with a newline at its end. Text is quoted unless every reader of YAML takes it for
// the same text; so control characters are escaped.
std::string toYaml(const base::json::value& value);

}  // namespace cloister::cli
