// SPDX-License-Identifier: Apache-2.0
#include "images/layer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>

#include <limits.h>

#include "images/names.h"

namespace cloister::images {
namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::string_view kInternal = ".wh..wh.";

// True if the entry was a whiteout, or a mark that aufs leaves beside whiteouts.
Result<bool> applyWhiteout(const Entry& entry, Tree& tree) {
  std::string_view path = entry.path;
  while (path.ends_with('/'))
    path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  const std::string above(path.substr(0, slash == std::string_view::npos ? 0 : slash + 1));
  const std::string_view name = path.substr(above.size());
  if (!name.starts_with(kWhiteout)) return false;
  if (name == kOpaque) {
    TRY(tree.opaque(above));
  } else if (!name.starts_with(kInternal)) {
    const std::string_view hidden = name.substr(kWhiteout.size());
    if (hidden.empty() || hidden == "." || hidden == "..") {
      return fail(Code::kInvalid, shown(path) + ": a whiteout of nothing");
    }
    TRY(tree.whiteout(above + std::string(hidden)));
  } else {
    TRY(tree.nothing(entry.path));
  }
  return true;
}

Result<> applyEntry(const Entry& entry, TarReader& reader, Tree& tree, LayerResult& result) {
  switch (entry.type) {
    case EntryType::kFile:
      return tree.file(entry.path, entry.attributes, entry.size, reader);
    case EntryType::kDirectory:
      return tree.directory(entry.path, entry.attributes.mode);
    case EntryType::kSymbolicLink:
      return tree.symbolicLink(entry.path, entry.target, entry.attributes.modified);
    case EntryType::kHardLink:
      return tree.hardLink(entry.path, entry.target);
    case EntryType::kOther:
      ++result.left_out;
      return tree.nothing(entry.path);
  }
  return {};
}

// A file being copied.
class FileContent : public Content {
 public:
  explicit FileContent(Fd file) : source_(std::move(file)) {}
  Result<std::optional<Piece>> next() override {
    const std::string_view bytes = TRY(source_.next());
    if (bytes.empty()) return std::nullopt;
    const uint64_t at = source_.size() - bytes.size();
    return Piece{bytes, at};
  }

 private:
  FileSource source_;
};

class Copier {
 public:
  Copier(dev_t device, Tree& tree) : device_(device), tree_(tree) {}

  Result<> directory(int from, const std::string& path, size_t depth) {
    if (depth > kMaxDepth) {
      return fail(Code::kTooLarge,
                  shown(path) + ": more than " + std::to_string(kMaxDepth) + " directories deep");
    }
    for (const std::string& name : TRY(namesIn(from)))
      TRY(entry(from, name, path.empty() ? name : path + "/" + name, depth));
    return {};
  }

  [[nodiscard]] LayerResult result() const { return result_; }

 private:
  Result<> entry(int from, const std::string& name, const std::string& path, size_t depth) {
    struct stat status{};
    if (::fstatat(from, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return failErrno(path);
    if (S_ISDIR(status.st_mode)) {
      TRY(tree_.directory(path, status.st_mode));
      if (status.st_dev != device_) return {};  // mounted file systems are not part of the tree
      const Fd inner(::openat(from, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      return inner ? directory(inner.get(), path, depth + 1) : failErrno("opening " + shown(path));
    }
    if (S_ISREG(status.st_mode)) return file(from, name, path, status);
    if (!S_ISLNK(status.st_mode)) {
      ++result_.left_out;
      return {};
    }
    char target[PATH_MAX];
    const ssize_t n = ::readlinkat(from, name.c_str(), target, sizeof target);
    if (n < 0) return failErrno("reading " + shown(path));
    return tree_.symbolicLink(path, std::string(target, static_cast<size_t>(n)),
                              status.st_mtim.tv_sec);
  }

  Result<> file(int from, const std::string& name, const std::string& path,
                const struct stat& status) {
    if (status.st_nlink > 1) {
      const auto [known, first] = linked_.try_emplace(status.st_ino, path);
      if (!first) return tree_.hardLink(path, known->second);
    }
    Fd file(::openat(from, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file) return failErrno("opening " + shown(path));
    FileContent content(std::move(file));
    return tree_.file(path, {status.st_mode, status.st_mtim.tv_sec},
                      static_cast<uint64_t>(status.st_size), content);
  }

  const dev_t device_;
  Tree& tree_;
  std::map<ino_t, std::string> linked_;
  LayerResult result_;
};

}  // namespace

Result<LayerResult> applyLayer(Source& tar, Tree& tree, bool whiteouts) {
  tree.beginLayer();
  LayerResult result;
  TarReader reader(tar);
  while (const std::optional<Entry> entry = TRY(reader.nextEntry())) {
    if (whiteouts && TRY(applyWhiteout(*entry, tree))) continue;
    TRY(applyEntry(*entry, reader, tree, result));
  }
  while (!TRY(tar.next()).empty()) {
  }
  return result;
}

Result<LayerResult> copyTree(int directory, Tree& tree) {
  struct stat status{};
  if (::fstat(directory, &status) != 0) return failErrno("looking at the directory");
  tree.beginLayer();
  Copier copier(status.st_dev, tree);
  TRY(copier.directory(directory, "", 0));
  return copier.result();
}

}  // namespace cloister::images
