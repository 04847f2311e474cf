// SPDX-License-Identifier: Apache-2.0
#include "node/image_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "confine/image_links.h"
#include "node/languages.h"

namespace cloister::node {
namespace {

// File systems write times of a tick's precision, and some of a second's.
constexpr time_t kSettles = 2;

// The directories of an image's own PATH.
std::vector<std::string> programDirectories(const model::Image& image) {
  std::vector<std::string> directories;
  const auto path = std::ranges::find(image.env, "PATH", &model::ImageEnv::value_type::first);
  if (path == image.env.end()) return directories;
  for (const auto part : std::views::split(path->second, ':')) {
    std::string directory(part.begin(), part.end());
    if (directory.starts_with('/')) directories.push_back(std::move(directory));
  }
  return directories;
}

}  // namespace

StoredImages::StoredImages(images::Store store, const model::LanguageSet& languages)
    : store_(std::move(store)),
      languages_(languages),
      offered_(std::make_shared<const std::vector<model::OfferedImage>>()) {}

StoredImages::Stamp StoredImages::stamp() const {
  struct stat status{};
  const std::string names = store_.directory() + "/names";
  if (::stat(names.c_str(), &status) != 0) return {.settled = true};
  const auto now = static_cast<time_t>(base::wallMicros() / 1'000'000);
  return {status.st_ino, status.st_mtim, now > status.st_mtim.tv_sec + kSettles};
}

std::shared_ptr<const std::vector<model::OfferedImage>> StoredImages::offered() {
  const Stamp now = stamp();
  if (now == listed_ && listed_.settled) return offered_;
  listed_ = now;  // taken before the look: later changes cause another look
  list();
  return offered_;
}

void StoredImages::list() {
  auto listing = store_.list();
  if (!listing) {
    base::log(base::Level::kError, "images not listed", {{"error", listing.error().message}});
    return;
  }
  std::map<std::string, std::string> broken;
  for (images::Broken& each : listing->broken) {
    const auto said = complained_.find(each.name);
    if (said == complained_.end() || said->second != each.why) {
      base::log(base::Level::kError, "image cannot be used",
                {{"image", each.name}, {"why", each.why}});
    }
    broken.emplace(std::move(each.name), std::move(each.why));
  }
  complained_ = std::move(broken);
  if (listing->images.size() > model::kMaxOfferedImages) {
    base::log(base::Level::kError, "too many images: the last ones are not offered",
              {{"images", std::to_string(listing->images.size())},
               {"bound", std::to_string(model::kMaxOfferedImages)}});
    listing->images.resize(model::kMaxOfferedImages);
  }
  found_ = std::move(listing->images);
  std::vector<model::OfferedImage> offered;
  for (const images::Found& found : found_)
    offered.push_back(describe(found));
  if (offered == *offered_) return;
  offered_ = std::make_shared<const std::vector<model::OfferedImage>>(std::move(offered));
}

// A tree's content never changes; the places of its programs depend on the name.
model::OfferedImage StoredImages::describe(const images::Found& found) {
  model::OfferedImage offered;
  const auto known = std::ranges::find_if(*offered_, [&](const model::OfferedImage& each) {
    return each.digest == found.image.digest && each.name == found.image.name &&
           each.created == found.image.created;
  });
  if (known != offered_->end()) {
    offered = *known;
  } else {
    offered.languages = languagesIn(languages_, found.root);
    offered.links = runtime::programLinks(found.root, programDirectories(found.image));
  }
  offered.name = found.image.name;
  offered.digest = found.image.digest;
  offered.source = found.image.source;
  offered.created = found.image.created;
  offered.size_bytes = found.image.size_bytes;
  offered.files = found.image.files;
  offered.machines = !found.squashfs.empty();
  offered.verified = found.image.verified;
  return offered;
}

namespace {

std::unexpected<Error> gone(const std::string& image) {
  return fail(Code::kUnsupported, "image " + image +
                                      " is not on this node any more; send the request again, or "
                                      "import it (cloister image import)");
}

}  // namespace

Result<runtime::ImageFiles> StoredImages::open(const std::string& digest) {
  std::ignore = offered();
  const auto found = std::ranges::find_if(
      found_, [&](const images::Found& each) { return each.image.digest == digest; });
  if (found == found_.end()) return gone(digest);
  Fd hold = TRY(store_.hold(found->image));
  return runtime::ImageFiles{
      .digest = digest, .root = found->root, .squashfs = found->squashfs, .hold = std::move(hold)};
}

Result<std::vector<std::string>> StoredImages::env(const model::ImageRef& image) {
  std::ignore = offered();
  const auto found = std::ranges::find_if(found_, [&](const images::Found& each) {
    return each.image.name == image.name && each.image.digest == image.digest;
  });
  if (found == found_.end()) return gone(image.name + "@" + image.digest);
  std::vector<std::string> env;
  for (const auto& [name, value] : found->image.env)
    env.push_back(name + "=" + value);
  return env;
}

}  // namespace cloister::node
