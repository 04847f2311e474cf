// SPDX-License-Identifier: Apache-2.0
#include "images/unpack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "images/archive.h"
#include "images/layer.h"
#include "images/oci.h"
#include "images/remove_tree.h"
#include "images/tree.h"
#include "linux/paths.h"

namespace cloister::images {
namespace {

constexpr char kRoot[] = "root";
constexpr char kInput[] = "input";
constexpr int kMaxIndexes = 4;  // within each other

Result<Fd> makeDirectory(int work, const char* name) {
  if (::mkdirat(work, name, 0755) != 0) return failErrno(std::string("making ") + name);
  Fd made(::openat(work, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return made ? Result<Fd>(std::move(made)) : failErrno(std::string("opening ") + name);
}

// A regular file of a layout.
Result<Fd> openFile(int layout, const std::string& path) {
  Fd file = linux::openInRoot(layout, path, O_RDONLY | O_NONBLOCK);
  if (!file) return failErrno("opening " + shown(path));
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return failErrno("opening " + shown(path));
  if (!S_ISREG(status.st_mode)) return fail(Code::kInvalid, shown(path) + ": is not a file");
  return file;
}

bool hasFile(int layout, const std::string& path) {
  return openFile(layout, path).has_value();
}

Result<std::string> readDocument(Source& source, size_t most) {
  std::string text;
  for (;;) {
    const std::string_view piece = TRY(source.next());
    if (piece.empty()) return text;
    if (text.size() + piece.size() > most) {
      return fail(Code::kTooLarge, "larger than " + std::to_string(most) + " bytes");
    }
    text += piece;
  }
}

Error at(std::string_view what, Error error) {
  return std::move(error).within(what);
}

template <class T>
Result<T> within(std::string_view what, Result<T> result) {
  if (result) return result;
  return std::unexpected(at(what, std::move(result).error()));
}

class Unpacker {
 public:
  Unpacker(int work, const Bounds& bounds, const std::function<void(const std::string&)>& say)
      : work_(work), bounds_(bounds), say_(say), budget_(bounds.bytes) {}

  Result<Unpacked> run(Fd input) {
    struct stat status{};
    if (::fstat(input.get(), &status) != 0) return failErrno("looking at the input");
    if (S_ISDIR(status.st_mode)) {
      if (isLayout(input.get())) return layout(input.get());
      return plainDirectory(input.get());
    }
    if (!S_ISREG(status.st_mode)) return fail(Code::kInvalid, "is neither a file nor a directory");
    return archive(std::move(input));
  }

 private:
  static bool isLayout(int directory) {
    return hasFile(directory, "oci-layout") && hasFile(directory, "index.json");
  }

  Result<Unpacked> plainDirectory(int directory) {
    say_("copying the directory");
    const Fd root = TRY(makeDirectory(work_, kRoot));
    Tree tree(root.get(), bounds_);
    note(TRY(copyTree(directory, tree)));
    out_.source = "directory";
    return std::move(out_);
  }

  // Unpacks an archive first; its content then shows the format.
  Result<Unpacked> archive(Fd file) {
    say_("reading the archive");
    const Fd input = TRY(makeDirectory(work_, kInput));
    FileSource compressed(std::move(file));
    uint64_t budget = bounds_.bytes;
    PlainSource tar(compressed, budget);
    Tree tree(input.get(), bounds_);
    const LayerResult result = TRY(applyLayer(tar, tree, false));
    if (tree.entries() == 0) return fail(Code::kInvalid, "is an archive of nothing");
    if (isLayout(input.get())) return layout(input.get());
    if (isDocker(input.get())) return docker(input.get());
    if (::renameat(work_, kInput, work_, kRoot) != 0) return failErrno("renaming the tree");
    note(result);
    out_.source = "directory";
    return std::move(out_);
  }

  // A root file system may have a manifest.json of its own, but not without these.
  static bool isDocker(int directory) {
    struct stat status{};
    return hasFile(directory, "manifest.json") &&
           ::fstatat(directory, "usr", &status, AT_SYMLINK_NOFOLLOW) != 0 &&
           ::fstatat(directory, "bin", &status, AT_SYMLINK_NOFOLLOW) != 0;
  }

  static std::string blobPath(const Descriptor& blob) {
    return "blobs/sha256/" + blob.digest.substr(blob.digest.find(':') + 1);
  }

  static Result<> verify(const Descriptor& blob, const FileSource& read) {
    if (read.size() != blob.size) {
      return fail(Code::kInvalid, "is " + std::to_string(read.size()) + " bytes, but " +
                                      std::to_string(blob.size) + " were announced");
    }
    if (read.digest() != blob.digest) {
      return fail(Code::kInvalid, "its content has the digest " + read.digest() +
                                      ": the archive is damaged or was changed");
    }
    return {};
  }

  // A small blob, whole.
  static Result<std::string> document(int layout, const Descriptor& blob) {
    const auto read = [&]() -> Result<std::string> {
      FileSource source(TRY(openFile(layout, blobPath(blob))));
      std::string text = TRY(readDocument(source, kMaxJson));
      TRY(verify(blob, source));
      return text;
    };
    return within("blob " + blob.digest, read());
  }

  static Result<std::string> plainDocument(int layout, const std::string& path) {
    FileSource source(TRY(openFile(layout, path)));
    return within(path, readDocument(source, kMaxJson));
  }

  // Finds the manifest for this machine, through nested indexes up to a limit.
  static Result<Manifest> findManifest(int layout) {
    std::string text = TRY(plainDocument(layout, "index.json"));
    std::string name = "index.json";
    for (int depth = 0; depth < kMaxIndexes; ++depth) {
      const auto index = TRY(within(name, parseIndex(text)));
      const Descriptor chosen = TRY(within(name, choosePlatform(index, machinePlatform())));
      text = TRY(document(layout, chosen));
      name = "blob " + chosen.digest;
      if (!chosen.isIndex()) return within(name, parseManifest(text));
    }
    return fail(Code::kInvalid, "index.json: more than " + std::to_string(kMaxIndexes) +
                                    " indexes within each other");
  }

  Result<> takeConfig(ImageConfig config, size_t layers) {
    if (config.platform != machinePlatform()) {
      return fail(Code::kUnsupported, "is an image for " + shown(config.platform) +
                                          ", and this machine runs " +
                                          std::string(machinePlatform()));
    }
    if (config.diff_ids.size() != layers) {
      return fail(Code::kInvalid, "the config names " + std::to_string(config.diff_ids.size()) +
                                      " layers, the manifest " + std::to_string(layers));
    }
    out_.env = std::move(config.env);
    for (std::string& text : config.notes)
      out_.notes.push_back(std::move(text));
    diff_ids_ = std::move(config.diff_ids);
    return {};
  }

  Result<Unpacked> layout(int layout) {
    const Manifest manifest = TRY(findManifest(layout));
    const std::string config = TRY(document(layout, manifest.config));
    auto parsed = TRY(within("config", parseImageConfig(config)));
    TRY(takeConfig(std::move(parsed), manifest.layers.size()));
    out_.source = "oci";
    out_.reference = manifest.config.digest;
    const Fd root = TRY(makeDirectory(work_, kRoot));
    Tree tree(root.get(), bounds_);
    for (size_t i = 0; i < manifest.layers.size(); ++i) {
      const Descriptor& blob = manifest.layers[i];
      const auto apply = [&]() -> Result<> {
        FileSource file(TRY(openFile(layout, blobPath(blob))));
        TRY(applyOne(file, tree, i));
        return verify(blob, file);
      };
      TRY(within(layerName(i), apply()));
    }
    return std::move(out_);
  }

  Result<Unpacked> docker(int layout) {
    const std::string text = TRY(plainDocument(layout, "manifest.json"));
    const DockerManifest manifest = TRY(within("manifest.json", parseDockerManifest(text)));
    FileSource source(TRY(openFile(layout, manifest.config)));
    const std::string config = TRY(within("config", readDocument(source, kMaxJson)));
    // Its name is its digest, as blobs/sha256/HEX or HEX.json.
    const std::string hex = source.digest().substr(source.digest().find(':') + 1);
    if (!manifest.config.contains(hex)) {
      return fail(Code::kInvalid, shown(manifest.config) + ": its content has the digest " +
                                      source.digest() + ": the archive is damaged or was changed");
    }
    auto parsed = TRY(within("config", parseImageConfig(config)));
    TRY(takeConfig(std::move(parsed), manifest.layers.size()));
    out_.source = "docker";
    out_.reference = source.digest();
    const Fd root = TRY(makeDirectory(work_, kRoot));
    Tree tree(root.get(), bounds_);
    for (size_t i = 0; i < manifest.layers.size(); ++i) {
      FileSource file(TRY(openFile(layout, manifest.layers[i])));
      TRY(within(layerName(i), applyOne(file, tree, i)));
    }
    return std::move(out_);
  }

  static std::string layerName(size_t i) { return "layer " + std::to_string(i + 1); }

  // A layer's tar to its end, and its file too.
  Result<> applyOne(FileSource& file, Tree& tree, size_t i) {
    say_("unpacking " + layerName(i) + " of " + std::to_string(diff_ids_.size()));
    PlainSource tar(file, budget_);
    note(TRY(applyLayer(tar, tree, true)));
    while (!TRY(file.next()).empty()) {
    }
    if (tar.digest() == diff_ids_[i]) return {};
    return fail(Code::kInvalid,
                "its tar has the digest " + tar.digest() + ", but the config says " + diff_ids_[i]);
  }

  void note(const LayerResult& result) {
    if (result.left_out == 0) return;
    out_.notes.push_back("left out " + std::to_string(result.left_out) +
                         " devices, FIFOs and sockets");
  }

  const int work_;
  const Bounds bounds_;
  const std::function<void(const std::string&)>& say_;
  uint64_t budget_;  // remaining bytes for unpacked layers
  std::vector<std::string> diff_ids_;
  Unpacked out_;
};

}  // namespace

Result<Unpacked> unpack(Fd input, int work, const Bounds& bounds,
                        const std::function<void(const std::string&)>& say) {
  return Unpacker(work, bounds, say).run(std::move(input));
}

}  // namespace cloister::images
