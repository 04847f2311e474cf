// SPDX-License-Identifier: Apache-2.0
// Blobs: bytes kept for a tenant under their SHA-256, encrypted under the tenant's key. Equal
// content is one blob within a tenant and never between tenants. The implementations are a local
// directory and a bucket of S3 (s3/s3_blobs.h); blobs_suite.h is the conformance suite.
//
// Blobs has one owner thread, the thread of the executor that runs its coroutines. A coroutine of
// Blobs never blocks this thread for longer than a local disk does. Writers and readers belong to
// the same executor, except write(), which any thread may call, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include "artifacts/keyring.h"
#include "base/result.h"
#include "model/artifact.h"
#include "model/config.h"

namespace cloister::artifacts {

using model::BlobName;

template <class T>
using Task = boost::asio::awaitable<T>;

// A blob being written; without keep() nothing is kept. If the process dies before the writer is
// destroyed, Blobs::recover() asks whether the blob is wanted: keep the writer until a record names
// the blob.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  // To the local disk, encrypted.
  virtual Result<> write(std::string_view bytes) = 0;
  // Ends the content, and returns its digest (64 hex digits). The blob does not exist yet. Call
  // once.
  virtual Task<Result<std::string>> seal() = 0;
  // After seal(): the blob exists, with the durability given to the Blobs. Call once. The writer
  // outlives the call.
  virtual Task<Result<>> keep() = 0;
  // Both: for a blob that nobody removes meanwhile.
  Task<Result<std::string>> finish();
};

// A blob as opened, even if written again meanwhile.
class BlobReader {
 public:
  virtual ~BlobReader() = default;
  [[nodiscard]] virtual uint64_t size() const = 0;
  // At most `length` bytes from `offset`; fewer at the end. Reads only the necessary parts.
  // kInternal names a damaged part. kUnavailable if the store does not answer. A blob removed
  // meanwhile can still be read if it is local or small (kReadAtOnce); otherwise kNotFound.
  virtual Task<Result<std::string>> read(uint64_t offset, size_t length) = 0;
};

// A reader holds a blob of this size, as stored, in memory.
inline constexpr size_t kReadAtOnce = size_t{64} << 10;

class Blobs {
 public:
  using Named = std::function<Result<bool>(const BlobName&)>;

  virtual ~Blobs() = default;
  virtual Result<std::unique_ptr<BlobWriter>> create(const std::string& tenant) = 0;
  // kNotFound if the blob does not exist; kInternal if damaged or another blob's; kUnavailable if
  // the store does not answer.
  virtual Task<Result<std::unique_ptr<BlobReader>>> open(BlobName name) = 0;
  // The caller must know that no record names the blob, until `done`. A missing blob is not an
  // error. Calls `done` once, on the executor, or at once if the removal needs no waiting.
  virtual void remove(const BlobName& name, std::function<void(Result<>)> done) = 0;
  // The same, for a waiting caller.
  Task<Result<>> removed(BlobName name);
  // Destroys the tenant's key, and removes its blobs. Without the key no blob of the tenant can be
  // read, even if its removal fails and is tried again later.
  virtual Task<Result<>> forget(std::string tenant) = 0;
  // Call before anything else; may block. Keeps only blobs known to `named` among blobs finished
  // when the last process died and whose writers were not destroyed.
  virtual Result<> recover(const Named& named) = 0;
  // Ends waiting calls, before the executor ends; later calls are never answered. Writers that are
  // destroyed afterwards leave their blobs to the next recover().
  virtual void stop() {}
};

// Whether a text is a digest in the form of seal().
bool isDigest(std::string_view text);

// Blobs in `dir` (made if missing, mode 0700), in the directories of `keyring`, which is for the
// same directory and must outlive the blobs. All data on disk is encrypted. A blob gets its name
// only when complete, so a killed process leaves no partial blob; with kPower the blob is also
// synced first, and survives a power cut. Reads, and with kPower the syncs, happen in `background`,
// which ends before the blobs.
Result<std::unique_ptr<Blobs>> openLocalBlobs(Keyring& keyring, model::Durability durability,
                                              boost::asio::thread_pool& background);

}  // namespace cloister::artifacts
