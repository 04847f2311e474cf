// SPDX-License-Identifier: Apache-2.0
// ImageReadJob: reads an image in a process of its own.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/result.h"
#include "sandbox/host/image_digest.h"

namespace cloister::runtime {

// readImage() in a process of its own with a thread for each processor. It dies with the caller's
// thread, or with the job.
class ImageReadJob {
 public:
  enum class Priority : uint8_t {
    kWaited,      // a caller waits for the result
    kBackground,  // below the priority of the service and its sandboxes
    kIdle,        // only while the processor is idle
  };
  // `since`: see ImageReading.
  static Result<ImageReadJob> start(const std::string& image_root, Priority priority,
                                    int64_t since = 0);
  ImageReadJob(ImageReadJob&&) noexcept = default;
  ImageReadJob& operator=(ImageReadJob&&) = delete;
  ImageReadJob(const ImageReadJob&) = delete;
  ImageReadJob& operator=(const ImageReadJob&) = delete;
  ~ImageReadJob();

  [[nodiscard]] Priority priority() const { return priority_; }
  // The descriptor to read the result from until end of file, for parse().
  [[nodiscard]] int output() const { return output_.get(); }
  static Result<ImageContent> parse(const std::string& text);

 private:
  ImageReadJob(Priority priority, Fd output, Fd pidfd)
      : priority_(priority), output_(std::move(output)), pidfd_(std::move(pidfd)) {}
  Priority priority_;
  Fd output_;
  Fd pidfd_;
};

}  // namespace cloister::runtime
