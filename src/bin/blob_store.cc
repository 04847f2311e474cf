// SPDX-License-Identifier: Apache-2.0
#include "bin/blob_store.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/file.h"
#include "base/log.h"
#include "net/trust.h"
#include "net/url.h"

namespace cloister {
namespace {

constexpr const char* kFileKey = "artifacts.s3.credentials_file";

std::string variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

// "" without a file.
std::string credentialsFile(const model::S3Settings& s3) {
  if (!s3.credentials_file.empty()) return s3.credentials_file;
  const std::string dir = variable("CREDENTIALS_DIRECTORY");  // systemd.exec(5)
  const std::string path = dir + "/cloister.s3-credentials";
  return !dir.empty() && ::access(path.c_str(), F_OK) == 0 ? path : "";
}

Result<net::Endpoint> endpointOf(const model::S3Settings& s3) {
  constexpr const char* kKey = "artifacts.s3.endpoint";
  auto url = net::parseUrl(s3.endpoint);
  if (url) url = net::parseBaseUrl(s3.endpoint);  // without a query or a slash at the end
  if (!url) return fail(Code::kInvalid, std::string(kKey) + ": " + url.error().message, kKey);
  TRY(net::clientTls(s3.ca_file, "artifacts.s3.ca_file"));
  net::Endpoint endpoint{.url = *std::move(url), .trust = {}, .key = {}};
  endpoint.trust.ca_file = s3.ca_file;
  endpoint.trust.ca_name = "artifacts.s3.ca_file";
  return endpoint;
}

Result<artifacts::S3BlobsOptions> optionsOf(const model::Config& config,
                                            const artifacts::S3Credentials& credentials) {
  const model::S3Settings& s3 = config.artifacts.s3;
  artifacts::S3BlobsOptions options;
  options.client = {.endpoint = TRY(endpointOf(s3)),
                    .bucket = s3.bucket,
                    .region = s3.region,
                    .credentials = credentials,
                    .timeout = std::chrono::seconds(s3.timeout_seconds),
                    .attempts = s3.attempts};
  options.prefix = s3.prefix;
  options.connections = s3.connections;
  options.part_bytes = uint64_t{s3.part_mb} << 20;
  options.parts_at_once = s3.parts_at_once;
  options.abandoned_us = int64_t{s3.abandoned_seconds} * 1'000'000;
  options.sync = config.durability == model::Durability::kPower;
  return options;
}

}  // namespace

Result<std::optional<artifacts::S3Credentials>> readS3Credentials(const model::Config& config) {
  const model::S3Settings& s3 = config.artifacts.s3;
  if (s3.endpoint.empty()) return std::nullopt;
  constexpr size_t kMost = 65'536;
  if (const std::string path = credentialsFile(s3); !path.empty()) {
    auto text = base::readFile(path, kMost);
    if (!text)
      return fail(Code::kInvalid, std::string(kFileKey) + ": " + text.error().message, kFileKey);
    auto read = artifacts::parseCredentials(*text);
    if (!read) {
      return fail(Code::kInvalid, std::string(kFileKey) + ": " + path + " " + read.error().message,
                  kFileKey);
    }
    return *std::move(read);
  }
  artifacts::S3Credentials read{.key_id = variable("AWS_ACCESS_KEY_ID"),
                                .secret = variable("AWS_SECRET_ACCESS_KEY"),
                                .token = variable("AWS_SESSION_TOKEN")};
  if (!read.key_id.empty() && !read.secret.empty()) return read;
  return fail(
      Code::kInvalid,
      std::string(kFileKey) +
          ": must name a file, since neither the systemd credential cloister.s3-credentials "
          "nor AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are given",
      kFileKey);
}

Result<BlobStore> openBlobStore(const model::Config& config,
                                const std::optional<artifacts::S3Credentials>& credentials,
                                artifacts::Keyring& keyring, const std::string& dir,
                                const boost::asio::any_io_executor& executor,
                                boost::asio::thread_pool& background) {
  BlobStore store;
  if (!credentials) {
    store.blobs = TRY(artifacts::openLocalBlobs(keyring, config.durability, background));
    return store;
  }
  artifacts::S3BlobsOptions options = TRY(optionsOf(config, *credentials));
  options.dir = dir;
  auto bucket = artifacts::openS3Blobs(keyring, executor, std::move(options));
  if (const auto answers = bucket->check(); !answers) {
    if (answers.error().code == Code::kInvalid) return std::unexpected(answers.error());
    base::log(base::Level::kError, "the bucket of artifacts does not answer",
              {{"reason", answers.error().message}});
  }
  store.bucket = bucket.get();
  store.blobs = std::move(bucket);
  return store;
}

boost::asio::awaitable<void> sweepRegularly(artifacts::S3Blobs& bucket) {
  constexpr std::chrono::minutes kPause{10};
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
  for (;;) {
    const auto swept = co_await bucket.sweep();
    if (!swept) {
      base::log(base::Level::kWarn, "sweep of the bucket failed, tried again later",
                {{"reason", swept.error().message}});
    } else if (*swept > 0) {
      base::log(base::Level::kInfo, "bucket swept", {{"removed", static_cast<int64_t>(*swept)}});
    }
    const bool more = swept && *swept >= artifacts::S3Client::kMostListed;
    if (more) continue;
    timer.expires_after(kPause);
    co_await timer.async_wait(boost::asio::use_awaitable);
  }
}

Result<> checkBucket(const model::Config& config) {
  constexpr uint32_t kPatience = 10;  // seconds: somebody waits for the answer
  const auto credentials = TRY(readS3Credentials(config));
  if (!credentials) return {};
  auto options = TRY(optionsOf(config, *credentials));
  options.client.timeout =
      std::chrono::seconds(std::min(config.artifacts.s3.timeout_seconds, kPatience));
  return artifacts::S3Client(options.client).check(options.prefix);
}

}  // namespace cloister
