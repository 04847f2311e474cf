// SPDX-License-Identifier: Apache-2.0
// Content types, for downloads of bytes of unknown origin. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace cloister::base {

// A type safe for browsers, from the first bytes and the name; never a type that runs scripts:
// HTML, SVG and XML become text/plain.
std::string sniffContentType(std::string_view path, std::string_view head);

}  // namespace cloister::base
