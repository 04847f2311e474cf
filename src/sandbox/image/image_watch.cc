// SPDX-License-Identifier: Apache-2.0
#include "sandbox/image/image_watch.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/crypto.h"
#include "base/log.h"
#include "linux/tree_digest.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds kVerifyAfter{5'000};  // after a start with a cached digest
constexpr std::chrono::milliseconds kAgainAfter{10'000};  // after a failed reading
constexpr auto kLookEvery = std::chrono::seconds(1);

std::string listOf(const std::vector<std::string>& paths) {
  std::string list;
  for (const std::string& path : paths)
    list += (list.empty() ? "" : ", ") + path;
  return list;
}

}  // namespace

ImageWatch::ImageWatch(asio::any_io_executor executor, ImageWatchConfig config,
                       std::function<void()> on_change)
    : executor_(std::move(executor)),
      config_(std::move(config)),
      on_change_(std::move(on_change)),
      timer_(executor_),
      changed_(executor_) {}

void ImageWatch::start() {
  looked_ = base::monotonicNow();
  began_ = base::wallMicros();
  place_ = imagePlace(config_.image_root);
  key_ = imageKey(config_.image_root);
  content_ = keptImage(config_.image_root, key_);
  if (!content_.digest.empty()) {
    const auto after = std::max(kVerifyAfter, config_.quiet);
    return readIn(std::min(after, config_.verify_every), Priority::kIdle);
  }
  base::log(base::Level::kInfo, "the image is not verified: it is read in the background");
  readIn(config_.waited ? std::chrono::milliseconds(0) : config_.quiet, Priority::kBackground);
}

ImageWatch::Now ImageWatch::now() {
  look();
  return {content_.digest, epoch_};
}

Task<Result<std::string>> ImageWatch::digest() {
  const auto self = shared_from_this();
  look();
  if (content_.digest.empty()) launch(Priority::kWaited);
  while (content_.digest.empty() && job_)
    co_await changed_.wait();
  if (content_.digest.empty()) co_return std::unexpected(error_);
  co_return content_.digest;
}

Task<Result<std::string>> ImageWatch::verified(Now then) {
  if (!then.digest.empty()) co_return then.digest;
  auto digest = co_await this->digest();
  if (digest && epoch_ != then.epoch) {
    co_return fail(Code::kConflict,
                   "the image changed after the sandbox was made, and before it was verified");
  }
  co_return digest;
}

model::ImageState ImageWatch::state() const {
  return {.place = place_,
          .identity = base::sha256Hex(place_ + key_),
          .digest = content_.digest,
          .changed_at = content_.changed_at,
          .since = began_,
          .files = content_.files,
          .files_read = content_.files_read,
          .newest = content_.newest,
          .changed = content_.changed,
          .problem = error_.message,
          .reading = job_ != nullptr && content_.digest.empty()};
}

void ImageWatch::look() {
  const auto now = base::monotonicNow();
  if (now - looked_ < kLookEvery) return;
  looked_ = now;
  std::string key = imageKey(config_.image_root);
  if (key == key_) return;
  key_ = std::move(key);
  content_ = {};
  error_ = {};
  const bool awaited = config_.waited || (job_ && job_->priority() == Priority::kWaited);
  job_.reset();  // its result may be out of date
  if (awaited) {
    launch(Priority::kWaited);
  } else {
    readIn(config_.quiet, Priority::kBackground);
  }
  renew();
}

// Begins another epoch: waiting sandboxes and their prestarted programs have the earlier content.
void ImageWatch::renew() {
  ++epoch_;
  on_change_();
  began_ = base::wallMicros();
}

void ImageWatch::readIn(std::chrono::milliseconds time, Priority priority) {
  timer_.expires_after(time);
  timer_.async_wait([weak = weak_from_this(), priority](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self && !self->job_) self->launch(priority);
  });
}

// A caller does not wait for a job of lower priority: a new job replaces the old, and resumes from
// its saved entries.
void ImageWatch::launch(Priority priority) {
  if (config_.waited && content_.digest.empty()) priority = Priority::kWaited;
  if (job_ && job_->priority() <= priority) return;
  job_.reset();
  // List changes since the epoch began; the kernel's timestamps lag behind.
  constexpr int64_t kLag = linux::TreeDigest::kSettled / 1000;
  const int64_t since = content_.digest.empty() ? began_ - kLag : 0;
  auto job = ImageReadJob::start(config_.image_root, priority, since);
  if (!job) return failed(std::move(job).error());
  job_ = std::make_shared<ImageReadJob>(*std::move(job));
  async::spawn(executor_, finish(job_));
}

Task<void> ImageWatch::finish(std::shared_ptr<ImageReadJob> job) {
  const auto self = shared_from_this();
  asio::posix::stream_descriptor output(executor_, ::fcntl(job->output(), F_DUPFD_CLOEXEC, 0));
  std::string text;
  std::array<char, 4096> chunk;
  for (boost::system::error_code error; !error;) {
    size_t n = 0;
    std::tie(error, n) =
        co_await output.async_read_some(asio::buffer(chunk), asio::as_tuple(asio::use_awaitable));
    text.append(chunk.data(), n);
  }
  if (job != job_) co_return;  // another was started since
  job_.reset();
  auto content = ImageReadJob::parse(text);
  if (!content) {
    failed(std::move(content).error());
  } else if (content->digest.empty()) {
    failed({Code::kUnavailable, "it kept changing while it was read: " + listOf(content->changed),
            ""});
    content_.changed = std::move(content->changed);
  } else {
    take(*std::move(content));
  }
  changed_.notify();
}

void ImageWatch::take(ImageContent content) {
  looked_ = {};
  look();
  if (content.key != key_)
    return launch(Priority::kBackground);  // the image changed during the
                                           // reading
  const bool known = !content_.digest.empty();
  const bool different = known && content_.digest != content.digest;
  const bool moved = !known && content.changed_at >= began_;  // changed after sandboxes were made
  base::log(different ? base::Level::kWarn : base::Level::kInfo,
            different ? "the image's content has changed" : "the image is verified",
            {{"digest", content.digest},
             {"files", std::to_string(content.files)},
             {"read", std::to_string(content.files_read)},
             {"changed", listOf(content.changed)}});
  content_ = std::move(content);
  error_ = {};
  readIn(config_.verify_every, Priority::kIdle);
  if (different || moved) renew();
}

// The known digest stays valid: the next reading may succeed.
void ImageWatch::failed(Error error) {
  base::log(base::Level::kWarn, "the image is not verified", {{"error", error.message}});
  error_ = std::move(error);
  readIn(kAgainAfter, Priority::kBackground);
}

}  // namespace cloister::runtime
