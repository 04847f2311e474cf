// SPDX-License-Identifier: Apache-2.0
// Names that clients choose: of sessions, and of interpreters within.
#include <algorithm>

#include "model/session.h"

namespace cloister::model {

Result<> checkSessionName(const std::string& name, const std::string& field) {
  constexpr size_t kMost = 63;
  constexpr std::string_view kIdPrefixes[] = {"ses_", "ses-"};
  constexpr std::string_view kFirst =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const std::string kOthers = std::string(kFirst) + "._-";
  const bool plain = !name.empty() && name.size() <= kMost && kFirst.contains(name[0]) &&
                     name.find_first_not_of(kOthers) == std::string::npos;
  if (!plain) {
    return fail(Code::kInvalid,
                field +
                    ": must be 1 to 63 letters, digits, \".\", \"_\" and \"-\" of ASCII, and "
                    "begin with a letter or a digit",
                field);
  }
  const bool like_id = std::ranges::any_of(
      kIdPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
  if (!like_id) return {};
  return fail(Code::kInvalid, field + ": must not begin with ses_ or ses-: ids of sessions do",
              field);
}

bool isKernelName(std::string_view name) {
  constexpr size_t kMost = 32;
  return !name.empty() && name.size() <= kMost &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") == std::string_view::npos;
}

}  // namespace cloister::model
