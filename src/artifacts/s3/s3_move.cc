// SPDX-License-Identifier: Apache-2.0
#include "artifacts/s3/s3_move.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/fd.h"
#include "base/file.h"

namespace cloister::artifacts {
namespace {

bool isHexName(std::string_view name, size_t digits) {
  return name.size() == digits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<> sendParts(S3Client& client, const std::string& key, int fd, uint64_t size, uint64_t part) {
  const std::string upload = TRY(client.begin(key));
  std::vector<std::string> tags;
  for (uint64_t at = 0; at < size; at += part) {
    auto tag = client.put(key, upload, static_cast<uint32_t>(tags.size() + 1),
                          {fd, at, std::min(part, size - at)});
    if (!tag) {
      std::ignore = client.abort(key, upload);
      return std::unexpected(std::move(tag).error());
    }
    tags.push_back(*std::move(tag));
  }
  return client.complete(key, upload, tags);
}

Result<> moveFile(S3Client& client, const std::string& path, const std::string& key,
                  uint64_t part_bytes) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return failErrno("opening " + path);
  const auto size = static_cast<uint64_t>(status.st_size);
  TRY(size > part_bytes ? sendParts(client, key, file.get(), size, partSizeOf(size, part_bytes))
                        : client.put(key, FilePart{file.get(), 0, size}));
  if (::unlink(path.c_str()) != 0) return failErrno("removing " + path);
  return {};
}

}  // namespace

uint64_t partSizeOf(uint64_t file_size, uint64_t part_bytes) {
  constexpr uint64_t kMostParts = 1000;  // Amazon takes ten times as many; others do not
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const uint64_t least = (file_size + kMostParts - 1) / kMostParts;
  return std::max(part_bytes, (least + kMiB - 1) / kMiB * kMiB);
}

Result<uint64_t> moveLocalBlobs(const Keyring& keyring, S3Client& client, uint64_t part_bytes,
                                const std::function<std::string(const TenantKeys&)>& folderOf) {
  constexpr size_t kDirDigits = 2;
  constexpr size_t kFileDigits = 62;
  uint64_t moved = 0;
  for (const auto& [tenant, keys] : keyring.tenants()) {
    for (const std::string& dir : TRY(base::listDir(keys->dir))) {
      if (!isHexName(dir, kDirDigits)) continue;
      const std::string path = keys->dir + "/" + dir;
      for (const std::string& file : TRY(base::listDir(path))) {
        if (!isHexName(file, kFileDigits)) continue;
        const std::string key = folderOf(*keys) + dir + "/" + file;
        if (auto one = moveFile(client, path + "/" + file, key, part_bytes); !one) {
          return std::unexpected(
              std::move(one).error().within("moving the blobs of the state directory into S3"));
        }
        moved++;
      }
      ::rmdir(path.c_str());
    }
  }
  return moved;
}

}  // namespace cloister::artifacts
