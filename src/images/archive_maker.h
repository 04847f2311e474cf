// SPDX-License-Identifier: Apache-2.0
// For tests: archives and OCI layouts, valid and hostile.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/file.h"
#include "base/json.h"
#include "images/archive.h"
#include "images/oci.h"

namespace cloister::images {

namespace json = base::json;

// A tar of ustar headers with arbitrary values.
class TarMaker {
 public:
  TarMaker& add(char type, const std::string& path, const std::string& content = {},
                unsigned mode = 0644, const std::string& link = {}) {
    if (path.size() > 99) addRaw('L', "././@LongLink", path + '\0', 0644, {});
    return addRaw(type, path.substr(0, 99), content, mode, link);
  }
  TarMaker& file(const std::string& path, const std::string& content, unsigned mode = 0644) {
    return add('0', path, content, mode);
  }
  TarMaker& directory(const std::string& path, unsigned mode = 0755) {
    return add('5', path, {}, mode);
  }
  TarMaker& link(const std::string& path, const std::string& target) {
    return add('2', path, {}, 0777, target);
  }
  TarMaker& hardLink(const std::string& path, const std::string& target) {
    return add('1', path, {}, 0644, target);
  }
  // Adds only a header that announces `size` bytes.
  TarMaker& announce(const std::string& path, uint64_t size) {
    header('0', path, size, 0644, {});
    return *this;
  }

  [[nodiscard]] std::string bytes() const { return bytes_ + std::string(1024, '\0'); }

 private:
  TarMaker& addRaw(char type, const std::string& path, const std::string& content, unsigned mode,
                   const std::string& link) {
    header(type, path, content.size(), mode, link);
    bytes_ += content;
    bytes_.append((512 - content.size() % 512) % 512, '\0');
    return *this;
  }

  void header(char type, const std::string& path, uint64_t size, unsigned mode,
              const std::string& link) {
    char block[512] = {};
    std::memcpy(block, path.data(), std::min<size_t>(path.size(), 100));
    std::snprintf(block + 100, 8, "%07o", mode);
    std::snprintf(block + 108, 8, "%07o", 4242U);
    std::snprintf(block + 116, 8, "%07o", 4242U);
    std::snprintf(block + 124, 12, "%011llo", static_cast<unsigned long long>(size));
    std::snprintf(block + 136, 12, "%011o", 1'000'000'000U);
    block[156] = type;
    std::memcpy(block + 157, link.data(), std::min<size_t>(link.size(), 100));
    std::memcpy(block + 257, "ustar\00000", 8);
    std::memset(block + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : block)
      sum += static_cast<unsigned char>(c);
    std::snprintf(block + 148, 8, "%06o", sum);
    bytes_.append(block, sizeof block);
  }

  std::string bytes_;
};

inline std::string compressed(const std::string& bytes, bool zstd) {
  std::string out(bytes.size() + 65'536, '\0');
  size_t used = 0;
  struct archive* writer = archive_write_new();
  zstd ? archive_write_add_filter_zstd(writer) : archive_write_add_filter_gzip(writer);
  archive_write_set_format_raw(writer);
  archive_write_set_bytes_in_last_block(writer, 1);
  archive_write_open_memory(writer, out.data(), out.size(), &used);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_write_header(writer, entry);
  archive_write_data(writer, bytes.data(), bytes.size());
  archive_entry_free(entry);
  archive_write_close(writer);
  archive_write_free(writer);
  out.resize(used);
  return out;
}

// A directory removed with this object.
class Scratch {
 public:
  Scratch() { ::mkdtemp(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string path(const std::string& name = {}) const {
    return name.empty() ? path_ : path_ + ("/" + name);
  }
  [[nodiscard]] Fd open() const { return Fd(::open(path_, O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

 private:
  char path_[32] = "/tmp/images-test.XXXXXX";
};

inline void writeFile(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  EXPECT_TRUE(base::writeFileAtomic(path, bytes, 0644));
}

// The entries of a tree: path → "d", "l TARGET" or "f CONTENT".
inline std::map<std::string, std::string> contentsOf(const std::string& root) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string name = entry.path().string().substr(root.size() + 1);
    if (entry.is_symlink()) {
      out[name] = "l " + fs::read_symlink(entry.path()).string();
    } else {
      out[name] = entry.is_directory() ? "d" : "f " + base::readFile(entry.path()).value_or("?");
    }
  }
  return out;
}

// An OCI layout of these layers (tars). Change members before writing.
struct LayoutMaker {
  std::map<std::string, std::string> files = {{"oci-layout", R"({"imageLayoutVersion":"1.0.0"})"}};
  json::object config = {{"architecture", platform(true)},
                         {"os", "linux"},
                         {"config", {{"Env", {"PATH=/bin", "bad name=x", "LANG=C"}}}}};
  json::object manifest = {{"schemaVersion", 2}};
  json::object index = {{"schemaVersion", 2}};

  static std::string platform(bool architecture) {
    const std::string all(machinePlatform());
    return architecture ? all.substr(all.find('/') + 1) : all;
  }
  static std::string digestOf(const std::string& bytes) {
    return "sha256:" + base::sha256Hex(bytes);
  }

  json::object blob(const std::string& bytes, const std::string& type) {
    files["blobs/sha256/" + base::sha256Hex(bytes)] = bytes;
    return {{"mediaType", type}, {"digest", digestOf(bytes)}, {"size", bytes.size()}};
  }

  // Each layer with its compression: "", "gzip" or "zstd".
  explicit LayoutMaker(const std::vector<std::pair<std::string, std::string>>& layers) {
    json::array blobs;
    json::array diffs;
    for (const auto& [tar, how] : layers) {
      const std::string type = "application/vnd.oci.image.layer.v1.tar";
      blobs.push_back(blob(how.empty() ? tar : compressed(tar, how == "zstd"),
                           how.empty() ? type : type + "+" + how));
      diffs.emplace_back(digestOf(tar));
    }
    config["rootfs"] = {{"type", "layers"}, {"diff_ids", diffs}};
    manifest["layers"] = blobs;
  }

  LayoutMaker& finish() {
    manifest["config"] = blob(base::toJson(config), "application/vnd.oci.image.config.v1+json");
    const json::object described =
        blob(base::toJson(manifest), "application/vnd.oci.image.manifest.v1+json");
    if (!index.contains("manifests")) index["manifests"] = json::array{described};
    files["index.json"] = base::toJson(index);
    return *this;
  }

  void writeTo(const std::string& directory) const {
    for (const auto& [path, bytes] : files)
      writeFile(directory + "/" + path, bytes);
  }
  [[nodiscard]] std::string tar() const {
    TarMaker maker;
    for (const auto& [path, bytes] : files)
      maker.file(path, bytes);
    return maker.bytes();
  }
};

// Bytes as a source.
class TextSource : public Source {
 public:
  explicit TextSource(std::string bytes) : bytes_(std::move(bytes)) {}
  Result<std::string_view> next() override {
    return std::exchange(given_, true) ? std::string_view() : std::string_view(bytes_);
  }

 private:
  std::string bytes_;
  bool given_ = false;
};

}  // namespace cloister::images
