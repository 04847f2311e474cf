// SPDX-License-Identifier: Apache-2.0
// Text from outside, made fit for JSON: a record that cannot be read back would be a lost one.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace cloister::store {

// Each byte that is not part of well-formed UTF-8 becomes U+FFFD.
std::string cleanText(std::string_view bytes);

// cleanText() for every string and name in it; numbers with a fraction as text, and what is nested
// deeper than parseJson() reads as "…".
base::json::object cleanObject(const base::json::object& object);

}  // namespace cloister::store
