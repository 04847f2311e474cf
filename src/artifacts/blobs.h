// SPDX-License-Identifier: Apache-2.0
// Blobs: bytes kept for a tenant under their SHA-256, encrypted under the tenant's key. Equal
// content is one blob within a tenant and never between tenants. The local implementation is a
// directory; blobs_suite.h is the conformance suite. Blobs has one owner thread; writers and
// readers are separate objects, each for any one thread at a time.
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

// A blob being written; without finish() nothing is kept. After finish() the blob exists. If the
// process dies before the writer is destroyed, Blobs::recover() asks whether the blob is wanted:
// keep the writer until a record names the blob.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  virtual Result<> write(std::string_view bytes) = 0;
  // Keeps the blob with the durability given to openLocalBlobs, and returns its digest (64 hex
  // digits). Call once.
  virtual Result<std::string> finish() = 0;
};

// A blob as opened, even if removed meanwhile.
class BlobReader {
 public:
  virtual ~BlobReader() = default;
  [[nodiscard]] virtual uint64_t size() const = 0;
  // At most `length` bytes from `offset`; fewer at the end. Reads only the necessary parts.
  // kInternal names a damaged part.
  virtual Result<std::string> read(uint64_t offset, size_t length) = 0;
};

class Blobs {
 public:
  virtual ~Blobs() = default;
  virtual Result<std::unique_ptr<BlobWriter>> create(const std::string& tenant) = 0;
  // kNotFound if the blob does not exist; kInternal if damaged or another blob's.
  virtual Result<std::unique_ptr<BlobReader>> open(const BlobName& name) = 0;
  // The caller must know that no record names the blob. A missing blob is not an error.
  virtual Result<> remove(const BlobName& name) = 0;
  // Destroys the tenant's key and its blobs.
  virtual Result<> forget(const std::string& tenant) = 0;
  // Call before anything else. Keeps only blobs known to `named` among blobs finished when the last
  // process died and whose writers were not destroyed.
  virtual Result<> recover(const std::function<Result<bool>(const BlobName&)>& named) = 0;
};

// Blobs in `dir` (made if missing, mode 0700), in the directories of `keyring`, which is for the
// same directory and must outlive the blobs. All data on disk is encrypted. A blob gets its name
// only when complete, so a killed process leaves no partial blob; with kPower the blob is also
// synced first, and survives a power cut.
Result<std::unique_ptr<Blobs>> openLocalBlobs(Keyring& keyring, model::Durability durability);

}  // namespace cloister::artifacts
