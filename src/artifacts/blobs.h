// SPDX-License-Identifier: Apache-2.0
// Blobs: bytes kept for a tenant under their SHA-256, encrypted under that tenant's key. Equal
// content is one blob within a tenant and never between tenants. The local implementation is a
// directory; blobs_suite.h is the conformance suite. Blobs have one owner thread; a writer and a
// reader are apart from them, and may each be used by any one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "artifacts/keyring.h"
#include "base/result.h"
#include "model/artifact.h"
#include "model/config.h"

namespace cloister::artifacts {

using model::BlobName;

// A blob being written; without finish() nothing of it is kept. After finish() it is there, but if
// the process dies before the writer is destroyed, Blobs::recover() asks whether it is wanted: keep
// the writer until a record names the blob.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  virtual Result<> write(std::string_view bytes) = 0;
  // Keeps it, as safely as was asked of openLocalBlobs, and gives its digest (64 hex digits). Once.
  virtual Result<std::string> finish() = 0;
};

// A blob as it was when it was opened, also when it is removed meanwhile.
class BlobReader {
 public:
  virtual ~BlobReader() = default;
  [[nodiscard]] virtual uint64_t size() const = 0;
  // At most `length` bytes from `offset`; fewer at the end. Reads no more than it must. kInternal
  // says which part is damaged.
  virtual Result<std::string> read(uint64_t offset, size_t length) = 0;
};

class Blobs {
 public:
  virtual ~Blobs() = default;
  virtual Result<std::unique_ptr<BlobWriter>> create(const std::string& tenant) = 0;
  // kNotFound if there is no such blob; kInternal if it is damaged or another's.
  virtual Result<std::unique_ptr<BlobReader>> open(const BlobName& name) = 0;
  // The caller must know that no record names it. Removing what is not there is not an error.
  virtual Result<> remove(const BlobName& name) = 0;
  // Destroys the tenant's key and its blobs.
  virtual Result<> forget(const std::string& tenant) = 0;
  // Before anything else: of the blobs that were finished when the last process died, and whose
  // writers had not been destroyed, those stay that `named` knows.
  virtual Result<> recover(const std::function<Result<bool>(const BlobName&)>& named) = 0;
};

// Blobs in `dir` (made if missing, mode 0700), in the directories of `keyring`, which is of the
// same directory and outlives them. All that is ever written there is encrypted. A blob has its
// name only when it is whole, so a killed process leaves none that is not; with kPower it is also
// synced first, and so survives a power cut.
Result<std::unique_ptr<Blobs>> openLocalBlobs(Keyring& keyring, model::Durability durability);

}  // namespace cloister::artifacts
