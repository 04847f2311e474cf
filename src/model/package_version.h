// SPDX-License-Identifier: Apache-2.0
// Versions of packages and conditions on them: PEP 440 for PyPI, Semantic Versioning 2.0.0 for npm.
// Pure; thread-safe. The texts are hostile: they come from registries and from sandboxes.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cloister::model {

inline constexpr size_t kMaxVersion = 128;  // bytes of a version

// PEP 440, "Version scheme". Every spelling that PEP 440 normalises is accepted.
struct PypiVersion {
  enum class Phase : uint8_t { kAlpha, kBeta, kCandidate };

  uint64_t epoch = 0;
  std::vector<uint64_t> release;  // never empty
  std::optional<std::pair<Phase, uint64_t>> pre = {};
  std::optional<uint64_t> post = {};
  std::optional<uint64_t> dev = {};
  std::vector<std::string> local = {};  // in lower case

  static std::optional<PypiVersion> parse(std::string_view text);
  [[nodiscard]] bool isPrerelease() const { return pre.has_value() || dev.has_value(); }
  // The normalised spelling.
  [[nodiscard]] std::string text() const;

  friend std::strong_ordering operator<=>(const PypiVersion& a, const PypiVersion& b);
  friend bool operator==(const PypiVersion& a, const PypiVersion& b) { return (a <=> b) == 0; }
};

// Semantic Versioning, section 11 for the order. Build metadata does not count.
struct NpmVersion {
  uint64_t major = 0;
  uint64_t minor = 0;
  uint64_t patch = 0;
  std::vector<std::string> prerelease = {};

  static std::optional<NpmVersion> parse(std::string_view text);
  // As parse(), and "1" and "1.2" for "1.0.0" and "1.2.0".
  static std::optional<NpmVersion> parsePartial(std::string_view text);

  friend std::strong_ordering operator<=>(const NpmVersion& a, const NpmVersion& b);
  friend bool operator==(const NpmVersion& a, const NpmVersion& b) { return (a <=> b) == 0; }
};

// A condition on a version: one of the operators == != <= >= < > of both schemes, == and != with
// ".*" and ~= and === of PEP 440, ^ and ~ of npm.
struct VersionCondition {
  std::string op;
  std::string version;

  friend bool operator==(const VersionCondition&, const VersionCondition&) = default;
};

// Reads ">=1.26,<3". nullopt: malformed. Versions are not read: see isFor…().
std::optional<std::vector<VersionCondition>> readConditions(std::string_view text);

// Whether the condition has an operator and a version of the scheme.
bool isForPypi(const VersionCondition& condition);
bool isForNpm(const VersionCondition& condition);
// PEP 440, "Version specifiers", with prereleases. False for a condition that is not for the
// scheme.
bool meets(const PypiVersion& version, const VersionCondition& condition);
bool meets(const NpmVersion& version, const VersionCondition& condition);

}  // namespace cloister::model
