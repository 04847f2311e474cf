// SPDX-License-Identifier: Apache-2.0
#include "model/package_version.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace cloister::model {
namespace {

constexpr size_t kMaxDigits = 18;  // so that each number fits

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::optional<uint64_t> numberOf(std::string_view digits) {
  if (digits.empty() || digits.size() > kMaxDigits) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

// Takes digits from the front; "" if there are none.
std::string_view takeDigits(std::string_view& text) {
  size_t count = 0;
  while (count < text.size() && isDigit(text[count]))
    ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

bool isSeparator(char c) {
  return c == '.' || c == '-' || c == '_';
}

// The parts of a PEP 440 version, taken from the front of a text in lower case.
class PypiReader {
 public:
  explicit PypiReader(std::string_view text) : text_(text) {}

  std::optional<PypiVersion> read() {
    if (text_.starts_with('v')) text_.remove_prefix(1);
    if (!release() || !pre() || !post() || !dev() || !local() || !text_.empty()) {
      return std::nullopt;
    }
    return std::move(version_);
  }

 private:
  bool release() {
    const size_t epoch_end = text_.find('!');
    if (epoch_end != std::string_view::npos) {
      const auto epoch = numberOf(text_.substr(0, epoch_end));
      if (!epoch) return false;
      version_.epoch = *epoch;
      text_.remove_prefix(epoch_end + 1);
    }
    while (true) {
      const auto number = numberOf(takeDigits(text_));
      if (!number) return false;
      version_.release.push_back(*number);
      if (text_.size() < 2 || text_[0] != '.' || !isDigit(text_[1])) return true;
      text_.remove_prefix(1);
    }
  }

  // A number behind a word, with an optional separator; 0 without a number.
  std::optional<uint64_t> numberBehind(std::string_view rest) {
    const bool separated = rest.size() >= 2 && isSeparator(rest[0]) && isDigit(rest[1]);
    if (separated) rest.remove_prefix(1);
    const std::string_view digits = takeDigits(rest);
    text_ = rest;
    return digits.empty() ? uint64_t{0} : numberOf(digits);
  }

  [[nodiscard]] std::string_view behindSeparator() const {
    std::string_view rest = text_;
    if (!rest.empty() && isSeparator(rest[0])) rest.remove_prefix(1);
    return rest;
  }

  bool pre() {
    using Phase = PypiVersion::Phase;
    // Longer spellings first.
    constexpr std::array<std::pair<std::string_view, Phase>, 8> kWords = {
        {{"preview", Phase::kCandidate},
         {"alpha", Phase::kAlpha},
         {"beta", Phase::kBeta},
         {"pre", Phase::kCandidate},
         {"rc", Phase::kCandidate},
         {"a", Phase::kAlpha},
         {"b", Phase::kBeta},
         {"c", Phase::kCandidate}}};
    const std::string_view rest = behindSeparator();
    for (const auto& [word, phase] : kWords) {
      if (!rest.starts_with(word)) continue;
      const auto number = numberBehind(rest.substr(word.size()));
      if (!number) return false;
      version_.pre = {phase, *number};
      return true;
    }
    return true;
  }

  bool post() {
    if (text_.size() >= 2 && text_[0] == '-' && isDigit(text_[1])) {
      text_.remove_prefix(1);
      version_.post = numberOf(takeDigits(text_));
      return version_.post.has_value();
    }
    const std::string_view rest = behindSeparator();
    for (const std::string_view word : {"post", "rev", "r"}) {
      if (!rest.starts_with(word)) continue;
      version_.post = numberBehind(rest.substr(word.size()));
      return version_.post.has_value();
    }
    return true;
  }

  bool dev() {
    constexpr std::string_view kWord = "dev";
    const std::string_view rest = behindSeparator();
    if (!rest.starts_with(kWord)) return true;
    version_.dev = numberBehind(rest.substr(kWord.size()));
    return version_.dev.has_value();
  }

  bool local() {
    if (!text_.starts_with('+')) return true;
    do {
      text_.remove_prefix(1);
      size_t count = 0;
      while (count < text_.size() && (isDigit(text_[count]) || isLetter(text_[count])))
        ++count;
      if (count == 0) return false;
      version_.local.emplace_back(text_.substr(0, count));
      text_.remove_prefix(count);
    } while (!text_.empty() && isSeparator(text_[0]));
    return true;
  }

  std::string_view text_;
  PypiVersion version_;
};

std::vector<uint64_t> withoutZeros(std::vector<uint64_t> release) {
  while (release.size() > 1 && release.back() == 0)
    release.pop_back();
  return release;
}

// The order of PEP 440: 1.0.dev1 < 1.0a1 < 1.0 < 1.0.post1.
std::pair<int, std::pair<int, uint64_t>> preKey(const PypiVersion& v) {
  if (v.pre) return {0, {static_cast<int>(v.pre->first), v.pre->second}};
  return {!v.post && v.dev ? -1 : 1, {0, 0}};
}

std::strong_ordering compareLocal(const std::vector<std::string>& a,
                                  const std::vector<std::string>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const auto x = numberOf(a[i]);
    const auto y = numberOf(b[i]);
    if (x.has_value() != y.has_value()) {
      return x ? std::strong_ordering::greater : std::strong_ordering::less;
    }
    const auto order = x ? *x <=> *y : a[i] <=> b[i];
    if (order != 0) return order;
  }
  return a.size() <=> b.size();
}

PypiVersion publicOf(PypiVersion version) {
  version.local.clear();
  return version;
}

bool sameBase(const PypiVersion& a, const PypiVersion& b) {
  return a.epoch == b.epoch && withoutZeros(a.release) == withoutZeros(b.release);
}

// "==1.2.*": the first numbers of the release.
bool hasPrefix(const PypiVersion& version, const PypiVersion& prefix, size_t numbers) {
  std::vector<uint64_t> release = version.release;
  release.resize(std::max(release.size(), numbers));
  return version.epoch == prefix.epoch &&
         std::equal(prefix.release.begin(),
                    prefix.release.begin() + static_cast<std::ptrdiff_t>(numbers), release.begin());
}

// Splits "1.2.*" into the version and whether it is a prefix.
std::pair<std::string_view, bool> withoutStar(std::string_view text) {
  constexpr std::string_view kStar = ".*";
  const bool star = text.ends_with(kStar);
  return {star ? text.substr(0, text.size() - kStar.size()) : text, star};
}

bool isEqual(const PypiVersion& version, const PypiVersion& wanted, bool prefix) {
  if (prefix) return hasPrefix(version, wanted, wanted.release.size());
  return (wanted.local.empty() ? publicOf(version) : version) == wanted;
}

bool isBelow(const PypiVersion& version, const PypiVersion& bound) {
  if (version >= bound) return false;
  return bound.isPrerelease() || !version.isPrerelease() || !sameBase(version, bound);
}

bool isAbove(const PypiVersion& version, const PypiVersion& bound) {
  if (version <= bound) return false;
  if (!bound.post && version.post && sameBase(version, bound)) return false;
  return version.local.empty() || !sameBase(version, bound);
}

bool isIdentifier(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return isDigit(c) || isLetter(c) || c == '-'; });
}

