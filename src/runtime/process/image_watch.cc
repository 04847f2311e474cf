// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/image_watch.h"

#include <fcntl.h>

#include <array>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;
// Verifying can wait until whoever started the node has got what they wanted.
constexpr auto kVerifyAfter = std::chrono::seconds(30);
constexpr auto kLookEvery = std::chrono::seconds(1);

}  // namespace

ImageWatch::ImageWatch(asio::any_io_executor executor, std::string image_root,
                       std::function<void()> on_change)
    : executor_(std::move(executor)),
      image_root_(std::move(image_root)),
      on_change_(std::move(on_change)),
      verify_(executor_),
      changed_(executor_) {}

void ImageWatch::start() {
  looked_ = base::monotonicNow();
  key_ = imageKey(image_root_);
  digest_ = cachedImageDigest(image_root_, key_);
  if (digest_.empty()) {
    base::log(base::Level::kInfo, "reading the image for its digest, which sandboxes wait for");
    return launch(false);
  }
  verify_.expires_after(kVerifyAfter);
  verify_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self && !self->job_) self->launch(true);
  });
}

Task<Result<std::string>> ImageWatch::digest() {
  look();
  while (digest_.empty() && job_)
    co_await changed_.wait();
  if (digest_.empty()) co_return std::unexpected(error_);
  co_return digest_;
}

void ImageWatch::look() {
  const auto now = base::monotonicNow();
  if (now - looked_ < kLookEvery) return;
  looked_ = now;
  std::string key = imageKey(image_root_);
  if (key == key_ && (job_ || !digest_.empty())) return;
  const bool changed = key != key_;
  key_ = std::move(key);
  digest_.clear();
  launch(false);
  if (changed) on_change_();
}

// A job that still runs is given up: what it has seen may be out of date.
void ImageWatch::launch(bool idle) {
  auto job = ImageDigestJob::start(image_root_, idle);
  if (!job) {
    job_.reset();
    error_ = std::move(job).error();
    return;
  }
  job_ = std::make_shared<ImageDigestJob>(*std::move(job));
  asio::co_spawn(executor_, finish(job_), asio::detached);
}

Task<void> ImageWatch::finish(std::shared_ptr<ImageDigestJob> job) {
  const auto self = shared_from_this();
  asio::posix::stream_descriptor output(executor_, ::fcntl(job->output(), F_DUPFD_CLOEXEC, 0));
  std::string text;
  std::array<char, 1024> chunk;
  for (boost::system::error_code error; !error;) {
    size_t n = 0;
    std::tie(error, n) =
        co_await output.async_read_some(asio::buffer(chunk), asio::as_tuple(asio::use_awaitable));
    text.append(chunk.data(), n);
  }
  if (job != job_) co_return;  // another was started since
  job_.reset();
  auto digest = ImageDigestJob::parse(text);
  if (!digest) {
    base::log(base::Level::kError, "no image digest", {{"error", digest.error().message}});
    error_ = std::move(digest).error();
    digest_.clear();
  } else {
    const bool different = !digest_.empty() && digest_ != *digest;
    digest_ = *std::move(digest);
    if (different) on_change_();
  }
  changed_.notify();
}

}  // namespace cloister::runtime
