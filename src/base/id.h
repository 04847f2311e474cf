// SPDX-License-Identifier: Apache-2.0
// Ids: a prefix and a sortable, unguessable part, e.g. exec_01jd3v8k2n5x9q4r7t0wabcdef.
#pragma once

#include <string>
#include <string_view>

namespace cloister::base {

// `prefix` + "_" + 26 characters of Crockford base32: 48 bits of wall-clock milliseconds, then 80
// random bits (getrandom). Sorts by time of creation. Thread-safe.
std::string newId(std::string_view prefix);

// Whether newId(prefix) could have made the text.
bool isId(std::string_view prefix, std::string_view text);

// `bytes` random bytes as lower-case hex (getrandom).
std::string randomHex(size_t bytes);

}  // namespace cloister::base
