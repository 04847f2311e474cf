// SPDX-License-Identifier: Apache-2.0
// Where the blobs of the configuration are: in the state directory, or in a bucket (artifacts.s3).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include "artifacts/blobs.h"
#include "artifacts/keyring.h"
#include "artifacts/s3/s3_blobs.h"
#include "base/result.h"
#include "model/config.h"

namespace cloister {

// Of the bucket: from artifacts.s3.credentials_file, the systemd credential
// `cloister.s3-credentials`, or the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN of the environment; nullopt without a bucket. Call while the files can be read.
// kInvalid names the key of the configuration.
Result<std::optional<artifacts::S3Credentials>> readS3Credentials(const model::Config& config);

struct BlobStore {
  std::unique_ptr<artifacts::Blobs> blobs;
  artifacts::S3Blobs* bucket = nullptr;  // the same blobs; null: in the state directory
};

// `dir` is the keyring's. A bucket that refuses is kInvalid. A bucket that does not answer is
// reported, and the service starts.
Result<BlobStore> openBlobStore(const model::Config& config,
                                const std::optional<artifacts::S3Credentials>& credentials,
                                artifacts::Keyring& keyring, const std::string& dir,
                                const boost::asio::any_io_executor& executor,
                                boost::asio::thread_pool& background);

// Sweeps now and regularly, for as long as the executor runs; the bucket outlives it.
boost::asio::awaitable<void> sweepRegularly(artifacts::S3Blobs& bucket);

// For `--check`: whether the configured bucket answers. Errors name the key of the configuration.
Result<> checkBucket(const model::Config& config);

}  // namespace cloister
