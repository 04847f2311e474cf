// SPDX-License-Identifier: Apache-2.0
// Bytes between local files and the server, piece by piece and of any number.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "net/blocking_client.h"

namespace cloister::cli {

// A file, or standard input, as a request's body.
struct Source {
  Fd file = {};
  std::optional<uint64_t> size = {};  // remaining bytes of a regular file
  std::optional<mode_t> mode = {};    // its permissions
};

// `path` "-" is standard input. kInvalid for a directory.
Result<Source> openSource(const std::string& path);

// Its next bytes, "" at the end. A growing file is sent up to its announced size; a shrinking file
// is an error.
Result<std::string> nextPiece(Source& source);

// Sends the pieces of `source`, and reads the answer: an object, if the answer has a body.
Result<base::json::object> upload(net::BlockingClient& client, std::string_view method,
                                  const std::string& target,
                                  std::function<Result<std::string>()> source,
                                  std::optional<uint64_t> length);

// Passes the body at `target` to `take`; `what` names the target in errors. An answer that breaks
// off is an error.
using Take = std::function<Result<>(std::string_view piece)>;
Result<> download(net::BlockingClient& client, const std::string& target, const std::string& what,
                  const Take& take);

// Shows a transfer's progress on stderr, if stderr is a terminal.
class Meter {
 public:
  Meter(bool wanted, std::optional<uint64_t> total);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  void add(size_t bytes);
  void clear();  // before anything else is written
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  bool active_;
  bool shown_ = false;
  std::optional<uint64_t> total_;
  uint64_t bytes_ = 0;
  base::Monotonic start_ = base::monotonicNow();
  base::Monotonic next_;
};

// "[#####.....]  50%  5.0 MiB of 10.0 MiB, 2.5 MiB/s"; without the total "5.0 MiB, 2.5 MiB/s".
std::string meterLine(uint64_t bytes, std::optional<uint64_t> total, Millis elapsed);

}  // namespace cloister::cli
