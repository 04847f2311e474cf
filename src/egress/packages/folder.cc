// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include <dirent.h>

#include "base/clock.h"
#include "egress/packages/tarball_scan.h"

namespace cloister::egress {
namespace {

constexpr size_t kPiece = size_t{64} << 10;

// The name of a tarball as `npm pack` makes it: "@scope/demo" becomes "scope-demo-".
std::string packedPrefix(std::string_view name) {
  std::string prefix;
  for (const char c : name) {
    if (c == '@') continue;
    prefix += c == '/' ? '-' : c;
  }
  return prefix + "-";
}

// The package.json of a tarball.
Result<base::json::object> manifestIn(const Fd& fd) {
  constexpr size_t kStep = size_t{16} << 10;
  TarballScan scan;
  while (scan.manifest().empty()) {
    const std::string piece = TRY(PackageFolder::read(fd));
    if (piece.empty()) break;
    for (size_t at = 0; at < piece.size(); at += kStep)
      TRY(scan.feed(std::string_view(piece).substr(at, kStep)));
  }
  if (scan.manifest().empty()) return fail(Code::kInvalid, "it has no package.json");
  const auto value = TRY(base::parseJson(scan.manifest()));
  if (!value.is_object()) return fail(Code::kInvalid, "its package.json is no object");
  return value.get_object();
}

}  // namespace

Result<std::shared_ptr<PackageFolder>> PackageFolder::open(const std::string& path) {
  Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return failErrno("opening the folder of packages " + path);
  return std::make_shared<PackageFolder>(std::move(folder));
}

Result<std::vector<std::string>> PackageFolder::names() const {
  Fd again(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return failErrno("listing the folder of packages");
  DIR* listing = ::fdopendir(again.get());
  if (listing == nullptr) return failErrno("listing the folder of packages");
  std::ignore = again.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing)) {
    if (names.size() >= kMostFiles) break;
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(listing);
  std::ranges::sort(names);
  return names;
}

Result<PackageFolder::File> PackageFolder::file(const std::string& name) const {
  if (name.empty() || name.find('/') != std::string::npos || name.front() == '.') {
    return fail(Code::kNotFound, "no file of a package");
  }
  Fd fd(::openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return fail(Code::kNotFound, "the folder of packages does not have " + name);
  struct stat state{};
  if (::fstat(fd.get(), &state) != 0) return failErrno("looking at " + name);
  if (!S_ISREG(state.st_mode)) return fail(Code::kNotFound, name + " is no file");
  constexpr int64_t kMicros = 1'000'000;
  return File{.fd = std::move(fd),
              .size = static_cast<uint64_t>(state.st_size),
              .changed = state.st_mtim.tv_sec * kMicros};
}

Result<std::string> PackageFolder::read(const Fd& fd) {
  std::string piece(kPiece, '\0');
  const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
  if (got < 0) return failErrno("reading a file of a package");
  piece.resize(static_cast<size_t>(got));
  return piece;
}

Result<PypiProject> PackageFolder::pypi(std::string_view name) const {
  PypiProject project{.name = std::string(name), .files = {}, .bytes = sizeof(PypiProject)};
  for (const std::string& each : TRY(names())) {
    const auto read = readPypiFileName(each, name);
    if (!read) continue;
    const auto file = this->file(each);
    if (!file) continue;
    PypiFile made;
    made.filename = each;
    made.version = read->version;
    made.sdist = read->sdist;
    made.size = file->size;
    made.published = file->changed;
    project.bytes += sizeof made + each.size();
    project.files.push_back(std::move(made));
  }
  if (project.files.empty()) return fail(Code::kNotFound, "the folder of packages has none");
  return project;
}

Result<NpmPackage> PackageFolder::npm(std::string_view name) const {
  const std::string prefix = packedPrefix(name);
  base::json::object versions;
  base::json::object times;
  std::string latest;
  std::optional<model::NpmVersion> highest;
  for (const std::string& each : TRY(names())) {
    if (!each.starts_with(prefix) || !each.ends_with(".tgz")) continue;
    const auto file = this->file(each);
    auto manifest = file ? manifestIn(file->fd) : std::unexpected(file.error());
    if (!manifest) continue;
    const auto text = [&](const char* member) {
      const auto* value = manifest->if_contains(member);
      return value != nullptr && value->is_string() ? std::string(value->get_string())
                                                    : std::string();
    };
    const std::string version = text("version");
    const auto read = model::NpmVersion::parse(version);
    if (text("name") != name || !read) continue;
    (*manifest)["dist"] = base::json::object{{"tarball", "/" + each}};
    versions[version] = *std::move(manifest);
    times[version] = base::formatTime(file->changed);
    if (!highest || *highest < *read) {
      highest = read;
      latest = version;
    }
  }
  if (versions.empty()) return fail(Code::kNotFound, "the folder of packages has none");
  const base::json::value document =
      base::json::object{{"name", name},
                         {"versions", std::move(versions)},
                         {"time", std::move(times)},
                         {"dist-tags", base::json::object{{"latest", latest}}}};
  return readPackument(document, name, {.tls = false, .host = "folder", .port = 80, .target = "/"});
}

}  // namespace cloister::egress
