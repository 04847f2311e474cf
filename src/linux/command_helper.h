// SPDX-License-Identifier: Apache-2.0
// CommandHelper: a process that runs one fixed command repeatedly, for a caller that may not
// execute programs itself. The helper is forked before the caller is confined and before the caller
// has any secret in its memory. The helper keeps only one descriptor, a socket. Each request's
// bytes become the command's stdin. The helper ends with its parent.
//
// On the socket, to the helper: frames of u32 length (at most kMaxFrame) and bytes; an empty frame
// ends the request. From the helper, one answer to each request: i32 what (below), u32 length and
// as many bytes of the command's stdout and stderr. Little-endian.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "linux/credentials.h"

namespace cloister::linux {

struct HelperCommand {
  std::vector<std::string> argv;  // argv[0]: an absolute path
  std::chrono::milliseconds timeout{0};
  std::optional<User> user;  // user to become, if permitted
};

inline constexpr uint32_t kMaxHelperFrame = 65'536;
inline constexpr uint32_t kMaxHelperSaid = 1'024;  // the rest is dropped
// Results besides an exit status of 0 to 255.
inline constexpr int32_t kHelperTimedOut = -1;
inline constexpr int32_t kHelperKilled = -2;  // by a signal
inline constexpr int32_t kHelperNotRun = -3;

// Returns the parent's end of the socket. The caller has a single thread.
Result<Fd> startCommandHelper(const HelperCommand& command);

// The answer to a request whose frames have been sent. Waits at most `patience`.
struct HelperAnswer {
  int32_t what = kHelperNotRun;
  std::string said;
};
Result<> sendToHelper(int socket, std::string_view bytes);  // "" ends the request
Result<HelperAnswer> receiveFromHelper(int socket, std::chrono::milliseconds patience);

}  // namespace cloister::linux
