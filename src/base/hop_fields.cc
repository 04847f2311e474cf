// SPDX-License-Identifier: Apache-2.0
#include "base/hop_fields.h"

#include <algorithm>

namespace cloister::base {
namespace {

char lowered(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string_view withoutBlanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

}  // namespace

const FieldNames& hopFields() {
  static const FieldNames kFields = {"connection",
                                     "keep-alive",
                                     "proxy-connection",
                                     "proxy-authenticate",
                                     "proxy-authentication-info",
                                     "proxy-authorization",
                                     "te",
                                     "trailer",
                                     "transfer-encoding",
                                     "upgrade",
                                     "http2-settings",
                                     "content-length"};
  return kFields;
}

std::vector<std::string> listElements(std::string_view list) {
  std::vector<std::string> all;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string one(withoutBlanks(list.substr(0, comma)));
    std::ranges::transform(one, one.begin(), lowered);
    if (!one.empty()) all.push_back(std::move(one));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return all;
}

bool isOneLine(std::string_view value) {
  constexpr unsigned char kSpace = 0x20;
  constexpr unsigned char kDelete = 0x7f;
  return std::ranges::none_of(
      value, [](unsigned char c) { return (c < kSpace && c != '\t') || c == kDelete; });
}

}  // namespace cloister::base
