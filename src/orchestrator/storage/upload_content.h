// SPDX-License-Identifier: Apache-2.0
// UploadContent: a client's upload on its way into a blob. Without finish() no bytes stay. Used by
// one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "artifacts/blobs.h"
#include "base/result.h"
#include "model/artifact.h"
#include "orchestrator/storage/blob_keeper.h"

namespace cloister::orchestrator {

class UploadContent {
 public:
  UploadContent(std::string path, std::unique_ptr<artifacts::BlobWriter> writer)
      : path_(std::move(path)), writer_(std::move(writer)) {}

  // Sets the largest size.
  void allow(uint64_t most) { most_ = most; }
  // After an error there is nothing to go on with.
  Result<> write(std::string_view bytes);
  // Gives path, size, digest and type, once. The blob is held by `blobs` for `tenant`
  // (BlobKeeper::keep()). The content outlives the call.
  boost::asio::awaitable<Result<model::ArtifactRef>> finish(BlobKeeper& blobs, std::string tenant);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] uint64_t size() const { return size_; }
  // More may be written.
  [[nodiscard]] bool good() const { return good_; }

 private:
  std::string path_;
  std::unique_ptr<artifacts::BlobWriter> writer_;
  uint64_t most_ = 0;
  uint64_t size_ = 0;
  bool good_ = true;
  std::string head_;  // first bytes, to tell the type
};

}  // namespace cloister::orchestrator