bool isNumeric(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, isDigit);
}

// Takes "1.2.3" apart, with at least `least` numbers.
std::optional<NpmVersion> readNpm(std::string_view text, size_t least) {
  if (text.empty() || text.size() > kMaxVersion) return std::nullopt;
  const size_t plus = text.find('+');
  if (plus != std::string_view::npos) {
    for (std::string_view rest = text.substr(plus + 1); !rest.empty() || plus + 1 == text.size();) {
      const size_t dot = std::min(rest.find('.'), rest.size());
      if (!isIdentifier(rest.substr(0, dot))) return std::nullopt;
      if (dot == rest.size()) break;
      rest.remove_prefix(dot + 1);
      if (rest.empty()) return std::nullopt;
    }
    text = text.substr(0, plus);
  }
  NpmVersion version;
  const std::array<uint64_t*, 3> numbers = {&version.major, &version.minor, &version.patch};
  size_t count = 0;
  for (; count < numbers.size(); ++count) {
    if (count > 0) {
      if (!text.starts_with('.')) break;
      text.remove_prefix(1);
    }
    const std::string_view digits = takeDigits(text);
    const auto number = numberOf(digits);
    if (!number || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
    *numbers[count] = *number;
  }
  if (count < least) return std::nullopt;
  if (text.empty()) return version;
  if (text[0] != '-' || count < numbers.size()) return std::nullopt;
  do {
    text.remove_prefix(1);
    const size_t dot = std::min(text.find('.'), text.size());
    const std::string_view part = text.substr(0, dot);
    if (!isIdentifier(part)) return std::nullopt;
    if (isNumeric(part) && part.size() > 1 && part[0] == '0') return std::nullopt;
    version.prerelease.emplace_back(part);
    text.remove_prefix(dot);
  } while (!text.empty());
  return version;
}

// Numbers compare as numbers, however long: without leading zeros the longer one is larger.
std::strong_ordering compareNumeric(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a <=> b;
}

std::strong_ordering comparePrerelease(const std::vector<std::string>& a,
                                       const std::vector<std::string>& b) {
  if (a.empty() || b.empty()) return b.size() <=> a.size();  // a release is after its prereleases
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const bool x = isNumeric(a[i]);
    const bool y = isNumeric(b[i]);
    if (x != y) return x ? std::strong_ordering::less : std::strong_ordering::greater;
    const auto order = x ? compareNumeric(a[i], b[i]) : a[i] <=> b[i];
    if (order != 0) return order;
  }
  return a.size() <=> b.size();
}

