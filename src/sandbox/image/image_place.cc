// SPDX-License-Identifier: Apache-2.0
#include "sandbox/image/image_place.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/log.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;

// Each has a process, and a mount for every directory at its top.
constexpr size_t kMostPlaces = model::kMaxOfferedImages;

}  // namespace

bool ImagePlace::idle() const {
  return spawner->idle() && std::ranges::all_of(kinds, [](const auto& each) {
           const Pool& pool = *each.second.pool;
           return pool.ready() == 0 && !pool.refilling();
         });
}

void ImagePlace::drop() const {
  for (const auto& [name, kind] : kinds)
    kind.pool->drop();
}

std::shared_ptr<ImagePlace> hostPlace(const asio::any_io_executor& executor,
                                      const std::shared_ptr<ProcessHost>& host) {
  auto place = std::make_shared<ImagePlace>();
  place->spawner =
      std::make_shared<PresentQueue>(executor, host->root(), host->config().spawn_patience);
  place->kinds["process"] = {std::make_shared<Pool>(executor, host, place->spawner), nullptr,
                             host->weakened()};
  for (const auto& guest : host->config().guests) {
    place->kinds[guest->name()] = {std::make_shared<Pool>(executor, host, place->spawner, guest),
                                   guest, host->weakenedIn(*guest)};
  }
  return place;
}

ImagePlaces::ImagePlaces(asio::any_io_executor executor, std::shared_ptr<ProcessHost> host,
                         std::shared_ptr<ImagePlace> own, std::shared_ptr<ImageSource> source)
    : executor_(std::move(executor)),
      host_(std::move(host)),
      own_(std::move(own)),
      source_(std::move(source)) {}

std::shared_ptr<const std::vector<model::OfferedImage>> ImagePlaces::offered() {
  return source_ ? source_->offered() : nullptr;
}

Result<std::shared_ptr<ImagePlace>> ImagePlaces::get(const std::string& digest) {
  const auto known = places_.find(digest);
  if (known != places_.end()) return known->second;
  if (source_ == nullptr) return fail(Code::kUnsupported, "this node has no images");
  if (places_.size() >= kMostPlaces) {
    return fail(Code::kQuota, "too many images are in use; come back later");
  }
  auto place = TRY(make(digest));
  places_[digest] = place;
  async::spawn(executor_, giveUpWhenIdle(weak_from_this(), digest, host_->config().image_idle / 2));
  return place;
}

Result<std::vector<std::string>> ImagePlaces::env(const model::ImageRef& image) const {
  if (image.isHost()) return std::vector<std::string>();
  if (source_ == nullptr) return fail(Code::kUnsupported, "this node has no images");
  return source_->env(image);
}

// A virtual machine's VMM comes from the host's image; only the machine's disk differs.
Result<std::shared_ptr<ImagePlace>> ImagePlaces::make(const std::string& digest) {
  auto place = std::make_shared<ImagePlace>();
  place->files = TRY(source_->open(digest));
  place->spawner = std::make_shared<PresentQueue>(
      executor_, TRY(host_->makeRoot(place->files.root)), host_->config().spawn_patience);
  for (const auto& [name, kind] : own_->kinds) {
    std::shared_ptr<const Guest> guest = kind.guest;
    if (guest && !guest->takesImages()) continue;
    auto spawner = place->spawner;
    if (guest && !guest->imageDigest().empty()) {
      if (place->files.squashfs.empty()) continue;
      guest = TRY(guest->withImage(place->files.squashfs, digest));
      spawner = own_->spawner;
    }
    place->kinds[name] = {std::make_shared<Pool>(executor_, host_, spawner, guest), guest,
                          kind.weakened};
  }
  base::log(base::Level::kInfo, "image in use", {{"digest", digest}});
  return place;
}

Task<void> ImagePlaces::giveUpWhenIdle(std::weak_ptr<ImagePlaces> places, std::string digest,
                                       std::chrono::milliseconds half) {
  asio::steady_timer pause(co_await asio::this_coro::executor);
  for (bool was_idle = false;;) {
    pause.expires_after(half);
    co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
    const auto self = places.lock();
    if (!self || self->giveUpIfIdle(digest, was_idle)) co_return;
  }
}

bool ImagePlaces::giveUpIfIdle(const std::string& digest, bool& was_idle) {
  const auto found = places_.find(digest);
  if (found == places_.end()) return true;
  const bool idle = found->second.use_count() == 1 && found->second->idle();
  if (!std::exchange(was_idle, idle) || !idle) return false;
  found->second->drop();
  places_.erase(found);
  base::log(base::Level::kInfo, "image no longer in use", {{"digest", digest}});
  return true;
}

}  // namespace cloister::runtime
