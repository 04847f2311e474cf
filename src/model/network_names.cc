// SPDX-License-Identifier: Apache-2.0
// Names of hosts and paths of requests, each in a single accepted spelling. Nothing is normalised:
// two parts of the service that normalise differently would judge one name and dial another.
#include <algorithm>
#include <array>
#include <memory>

#include <idn2.h>

#include "base/network.h"
#include "model/network.h"
#include "model/shown_text.h"

namespace cloister::model {
namespace {

constexpr size_t kMaxNameBytes = 253;  // RFC 1035 section 3.1, as text without the root's dot
constexpr size_t kMaxLabelBytes = 63;
constexpr size_t kMaxSpelling = 4 * kMaxNameBytes;  // of other alphabets, in UTF-8
constexpr size_t kMaxShown = 80;
constexpr std::string_view kWildcard = "*.";
constexpr std::string_view kAce = "xn--";  // begins an A-label (RFC 5890)

bool isLower(char c) {
  return c >= 'a' && c <= 'z';
}

bool isUpper(char c) {
  return c >= 'A' && c <= 'Z';
}

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

bool isLetterOrDigit(char c) {
  return isLower(c) || isUpper(c) || isDigit(c);
}

bool isAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// The last label of an address in any spelling of inet_aton(3) is a number, and that of a host
// never is (RFC 1123 section 2.1).
bool endsInNumber(std::string_view name) {
  std::string_view last = name.substr(name.rfind('.') + 1);
  if (last.starts_with("0x")) {
    last.remove_prefix(2);
    return last.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  }
  return std::ranges::all_of(last, isDigit);
}

bool isNameCharacter(char c) {
  const bool other_alphabet = static_cast<unsigned char>(c) >= 0x80;
  return isLower(c) || isDigit(c) || c == '-' || c == '_' || c == '.' || other_alphabet;
}

// A spelling that is refused, and the advice for its author.
struct OddSpelling {
  bool (*is)(std::string_view text);
  std::string_view advice;
};

// The first that applies is reported.
constexpr std::array<OddSpelling, 8> kOddSpellings = {{
    {[](std::string_view text) { return text.empty(); }, "write a name, such as api.example.com"},
    {[](std::string_view text) { return text.size() > kMaxSpelling; },
     "a name has at most 253 bytes"},
    {[](std::string_view text) { return base::Address::parse(text).has_value(); },
     "destinations are allowed by name, not by address; write the name of the host"},
    {[](std::string_view text) { return !base::isUtf8(text); }, "it is not UTF-8"},
    {[](std::string_view text) { return std::ranges::any_of(text, isUpper); },
     "write it in lower case"},
    {[](std::string_view text) { return !std::ranges::all_of(text, isNameCharacter); },
     "a name has letters, digits, hyphens and dots; write it without scheme, user, port and path"},
    {[](std::string_view text) {
       return text.starts_with('.') || text.ends_with('.') || text.contains("..");
     },
     "write it without a dot at an end and without empty labels"},
    {endsInNumber, "a name that ends in a number can be read as an address"},
}};

// Letters, digits and inner hyphens (RFC 952, RFC 1123), after an underscore in the names of
// services (RFC 8552).
bool isPlainLabel(std::string_view label) {
  if (label.size() > kMaxLabelBytes) return false;
  if (label.starts_with('_')) label.remove_prefix(1);
  return !label.empty() && label.front() != '-' && label.back() != '-' &&
         std::ranges::all_of(label, [](char c) { return isLower(c) || isDigit(c) || c == '-'; });
}

using IdnText = std::unique_ptr<char, void (*)(void*)>;

// The A-label of a label (RFC 5891); "" if there is none. Without UTS 46, libidn2 maps nothing.
std::string aLabel(const std::string& label) {
  char* made = nullptr;
  const int error = ::idn2_to_ascii_8z(label.c_str(), &made, IDN2_NO_TR46);
  const IdnText owned(made, ::idn2_free);
  return error == IDN2_OK ? std::string(made) : std::string();
}

std::string uLabel(const std::string& label) {
  char* made = nullptr;
  const int error = ::idn2_to_unicode_8z8z(label.c_str(), &made, 0);
  const IdnText owned(made, ::idn2_free);
  return error == IDN2_OK ? std::string(made) : std::string();
}

// The label as it is looked up; "" if it has another spelling, which a program could take for the
// same label.
std::string acceptedLabel(const std::string& label) {
  if (isAscii(label) && !label.starts_with(kAce)) return isPlainLabel(label) ? label : "";
  std::string made = aLabel(label);
  if (!isPlainLabel(made)) return "";
  const bool same = isAscii(label) ? made == label : uLabel(made) == label;
  return same ? made : "";
}

std::unexpected<Error> noName(std::string_view text, std::string_view advice) {
  return fail(Code::kInvalid, "\"" + safeText(text, kMaxShown) +
                                  "\" is not accepted as a host name: " + std::string(advice));
}

// Bytes that separate or escape something in a path, for some server.
constexpr std::string_view kPathMeaning = "./\\;%?#";
constexpr std::string_view kPathMarks = "-._~!$&'()*+,=:@/";  // RFC 3986 section 3.3, without ";"

int hexValue(char c) {
  if (isDigit(c)) return c - '0';
  const char lower = isUpper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Appends the byte that "%XX" at the front of `text` stands for. False if that is no escape, or of
// a byte with a meaning in paths.
bool appendEscaped(std::string_view text, std::string& out) {
  if (text.size() < 3 || hexValue(text[1]) < 0 || hexValue(text[2]) < 0) return false;
  const int byte = hexValue(text[1]) * 16 + hexValue(text[2]);
  const char c = static_cast<char>(byte);
  if (byte < 0x20 || byte == 0x7f || kPathMeaning.contains(c)) return false;
  out += c;
  return true;
}

// Only the last segment may be empty, and none has only dots.
bool hasPlainSegments(std::string_view path) {
  for (size_t start = 1; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view segment = path.substr(start, end - start);
    const bool last = end == path.size();
    if (segment.find_first_not_of('.') == std::string_view::npos && !(last && segment.empty())) {
      return false;
    }
    start = end + 1;
  }
  return true;
}

}  // namespace

Result<std::string> hostName(std::string_view text) {
  for (const OddSpelling& odd : kOddSpellings) {
    if (odd.is(text)) return noName(text, odd.advice);
  }
  std::string name;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find('.', start), text.size());
    const std::string label = acceptedLabel(std::string(text.substr(start, end - start)));
    if (label.empty()) {
      return noName(text,
                    "\"" + safeText(text.substr(start, end - start), kMaxShown) +
                        "\" is not a label in lower case and NFC (RFC 5891) of at most 63 bytes");
    }
    name += (name.empty() ? "" : ".") + label;
    start = end + 1;
  }
  if (name.size() > kMaxNameBytes) return noName(text, "a name has at most 253 bytes");
  if (name.substr(name.rfind('.') + 1).starts_with('_')) {
    return noName(text, "the last label cannot begin with an underscore");
  }
  return name;
}

