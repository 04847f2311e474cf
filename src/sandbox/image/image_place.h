// SPDX-License-Identifier: Apache-2.0
// ImagePlace: the common parts of all sandboxes of one image on this node: the root, and one pool
// for each kind of isolation. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/result.h"
#include "sandbox/host/host.h"
#include "sandbox/host/spawn_queue.h"
#include "sandbox/image/image_source.h"
#include "sandbox/pool/pool.h"

namespace cloister::runtime {

struct ImagePlace {
  // A runtime, as named in permits.
  struct Kind {
    std::shared_ptr<Pool> pool;
    std::shared_ptr<const Guest> guest;  // nullptr: only this kernel
    std::vector<std::string> weakened;
  };

  ImageFiles files;  // of the node's own image: nothing
  std::shared_ptr<PresentQueue> spawner;
  std::map<std::string, Kind> kinds;

  // No sandbox is there, nor made ahead.
  [[nodiscard]] bool idle() const;
  // Removes the ready sandboxes.
  void drop() const;
};

std::shared_ptr<ImagePlace> hostPlace(const boost::asio::any_io_executor& executor,
                                      const std::shared_ptr<ProcessHost>& host);

// Places of imported images. A place is made on first use and removed after some idle time, so that
// the image can be removed.
class ImagePlaces : public std::enable_shared_from_this<ImagePlaces> {
 public:
  // `own`: the host's place, whose spawner makes virtual machines of any image. `source`: nullptr
  // without imported images.
  ImagePlaces(boost::asio::any_io_executor executor, std::shared_ptr<ProcessHost> host,
              std::shared_ptr<ImagePlace> own, std::shared_ptr<ImageSource> source);

  // The place of the image with this digest. The caller drops its reference after use.
  Result<std::shared_ptr<ImagePlace>> get(const std::string& digest);
  // The variables of an imported image; none for the node's own image.
  [[nodiscard]] Result<std::vector<std::string>> env(const model::ImageRef& image) const;
  std::shared_ptr<const std::vector<model::OfferedImage>> offered();

 private:
  Result<std::shared_ptr<ImagePlace>> make(const std::string& digest);
  // Removes the place if idle at two checks, `half` apart.
  static Task<void> giveUpWhenIdle(std::weak_ptr<ImagePlaces> places, std::string digest,
                                   std::chrono::milliseconds half);
  // True once the place is gone.
  bool giveUpIfIdle(const std::string& digest, bool& was_idle);

  boost::asio::any_io_executor executor_;
  std::shared_ptr<ProcessHost> host_;
  std::shared_ptr<ImagePlace> own_;
  std::shared_ptr<ImageSource> source_;
  std::map<std::string, std::shared_ptr<ImagePlace>> places_;
};

}  // namespace cloister::runtime
