// SPDX-License-Identifier: Apache-2.0
// ImageWatch: the digest of the node's image while it runs. Known at once when it is in the cache
// and nothing telling has changed, and verified in the background then; computed otherwise, which
// sandboxes wait for. A change of the image is noticed within a second of looking.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/process/image_digest.h"
#include "runtime/runtime.h"
#include "runtime/signal.h"

namespace cloister::runtime {

class ImageWatch : public std::enable_shared_from_this<ImageWatch> {
 public:
  // `on_change` is called when the image is not any more what it was.
  ImageWatch(boost::asio::any_io_executor executor, std::string image_root,
             std::function<void()> on_change);

  // Looks up the cache, or starts the first job. Call once, from a shared_ptr's object.
  void start();

  // The digest of the image as it is now.
  Task<Result<std::string>> digest();

 private:
  void launch(bool idle);
  Task<void> finish(std::shared_ptr<ImageDigestJob> job);
  void look();

  boost::asio::any_io_executor executor_;
  std::string image_root_;
  std::function<void()> on_change_;
  std::string key_;
  std::string digest_;  // "" while there is none
  Error error_;         // why there is none, once no job runs
  base::Monotonic looked_{};
  std::shared_ptr<ImageDigestJob> job_;
  boost::asio::steady_timer verify_;
  Signal changed_;
};

}  // namespace cloister::runtime
