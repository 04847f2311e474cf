// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/shipped_etc.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "base/crypto.h"
#include "base/fd.h"
#include "base/file.h"
#include "linux/paths.h"

namespace cloister::runtime {
namespace {

constexpr size_t kMaxStatus = size_t{64} << 20;
constexpr std::string_view kEtc = "/etc/";

// Takes the first line off the front of `text`.
std::string_view takeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

bool isPlain(std::string_view path) {
  return path.starts_with(kEtc) && !path.ends_with('/') && path.find("//") == path.npos &&
         (std::string(path) + "/").find("/../") == std::string::npos;
}

std::optional<ShippedName> named(std::string_view path, std::string_view md5) {
  constexpr size_t kDigits = 32;
  if (!isPlain(path) || md5.size() != kDigits) return std::nullopt;
  return ShippedName{std::string(path), std::string(md5)};
}

std::string readAt(int root, const std::string& path) {
  const Fd fd = linux::openInRoot(root, path, O_RDONLY);
  return fd ? base::readOpenFile(fd.get(), path, kMaxStatus).value_or("") : std::string();
}

std::optional<ShippedFile> unchanged(int root, const ShippedName& name) {
  const Fd fd = linux::openInRoot(root, name.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) || (status.st_mode & S_IROTH) == 0) return std::nullopt;
  auto content = base::readOpenFile(fd.get(), name.path, ShippedFile::kMaxBytes);
  if (!content || base::md5Hex(*content) != name.md5) return std::nullopt;
  return ShippedFile{name.path.substr(1), *std::move(content), status.st_mtim.tv_sec};
}

}  // namespace

// " /etc/x DIGEST", followed by a word if the package no longer has the file.
std::vector<ShippedName> namesInDpkgStatus(std::string_view status) {
  std::vector<ShippedName> names;
  bool installed = false;
  bool listed = false;
  while (!status.empty()) {
    const std::string_view line = takeLine(status);
    if (line.starts_with("Package:")) installed = false;
    if (line.starts_with("Status:")) installed = line.ends_with(" installed");
    if (!line.starts_with(' ')) listed = line.starts_with("Conffiles:");
    if (!installed || !listed || !line.starts_with(' ')) continue;
    const size_t space = line.rfind(' ');
    if (auto name = named(line.substr(1, std::max<size_t>(space, 1) - 1), line.substr(space + 1))) {
      names.push_back(*std::move(name));
    }
  }
  return names;
}

std::vector<ShippedName> namesInUcfHashes(std::string_view hashes) {
  std::vector<ShippedName> names;
  while (!hashes.empty()) {
    const std::string_view line = takeLine(hashes);
    const size_t space = line.find("  ");
    if (space == line.npos) continue;
    if (auto name = named(line.substr(space + 2), line.substr(0, space))) {
      names.push_back(*std::move(name));
    }
  }
  return names;
}

std::optional<std::vector<ShippedFile>> shippedEtc(const std::string& root) {
  const std::string top_name = root.empty() ? "/" : root;
  const Fd top(::open(top_name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string status = top ? readAt(top.get(), "/var/lib/dpkg/status") : std::string();
  if (status.empty()) return std::nullopt;
  std::map<std::string, ShippedName> by_path;
  for (ShippedName& each : namesInUcfHashes(readAt(top.get(), "/var/lib/ucf/hashfile")))
    by_path[each.path] = std::move(each);
  for (ShippedName& each : namesInDpkgStatus(status))
    by_path[each.path] = std::move(each);
  std::vector<ShippedFile> files;
  size_t bytes = 0;
  for (const auto& [path, name] : by_path) {
    auto file = unchanged(top.get(), name);
    if (!file || bytes + file->content.size() > kMostShippedBytes) continue;
    if (files.size() == kMostShipped) break;
    bytes += file->content.size();
    files.push_back(*std::move(file));
  }
  return files;
}

}  // namespace cloister::runtime