// The first version that "^" no longer covers: the leftmost number that is not 0 may not change.
NpmVersion caretEnd(const NpmVersion& v) {
  if (v.major > 0) return {.major = v.major + 1};
  if (v.minor > 0) return {.minor = v.minor + 1};
  return {.patch = v.patch + 1};
}

bool isWithin(const NpmVersion& version, const NpmVersion& from, NpmVersion end) {
  end.prerelease = {"0"};  // prereleases of the end are outside too
  return version >= from && version < end;
}

constexpr std::array<std::string_view, 10> kOperators = {
    "===", "==", "!=", "<=", ">=", "~=", "<", ">", "^", "~"};

bool isSpace(char c) {
  return c == ' ' || c == '\t';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && isSpace(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && isSpace(text.back()))
    text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<PypiVersion> PypiVersion::parse(std::string_view text) {
  if (text.empty() || text.size() > kMaxVersion) return std::nullopt;
  const std::string lower = lowered(trimmed(text));
  return PypiReader(lower).read();
}

std::string PypiVersion::text() const {
  std::string out = epoch == 0 ? "" : std::to_string(epoch) + "!";
  for (size_t i = 0; i < release.size(); ++i)
    out += (i == 0 ? "" : ".") + std::to_string(release[i]);
  if (pre) {
    constexpr std::array<std::string_view, 3> kNames = {"a", "b", "rc"};
    out += std::string(kNames[static_cast<size_t>(pre->first)]) + std::to_string(pre->second);
  }
  if (post) out += ".post" + std::to_string(*post);
  if (dev) out += ".dev" + std::to_string(*dev);
  for (size_t i = 0; i < local.size(); ++i) {
    const auto number = numberOf(local[i]);
    out += (i == 0 ? "+" : ".") + (number ? std::to_string(*number) : local[i]);
  }
  return out;
}

std::strong_ordering operator<=>(const PypiVersion& a, const PypiVersion& b) {
  if (const auto order = a.epoch <=> b.epoch; order != 0) return order;
  if (const auto order = withoutZeros(a.release) <=> withoutZeros(b.release); order != 0) {
    return order;
  }
  if (const auto order = preKey(a) <=> preKey(b); order != 0) return order;
  if (const auto order = a.post <=> b.post; order != 0) return order;
  if (a.dev.has_value() != b.dev.has_value()) {
    return a.dev ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  if (const auto order = a.dev <=> b.dev; order != 0) return order;
  return compareLocal(a.local, b.local);
}

std::optional<NpmVersion> NpmVersion::parse(std::string_view text) {
  return readNpm(text, 3);
}

std::optional<NpmVersion> NpmVersion::parsePartial(std::string_view text) {
  return readNpm(text, 1);
}

std::strong_ordering operator<=>(const NpmVersion& a, const NpmVersion& b) {
  if (const auto order = a.major <=> b.major; order != 0) return order;
  if (const auto order = a.minor <=> b.minor; order != 0) return order;
  if (const auto order = a.patch <=> b.patch; order != 0) return order;
  return comparePrerelease(a.prerelease, b.prerelease);
}

std::optional<std::vector<VersionCondition>> readConditions(std::string_view text) {
  constexpr size_t kMostConditions = 16;
  std::vector<VersionCondition> conditions;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view one = trimmed(text.substr(0, comma));
    const auto* op = std::ranges::find_if(
        kOperators, [&](std::string_view each) { return one.starts_with(each); });
    if (op == kOperators.end() || conditions.size() == kMostConditions) return std::nullopt;
    const std::string_view version = trimmed(one.substr(op->size()));
    if (version.empty() || version.size() > kMaxVersion) return std::nullopt;
    conditions.push_back({std::string(*op), std::string(version)});
    if (comma == text.size()) return conditions;
    text.remove_prefix(comma + 1);
  }
}

bool isForPypi(const VersionCondition& condition) {
  const std::string& op = condition.op;
  if (op == "^" || op == "~") return false;
  if (op == "===") return true;
  const auto [text, star] = withoutStar(condition.version);
  const auto version = PypiVersion::parse(text);
  if (!version || (star && op != "==" && op != "!=")) return false;
  if (star && (version->isPrerelease() || version->post || !version->local.empty())) return false;
  if (op == "~=") return version->release.size() >= 2 && version->local.empty();
  return op == "==" || op == "!=" || version->local.empty();
}

bool isForNpm(const VersionCondition& condition) {
  const std::string& op = condition.op;
  return op != "===" && op != "~=" && NpmVersion::parsePartial(condition.version).has_value();
}

bool meets(const PypiVersion& version, const VersionCondition& condition) {
  if (!isForPypi(condition)) return false;
  const std::string& op = condition.op;
  if (op == "===") return lowered(condition.version) == version.text();
  const auto [text, star] = withoutStar(condition.version);
  const PypiVersion bound = *PypiVersion::parse(text);
  if (op == "==") return isEqual(version, bound, star);
  if (op == "!=") return !isEqual(version, bound, star);
  if (op == "<=") return publicOf(version) <= bound;
  if (op == ">=") return publicOf(version) >= bound;
  if (op == "<") return isBelow(version, bound);
  if (op == ">") return isAbove(version, bound);
  return publicOf(version) >= bound && hasPrefix(version, bound, bound.release.size() - 1);  // ~=
}

bool meets(const NpmVersion& version, const VersionCondition& condition) {
  if (!isForNpm(condition)) return false;
  const std::string& op = condition.op;
  const NpmVersion bound = *NpmVersion::parsePartial(condition.version);
  if (op == "==") return version == bound;
  if (op == "!=") return version != bound;
  if (op == "<=") return version <= bound;
  if (op == ">=") return version >= bound;
  if (op == "<") return version < bound;
  if (op == ">") return version > bound;
  if (op == "^") return isWithin(version, bound, caretEnd(bound));
  const bool major_only = condition.version.find('.') == std::string::npos;
  return isWithin(version, bound,
                  major_only ? NpmVersion{.major = bound.major + 1}
                             : NpmVersion{.major = bound.major, .minor = bound.minor + 1});
}

}  // namespace cloister::model
