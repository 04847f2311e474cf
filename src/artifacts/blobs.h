// SPDX-License-Identifier: Apache-2.0
// Blobs: bytes kept under their SHA-256. The local implementation is a directory; blobs_suite.h is
// the conformance suite. Not thread-safe: one owner thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/config.h"

namespace cloister::artifacts {

// A blob being written; without finish() nothing of it is kept.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  virtual Result<> write(std::string_view bytes) = 0;
  // Keeps it, as safely as was asked of openLocalBlobs, and gives its digest (64 hex digits). Once.
  virtual Result<std::string> finish() = 0;
};

class Blobs {
 public:
  virtual ~Blobs() = default;
  virtual Result<std::unique_ptr<BlobWriter>> create() = 0;
  // At most `length` bytes from `offset`; fewer at the end; kNotFound if there is no such blob.
  virtual Result<std::string> read(const std::string& sha256, uint64_t offset, size_t length) = 0;
  virtual Result<uint64_t> size(const std::string& sha256) = 0;
  // For everybody: equal content is one blob, so the caller must know that nobody else names it.
  // Removing what is not there is not an error.
  virtual Result<> remove(const std::string& sha256) = 0;
};

// Blobs in `dir` (made if missing, mode 0700), as dir/ab/cdef…; leftovers of a crash are removed. A
// blob has its name only when it is whole, so a killed process leaves none that is not; with kPower
// it is also synced first, and so survives a power cut.
Result<std::unique_ptr<Blobs>> openLocalBlobs(const std::string& dir, model::Durability durability);

// The type a browser may be told, from the first bytes and the name; never one that runs scripts:
// HTML, SVG and XML come out as text/plain.
std::string sniffContentType(std::string_view path, std::string_view head);

}  // namespace cloister::artifacts
