// SPDX-License-Identifier: Apache-2.0
// FileUpload: uploads a file as an artifact. The upload has a name (`upload` in POST
// /v1/artifacts), so that after a broken connection the upload resumes at the server's part.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/json.h"
#include "base/result.h"
#include "cli/transfer.h"
#include "net/blocking_client.h"

namespace cloister::cli {

class FileUpload {
 public:
  // Number of resumptions; the pauses double from the first to the longest.
  static constexpr int kMostBreaks = 8;
  static constexpr Millis kFirstPause{500};
  static constexpr Millis kLongestPause{8'000};

  // `target` is the POST's target, with its query; `source` a regular file, with its size. `pause`
  // waits, for tests.
  FileUpload(net::BlockingClient& client, std::string target, Source source,
             std::function<void(Millis)> pause = {});

  // Returns the artifact, after a check of its digest.
  Result<base::json::object> run();

 private:
  Result<base::json::object> attempt();
  Result<> findPlace();
  Result<std::string> next();
  [[nodiscard]] bool mayGoOn(const Error& error) const;
  std::unexpected<Error> givenUp(Error error);
  Result<base::json::object> checked(base::json::object artifact);

  net::BlockingClient& client_;
  std::string target_;
  Source source_;
  uint64_t size_;
  std::function<void(Millis)> pause_;
  std::string name_;
  int breaks_ = 0;
  std::optional<uint64_t> offset_;  // start of the next request; none: from the beginning
  uint64_t at_ = 0;                 // position of the next read
  base::Sha256 digest_;             // of its first `digested_` bytes
  uint64_t digested_ = 0;
};

}  // namespace cloister::cli
