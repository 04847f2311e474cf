// SPDX-License-Identifier: Apache-2.0
#include "registry/pull.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "base/fd.h"
#include "images/bounds.h"
#include "images/oci.h"
#include "registry/layout.h"
#include "registry/manifest.h"
#include "registry/sources.h"
#include "registry/verify.h"

namespace cloister::registry {
namespace {

constexpr int kMostIndexes = 4;  // within each other, as for an import
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr std::string_view kManifestType = "application/vnd.oci.image.manifest.v1+json";

// A file that grows with the bytes of a blob.
class FileSink : public Sink {
 public:
  FileSink(Fd file, std::string path, std::function<void(uint64_t)> progress)
      : file_(std::move(file)), path_(std::move(path)), progress_(std::move(progress)) {}

  Result<> write(std::string_view bytes) override {
    size_ += bytes.size();
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno != EINTR) return failErrno("writing " + path_);
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
    }
    progress_(size_);
    return {};
  }
  Result<> restart() override {
    size_ = 0;
    if (::ftruncate(file_.get(), 0) == 0 && ::lseek(file_.get(), 0, SEEK_SET) == 0) return {};
    return failErrno("writing " + path_);
  }

 private:
  Fd file_;
  std::string path_;
  std::function<void(uint64_t)> progress_;
  uint64_t size_ = 0;
};

template <class T>
Result<T> within(const std::string& what, Result<T> result) {
  if (result) return result;
  return std::unexpected(std::move(result).error().within(what));
}

// The manifest for this machine.
struct Chosen {
  std::string digest;
  std::string bytes;
  images::Manifest manifest;
};

class Pull {
 public:
  Pull(const PullOptions& options, Sources sources)
      : options_(options), sources_(std::move(sources)) {}

  Result<Pulled> run() {
    options_.progress("asking for the manifest");
    const Chosen chosen = TRY(choose());
    TRY(checkSize(chosen.manifest));
    out_.verified.reference = options_.reference.text();
    options_.progress("verifying the image");
    TRY(verify(sources_, options_.reference, chosen.digest, options_.settings, out_));
    TRY(fetch(chosen));
    return std::move(out_);
  }

 private:
  // From the reference through indexes to a manifest, each verified by its digest.
  Result<Chosen> choose() {
    std::string digest = options_.reference.digest;
    for (int depth = 0; depth <= kMostIndexes; ++depth) {
      Document document = TRY(sources_.manifest(digest));
      const std::string name = "manifest " + digest;
      if (!TRY(within(name, isIndex(document.bytes, document.type)))) {
        auto manifest = TRY(within(name, images::parseManifest(document.bytes)));
        return Chosen{
            .digest = digest, .bytes = std::move(document.bytes), .manifest = std::move(manifest)};
      }
      const auto index = TRY(within(name, images::parseIndex(document.bytes)));
      digest = TRY(within(name, images::choosePlatform(index, images::machinePlatform()))).digest;
    }
    return fail(Code::kInvalid,
                "more than " + std::to_string(kMostIndexes) + " indexes within each other");
  }

  // The blobs are compressed: their bound is that of the unpacked image.
  [[nodiscard]] Result<> checkSize(const images::Manifest& manifest) const {
    const uint64_t most = options_.settings.max_mb * kMiB;
    if (manifest.config.size > images::kMaxJson) {
      return fail(Code::kTooLarge, "the image's config is " + std::to_string(manifest.config.size) +
                                       " bytes, but at most " + std::to_string(images::kMaxJson) +
                                       " are read");
    }
    uint64_t left = most;
    for (const images::Descriptor& layer : manifest.layers) {
      if (layer.size > left) {
        return fail(Code::kTooLarge, "the layers have more than " +
                                         std::to_string(options_.settings.max_mb) +
                                         " MiB (images.max_mb)");
      }
      left -= layer.size;
    }
    return {};
  }

  Result<> fetch(const Chosen& chosen) {
    const Layout layout = TRY(Layout::make(options_.directory));
    TRY(layout.add(chosen.digest, chosen.bytes));
    TRY(fetchBlob(layout, chosen.manifest.config, "fetching the config"));
    std::set<std::string> fetched = {chosen.manifest.config.digest, chosen.digest};
    const std::string count = std::to_string(chosen.manifest.layers.size());
    size_t number = 0;
    for (const images::Descriptor& layer : chosen.manifest.layers) {
      const std::string name = "layer " + std::to_string(++number) + " of " + count;
      if (fetched.insert(layer.digest).second) {
        auto done = fetchBlob(layout, layer, "fetching " + name);
        if (!done) return std::unexpected(std::move(done).error().within(name));
      }
    }
    return layout.finish(chosen.digest, chosen.bytes.size(), kManifestType);
  }

  Result<> fetchBlob(const Layout& layout, const images::Descriptor& blob,
                     const std::string& doing) {
    const std::string path = layout.path(blob.digest);
    Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return failErrno("making " + path);
    FileSink sink(std::move(file), path, [&](uint64_t size) {
      options_.progress(doing + ": " + std::to_string(size / kMiB) + " of " +
                        std::to_string(blob.size / kMiB) + " MiB");
    });
    return sources_.blob(blob.digest, blob.size, sink);
  }

  const PullOptions& options_;
  Sources sources_;
  Pulled out_;
};

}  // namespace

Result<Pulled> pull(const PullOptions& options) {
  const auto deadline = base::monotonicNow() + std::chrono::seconds(options.settings.pull_seconds);
  Sources sources = TRY(Sources::of(options.reference, options.settings, deadline));
  auto pulled = Pull(options, std::move(sources)).run();
  if (pulled) return pulled;
  return std::unexpected(std::move(pulled).error().within(options.reference.text()));
}

}  // namespace cloister::registry
