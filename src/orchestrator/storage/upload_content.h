// SPDX-License-Identifier: Apache-2.0
// UploadContent: what a client uploads, on its way into a blob. Without finish() nothing of it
// stays. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "artifacts/blobs.h"
#include "base/result.h"
#include "model/artifact.h"

namespace cloister::orchestrator {

class UploadContent {
 public:
  UploadContent(std::string path, std::unique_ptr<artifacts::BlobWriter> writer)
      : path_(std::move(path)), writer_(std::move(writer)) {}

  // As large it may become.
  void allow(uint64_t most) { most_ = most; }
  // After an error there is nothing to go on with.
  Result<> write(std::string_view bytes);
  // Its path, size, digest and type. Once; the blob is there until this is destroyed.
  Result<model::ArtifactRef> finish();

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