Result<std::string> hostPattern(std::string_view text) {
  if (!text.contains('*')) return hostName(text);
  const bool wildcard = text.starts_with(kWildcard);
  const std::string_view below = wildcard ? text.substr(kWildcard.size()) : text;
  if (!wildcard || below.contains('*')) {
    return noName(text, "\"*\" is only accepted as the whole first label, as in *.example.org");
  }
  const std::string name = TRY(hostName(below));
  if (!name.contains('.')) {
    return noName(text, "a wildcard needs two labels after it, as in *.example.org");
  }
  return std::string(kWildcard) + name;
}

bool coversName(std::string_view pattern, std::string_view name) {
  if (pattern == kAnyName) return true;
  if (!pattern.starts_with(kWildcard)) return pattern == name;
  const std::string_view suffix = pattern.substr(1);
  return name.size() > suffix.size() && name.ends_with(suffix);
}

bool coversPattern(std::string_view outer, std::string_view inner) {
  if (outer == kAnyName) return true;
  if (inner == kAnyName) return false;
  if (!inner.starts_with(kWildcard)) return coversName(outer, inner);
  return outer.starts_with(kWildcard) && inner.substr(1).ends_with(outer.substr(1));
}

bool isPlainPath(std::string_view path) {
  if (!path.starts_with('/')) return false;
  std::string read;  // the path as a server reads it
  for (size_t i = 0; i < path.size(); ++i) {
    const char c = path[i];
    if (c == '%') {
      if (!appendEscaped(path.substr(i), read)) return false;
      i += 2;
    } else if (isLetterOrDigit(c) || kPathMarks.contains(c)) {
      read += c;
    } else {
      return false;
    }
  }
  return base::isUtf8(read) && hasPlainSegments(path);
}

}  // namespace cloister::model
