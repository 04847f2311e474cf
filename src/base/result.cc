// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <errno.h>

#include <cstring>

namespace cloister::base {

std::string_view codeName(Code code) {
  switch (code) {
    case Code::kInvalid:
      return "invalid";
    case Code::kUnauthorized:
      return "unauthorized";
    case Code::kDenied:
      return "denied";
    case Code::kNotFound:
      return "not found";
    case Code::kConflict:
      return "conflict";
    case Code::kTooLarge:
      return "too large";
    case Code::kQuota:
      return "quota";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kNoSpace:
      return "no space";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kInternal:
      return "internal";
  }
  return "internal";
}

Error Error::within(std::string_view outer) && {
  message.insert(0, ": ").insert(0, outer);
  return std::move(*this);
}

Error errnoError(std::string_view doing, int error_number) {
  const Code code = error_number == ENOSPC || error_number == EDQUOT ? Code::kNoSpace
                    : error_number == ENOENT                         ? Code::kNotFound
                                                                     : Code::kInternal;
  const char* text = strerrordesc_np(error_number);  // nullptr for an unknown number
  const std::string cause =
      text != nullptr ? std::string(text) : "error " + std::to_string(error_number);
  return Error{code, std::string(doing) + ": " + cause, {}};
}

std::unexpected<Error> failErrno(std::string_view doing) {
  return failErrno(doing, errno);
}

std::unexpected<Error> failErrno(std::string_view doing, int error_number) {
  return std::unexpected(errnoError(doing, error_number));
}

}  // namespace cloister::base
