// SPDX-License-Identifier: Apache-2.0
// Result and TRY: the one error convention.
//
// A function that can fail returns Result<T>. An Error is a code for the machine and a message
// "doing what: cause" for the reader; `field` names the offending member of a request. TRY unwraps
// or returns; CO_TRY does so in a coroutine. Our code never throws; an adapter to a throwing
// library catches at its edge. Thread-compatible values.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace cloister::base {

// Errors on which a caller can act; the HTTP layer maps each to a status.
enum class Code {
  kInvalid,       // the request is wrong; `field` says where
  kUnauthorized,  // no or unknown credential
  kDenied,        // known, and may not
  kNotFound,      // does not exist, or is not yours
  kConflict,      // clashes with an existing object
  kTooLarge,      // over a size limit
  kQuota,         // over a rate or capacity limit; retry later
  kUnavailable,   // a part of ours is not ready; retry later
  kNoSpace,       // the disk is full
  kUnsupported,   // not possible on this machine or in this build
  kInternal,      // ours to fix
};

std::string_view codeName(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;
  std::string field;
  int retry_after_seconds = 0;  // with kQuota and kUnavailable: when to come back; 0: unknown
  bool lasting = false;         // with kQuota: the same request can never succeed

  // "outer: message": adds the operation to the message.
  [[nodiscard]] Error within(std::string_view outer) &&;
};

template <class T = void>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(Code code, std::string message, std::string field = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(field)});
}

// An Error from errno: "doing what: strerror". ENOSPC and EDQUOT become kNoSpace.
Error errnoError(std::string_view doing, int error_number);
std::unexpected<Error> failErrno(std::string_view doing);  // reads errno
std::unexpected<Error> failErrno(std::string_view doing, int error_number);

}  // namespace cloister::base

namespace cloister {
using base::Code;
using base::Error;
using base::fail;
using base::failErrno;
using base::Result;
}  // namespace cloister

#define TRY(...)                                                            \
  ({                                                                        \
    auto try_result = (__VA_ARGS__);                                        \
    if (!try_result) return std::unexpected(std::move(try_result).error()); \
    *std::move(try_result);                                                 \
  })

#define CO_TRY(...)                                                            \
  ({                                                                           \
    auto try_result = (__VA_ARGS__);                                           \
    if (!try_result) co_return std::unexpected(std::move(try_result).error()); \
    *std::move(try_result);                                                    \
  })
