// SPDX-License-Identifier: Apache-2.0
// Versions of Debian packages, [EPOCH:]UPSTREAM[-REVISION], in dpkg's order (Debian policy manual,
// section 5.6.12). Pure; thread-safe. The texts are hostile.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cloister::model {

struct DebianVersion {
  uint64_t epoch = 0;
  std::string upstream;
  std::string revision;  // "" equals "0"

  // nullopt: malformed.
  static std::optional<DebianVersion> parse(std::string_view text);

  friend std::strong_ordering operator<=>(const DebianVersion& a, const DebianVersion& b);
  friend bool operator==(const DebianVersion& a, const DebianVersion& b) { return (a <=> b) == 0; }
};

}  // namespace cloister::model
