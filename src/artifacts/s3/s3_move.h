// SPDX-License-Identifier: Apache-2.0
// Moves the blobs of a local directory into a bucket: the files and their names are the same there.
// For the first start with a bucket. Blocking.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "artifacts/keyring.h"
#include "artifacts/s3/s3_client.h"
#include "base/result.h"

namespace cloister::artifacts {

// `folderOf` gives the beginning of the names of a tenant's objects. A file goes once its object is
// there, so that an interrupted move goes on at the next start. A file above `part_bytes` is sent
// in parts. Gives the number of moved blobs.
Result<uint64_t> moveLocalBlobs(const Keyring& keyring, S3Client& client, uint64_t part_bytes,
                                const std::function<std::string(const TenantKeys&)>& folderOf);

// The size of a part for a file: at least `part_bytes`, and so large that no store refuses the
// number of parts.
uint64_t partSizeOf(uint64_t file_size, uint64_t part_bytes);

}  // namespace cloister::artifacts
