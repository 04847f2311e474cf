// SPDX-License-Identifier: Apache-2.0
#include "model/package_selector.h"

#include <algorithm>

namespace cloister::model {
namespace {

constexpr size_t kMaxPypiName = 128;
constexpr size_t kMaxNpmName = 214;  // npm's own bound

bool isWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool isPypiName(std::string_view name) {
  if (name.empty() || name.size() > kMaxPypiName) return false;
  if (!isWordCharacter(name.front()) || !isWordCharacter(name.back())) return false;
  return std::ranges::all_of(
      name, [](char c) { return isWordCharacter(c) || c == '-' || c == '_' || c == '.'; });
}

// Old packages of npm have upper case.
bool isNpmPart(std::string_view part) {
  if (part.empty() || part.front() == '.' || part.front() == '_') return false;
  return std::ranges::all_of(part, [](char c) {
    return isWordCharacter(c) || c == '-' || c == '_' || c == '.' || c == '~';
  });
}

bool isNpmName(std::string_view name) {
  if (name.size() > kMaxNpmName) return false;
  if (!name.starts_with('@')) return isNpmPart(name);
  const size_t slash = name.find('/');
  return slash != std::string_view::npos && isNpmPart(name.substr(1, slash - 1)) &&
         isNpmPart(name.substr(slash + 1));
}

bool sameName(Ecosystem ecosystem, std::string_view a, std::string_view b) {
  return ecosystem == Ecosystem::kPypi ? normalName(a) == normalName(b) : a == b;
}

// Takes "pypi:" or "npm:" from the front.
std::optional<Ecosystem> takeEcosystem(std::string_view& text) {
  for (const Ecosystem each : {Ecosystem::kPypi, Ecosystem::kNpm}) {
    const std::string prefix = std::string(ecosystemName(each)) + ":";
    if (!text.starts_with(prefix)) continue;
    text.remove_prefix(prefix.size());
    return each;
  }
  return std::nullopt;
}

bool isFor(Ecosystem ecosystem, const VersionCondition& condition) {
  return ecosystem == Ecosystem::kPypi ? isForPypi(condition) : isForNpm(condition);
}

bool concerns(const std::optional<Ecosystem>& only, Ecosystem ecosystem) {
  return !only || *only == ecosystem;
}

// A name that only one ecosystem has needs no prefix.
bool canBeNamed(Ecosystem ecosystem, std::string_view name, bool prefix) {
  if (ecosystem == Ecosystem::kPypi) {
    while (prefix && !name.empty() && !isWordCharacter(name.back()))
      name.remove_suffix(1);
    return isPypiName(name);
  }
  if (prefix && name.starts_with('@') && name.ends_with('/'))
    return isNpmPart(name.substr(1, name.size() - 2));
  return isNpmName(name);
}

}  // namespace

std::string normalName(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == '.') {
      if (!out.ends_with('-')) out += '-';
    } else {
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return out;
}

bool isPackageName(Ecosystem ecosystem, std::string_view name) {
  return ecosystem == Ecosystem::kPypi ? isPypiName(name) : isNpmName(name);
}

bool PackageSelector::covers(Ecosystem ecosystem, std::string_view package) const {
  if (!concerns(only, ecosystem)) return false;
  if (!prefix) return sameName(ecosystem, name, package);
  if (ecosystem == Ecosystem::kPypi) return normalName(package).starts_with(normalName(name));
  return package.starts_with(name);
}

bool PackageSelector::meetsAll(Ecosystem ecosystem, std::string_view version) const {
  if (conditions.empty()) return true;
  if (ecosystem == Ecosystem::kPypi) {
    const auto read = PypiVersion::parse(version);
    return read &&
           std::ranges::all_of(conditions, [&](const auto& each) { return meets(*read, each); });
  }
  const auto read = NpmVersion::parse(version);
  return read &&
         std::ranges::all_of(conditions, [&](const auto& each) { return meets(*read, each); });
}

bool PackagePin::covers(Ecosystem ecosystem, std::string_view package, std::string_view of) const {
  if (!concerns(only, ecosystem) || !sameName(ecosystem, name, package)) return false;
  if (ecosystem == Ecosystem::kNpm) return version == of;
  const auto mine = PypiVersion::parse(version);
  const auto other = PypiVersion::parse(of);
  return mine && other && *mine == *other;
}

Result<PackageSelector> readPackageSelector(std::string_view text) {
  const std::string shown = "\"" + std::string(text) + "\"";
  PackageSelector selector;
  selector.only = takeEcosystem(text);
  const size_t end = std::min(text.find_first_of("=!<>~^ "), text.size());
  selector.name = text.substr(0, end);
  std::string_view conditions = text.substr(end);
  while (conditions.starts_with(' '))
    conditions.remove_prefix(1);
  if (selector.name.ends_with('*')) {
    selector.prefix = true;
    selector.name.pop_back();
  }
  bool named = false;
  for (const Ecosystem each : {Ecosystem::kPypi, Ecosystem::kNpm}) {
    if (!concerns(selector.only, each)) continue;
    named = named || canBeNamed(each, selector.name, selector.prefix);
  }
  if (!named) {
    return fail(
        Code::kInvalid,
        shown + " is no name of a package; write a name, as numpy, @scope/* or npm:left-pad");
  }
  if (conditions.empty()) return selector;
  auto read = readConditions(conditions);
  if (!read) {
    return fail(Code::kInvalid, shown + " has a malformed condition; write it as numpy>=1.26,<3");
  }
  selector.conditions = *std::move(read);
  for (const VersionCondition& condition : selector.conditions) {
    for (const Ecosystem each : {Ecosystem::kPypi, Ecosystem::kNpm}) {
      if (!concerns(selector.only, each) || isFor(each, condition)) continue;
      if (!canBeNamed(each, selector.name, selector.prefix)) continue;
      return fail(Code::kInvalid, shown + " has a condition, " + condition.op + condition.version +
                                      ", that " + std::string(ecosystemName(each)) +
                                      " does not know; begin with pypi: or npm:");
    }
  }
  return selector;
}

Result<PackagePin> readPackagePin(std::string_view text) {
  const auto wrong = [shown = std::string(text)] {
    return fail(Code::kInvalid,
                "\"" + shown + "\" is no pin; write NAME==VERSION sha256:HEX, with 64 digits");
  };
  constexpr std::string_view kHash = " sha256:";
  constexpr size_t kDigits = 64;
  PackagePin pin;
  pin.only = takeEcosystem(text);
  const size_t equal = text.find("==");
  const size_t hash = text.find(kHash);
  if (equal == std::string_view::npos || hash == std::string_view::npos || hash < equal) {
    return wrong();
  }
  pin.name = text.substr(0, equal);
  pin.version = text.substr(equal + 2, hash - equal - 2);
  pin.sha256 = text.substr(hash + kHash.size());
  const bool hex = pin.sha256.size() == kDigits &&
                   pin.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  const bool pypi = concerns(pin.only, Ecosystem::kPypi) && isPypiName(pin.name) &&
                    PypiVersion::parse(pin.version);
  const bool npm =
      concerns(pin.only, Ecosystem::kNpm) && isNpmName(pin.name) && NpmVersion::parse(pin.version);
  if (!hex || (!pypi && !npm)) return wrong();
  return pin;
}

}  // namespace cloister::model
