// SPDX-License-Identifier: Apache-2.0
#include "api/ui/files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/crypto.h"
#include "base/file.h"

namespace cloister::api::ui {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndex = "index.html";
constexpr std::string_view kBase = "<base href=\"/ui/\">";
constexpr std::string_view kCompressed = ".gz";
constexpr size_t kTagDigits = 32;

constexpr auto kTypes = std::to_array<std::pair<std::string_view, std::string_view>>({
    {".css", "text/css; charset=utf-8"},
    {".html", "text/html; charset=utf-8"},
    {".ico", "image/x-icon"},
    {".js", "text/javascript; charset=utf-8"},
    {".json", "application/json"},
    {".map", "application/json"},
    {".mjs", "text/javascript; charset=utf-8"},
    {".png", "image/png"},
    {".svg", "image/svg+xml"},
    {".txt", "text/plain; charset=utf-8"},
    {".wasm", "application/wasm"},
    {".webmanifest", "application/manifest+json"},
    {".woff2", "font/woff2"},
});

std::string typeOf(std::string_view path) {
  const auto* const row =
      std::ranges::find_if(kTypes, [&](const auto& each) { return path.ends_with(each.first); });
  return std::string(row == kTypes.end() ? "application/octet-stream" : row->second);
}

std::unexpected<Error> tooLarge(const std::string& folder, const std::string& what) {
  return fail(Code::kTooLarge, "reading the web interface in " + folder + ": more than " + what +
                                   "; install the files of this release alone");
}

}  // namespace

Result<Files> Files::read(const std::string& folder) {
  Files files;
  std::error_code error;
  if (!fs::is_directory(folder, error)) return files;
  size_t bytes = 0;
  std::map<std::string, std::string> compressed;
  for (auto at = fs::recursive_directory_iterator(folder, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with('.')) {
      at.disable_recursion_pending();
      continue;
    }
    if (at->is_symlink(error) || !at->is_regular_file(error)) continue;
    if (files.files_.size() + compressed.size() >= kMaxFiles) {
      return tooLarge(folder, std::to_string(kMaxFiles) + " files");
    }
    std::string text = TRY(base::readFile(at->path().string(), kMaxBytes));
    bytes += text.size();
    if (bytes > kMaxBytes) return tooLarge(folder, std::to_string(kMaxBytes >> 20) + " MiB");
    std::string path = at->path().lexically_relative(folder).string();
    if (path.ends_with(kCompressed)) {
      compressed[path.substr(0, path.size() - kCompressed.size())] = std::move(text);
      continue;
    }
    File& file = files.files_[path];
    file.type = typeOf(path);
    file.etag = "\"" + base::sha256Hex(text).substr(0, kTagDigits) + "\"";
    file.bytes = std::move(text);
  }
  if (error) {
    return fail(Code::kUnavailable,
                "reading the web interface in " + folder + ": " + error.message());
  }
  for (auto& [path, text] : compressed) {
    if (const auto found = files.files_.find(path); found != files.files_.end()) {
      found->second.gzip = std::move(text);
    }
  }
  return files;
}

const File* Files::find(std::string_view path) const {
  const auto found = files_.find(path);
  return found == files_.end() ? nullptr : &found->second;
}

std::string Files::index(std::string_view prefix) const {
  const File* file = find(kIndex);
  std::string text = file == nullptr ? "" : file->bytes;
  if (const size_t at = text.find(kBase); at != std::string::npos) {
    text.replace(at, kBase.size(), "<base href=\"" + std::string(prefix) + "/ui/\">");
  }
  return text;
}

}  // namespace cloister::api::ui
