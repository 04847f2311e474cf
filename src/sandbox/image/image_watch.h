// SPDX-License-Identifier: Apache-2.0
// ImageWatch: the digest of the node's image at run time.
//
// A cached digest counts while no indicative file has changed (image_digest.h), and is verified in
// the background, again and again. Without a cached digest the image is read in the background, and
// has no digest until the end of the reading. Only callers that need the digest wait (digest(),
// verified()).
//
// An epoch is a time in which the image has one content, as far as is known. A change of the image
// is noticed within a second of looking, or at a verification. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/image_state.h"
#include "runtime/runtime.h"
#include "sandbox/image/image_read_job.h"

namespace cloister::runtime {

struct ImageWatchConfig {
  std::string image_root;  // "" = the host
  bool waited = false;     // sandboxes wait for the digest, so read with high priority
  // Delay from a start or a change to the first reading: the node's first requests come first, and
  // an installation of packages finishes.
  std::chrono::milliseconds quiet{2'000};
  std::chrono::milliseconds verify_every{600'000};  // and soon after a start
};

class ImageWatch : public std::enable_shared_from_this<ImageWatch> {
 public:
  // `on_change` is called when the image has changed.
  ImageWatch(boost::asio::any_io_executor executor, ImageWatchConfig config,
             std::function<void()> on_change);

  // Looks up the cached digest, and schedules a reading. Call once, on an object owned by a
  // shared_ptr.
  void start();

  // The current image.
  struct Now {
    std::string digest;  // "" until verified
    uint64_t epoch = 0;
  };
  Now now();
  // Waits for the digest of the current image. Reading begins at once.
  Task<Result<std::string>> digest();
  // The digest of the image in the epoch of `then`. kConflict if the image has changed since, and
  // was never verified.
  Task<Result<std::string>> verified(Now then);

  // As last looked at.
  [[nodiscard]] model::ImageState state() const;

 private:
  using Priority = ImageReadJob::Priority;
  void look();
  void readIn(std::chrono::milliseconds time, Priority priority);
  void launch(Priority priority);
  Task<void> finish(std::shared_ptr<ImageReadJob> job);
  void take(ImageContent content);
  void renew();
  void failed(Error error);

  boost::asio::any_io_executor executor_;
  ImageWatchConfig config_;
  std::function<void()> on_change_;
  std::string place_;
  std::string key_;
  ImageContent content_;  // its digest is "" until verified
  uint64_t epoch_ = 1;
  int64_t began_ = 0;  // start of the epoch, in wall-clock microseconds: sandboxes made earlier are
                       // gone
  Error error_;        // reason of a missing digest, after a failed reading
  base::Monotonic looked_{};
  std::shared_ptr<ImageReadJob> job_;
  boost::asio::steady_timer timer_;  // of the next reading
  async::Signal changed_;
};

}  // namespace cloister::runtime
