// SPDX-License-Identifier: Apache-2.0
// Blobs in a bucket of any store with the S3 API. A blob is written to a spool file on the local
// disk first, encrypted (spool.h), and goes to the bucket as it is: in one request, or in parts. An
// object has the name PREFIX/<random name of the tenant's key>/<keyed hash of the digest>, so names
// reveal neither tenants nor contents. The keys of tenants stay in the keyring.
//
// No request conditions are needed, nor anything else beyond PUT, GET with ranges, DELETE, list
// and uploads in parts. A reader notices that its blob was written again, by the salt of the sealed
// file, and opens the blob again. docs/adr/0124.
//
// recover() moves the blobs of the state directory into the bucket (s3_move.h). Blocking calls run
// on a pool of `connections` threads. The owner thread of blobs.h never waits.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "artifacts/blobs.h"
#include "artifacts/keyring.h"
#include "artifacts/s3/s3_client.h"
#include "base/result.h"

namespace cloister::artifacts {

struct S3BlobsOptions {
  S3Options client;
  std::string prefix;          // of every object, without a slash at the end; "": none
  std::string dir;             // for notes of forgotten tenants; must exist
  uint32_t connections = 16;   // calls at once
  uint64_t part_bytes = 0;     // a larger file is sent in parts of at least this size
  uint32_t parts_at_once = 4;  // of one blob
  int64_t abandoned_us = 0;    // an upload in parts of this age is aborted by sweep()
  bool sync = false;           // spool files, before their blobs are named
};

class S3Blobs : public Blobs {
 public:
  // Asks the bucket once. kInvalid, with the remedy, if it refuses; kUnavailable if it does not
  // answer. check() blocks.
  virtual Result<> check() = 0;
  virtual Task<Result<>> look() = 0;
  // Aborts uploads in parts that nobody continues, and removes the objects of forgotten tenants
  // that are left. Bounded: at most S3Client::kMostListed of each; the next call goes on. Gives the
  // number of both.
  virtual Task<Result<uint64_t>> sweep() = 0;
};

// `keyring` outlives the blobs; `executor` is of the owner thread.
std::unique_ptr<S3Blobs> openS3Blobs(Keyring& keyring, boost::asio::any_io_executor executor,
                                     S3BlobsOptions options);

}  // namespace cloister::artifacts
