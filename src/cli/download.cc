// SPDX-License-Identifier: Apache-2.0
#include "cli/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/crypto.h"
#include "base/file.h"
#include "cli/api.h"
#include "cli/render/terminal.h"
#include "cli/transfer.h"

namespace cloister::cli {
namespace {

// Relative, and every component is a name.
bool isPlain(std::string_view path) {
  if (path.find('\0') != std::string_view::npos) return false;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view name = path.substr(at, end - at);
    if (name.empty() || name == "." || name == "..") return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

Result<> fetchArtifact(net::BlockingClient& client, const json::object& artifact, int file) {
  const std::string path = textOf(artifact, "path");
  const std::string id = textOf(artifact, "id");
  base::Sha256 digest;
  const auto keep = [&](std::string_view piece) -> Result<> {
    digest.update(piece);
    if (!writeTo(file, piece)) return failErrno("writing " + printable(path));
    return {};
  };
  TRY(download(client, "/v1/artifacts/" + net::percentEncode(id) + "/content", path, keep));
  if (digest.hex() != textOf(artifact, "sha256")) {
    return fail(Code::kInternal,
                "downloading " + printable(path) + ": its digest is not the one recorded");
  }
  return {};
}

Result<Fd> createBelow(const std::string& dir, std::string_view path) {
  const std::string shown = dir + "/" + printable(path);
  if (!isPlain(path)) {
    return fail(Code::kInvalid, "writing " + shown + ": not a safe relative path");
  }
  Fd at(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!at) return failErrno("opening " + dir);
  for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/')) {
    const std::string name(path.substr(0, slash));
    if (::mkdirat(at.get(), name.c_str(), 0755) != 0 && errno != EEXIST) {
      return failErrno("making a directory for " + shown);
    }
    Fd next(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return failErrno("entering a directory for " + shown);
    at = std::move(next);
    path.remove_prefix(slash + 1);
  }
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Fd file(::openat(at.get(), std::string(path).c_str(), kFlags, 0644));
  if (!file) return failErrno("creating " + shown);
  return file;
}

Result<size_t> downloadArtifacts(net::BlockingClient& client, const json::object& execution,
                                 const std::string& dir) {
  TRY(base::makeDirs(dir));
  size_t count = 0;
  for (const json::value& artifact : arrayOf(execution, "artifacts")) {
    if (!artifact.is_object()) continue;
    const json::object& one = artifact.get_object();
    const Fd file = TRY(createBelow(dir, textOf(one, "path")));
    TRY(fetchArtifact(client, one, file.get()));
    ++count;
  }
  return count;
}

}  // namespace cloister::cli
