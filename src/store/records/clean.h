// SPDX-License-Identifier: Apache-2.0
// Makes text from outside fit for JSON: an unreadable record would be a lost record.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace cloister::store {

// Each byte outside well-formed UTF-8 becomes U+FFFD.
std::string cleanText(std::string_view bytes);

// cleanText() for every string and name of the object. Numbers with a fraction become text; values
// nested deeper than parseJson()'s limit become "…".
base::json::object cleanObject(const base::json::object& object);

}  // namespace cloister::store
