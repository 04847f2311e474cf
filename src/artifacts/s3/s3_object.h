// SPDX-License-Identifier: Apache-2.0
// The bytes of a sealed file in a bucket. Internal to s3_blobs.cc. Blocking; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "artifacts/s3/s3_client.h"
#include "artifacts/sealed_file.h"
#include "base/result.h"

namespace cloister::artifacts {

// Keeps the last kReadAtOnce bytes, which are all of a small object, and a window of what was read
// last: at most kMostAhead, or the asked bytes. `client` outlives it.
class S3Object final : public SealedBytes {
 public:
  static constexpr size_t kFirstAhead = size_t{256} << 10;
  static constexpr size_t kMostAhead = size_t{2} << 20;

  static Result<std::unique_ptr<S3Object>> open(S3Client& client, std::string key);

  [[nodiscard]] uint64_t size() const override { return tail_.total; }
  Result<std::string> read(uint64_t offset, size_t length) override;

 private:
  S3Object(S3Client& client, std::string key, S3Client::Range tail)
      : client_(client), key_(std::move(key)), tail_(std::move(tail)) {}

  S3Client& client_;
  std::string key_;
  S3Client::Range tail_;
  S3Client::Range window_;
  size_t ahead_ = kFirstAhead;
};

}  // namespace cloister::artifacts
