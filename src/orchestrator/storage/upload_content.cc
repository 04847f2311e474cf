// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/storage/upload_content.h"

#include <algorithm>

#include "base/content_type.h"

namespace cloister::orchestrator {
namespace {

constexpr size_t kHeadBytes = 512;

}  // namespace

Result<> UploadContent::write(std::string_view bytes) {
  const bool fits = bytes.size() <= most_ - std::min(most_, size_);
  if (!std::exchange(good_, false)) return fail(Code::kInternal, "uploading: it had failed before");
  if (!fits) {
    return fail(Code::kTooLarge, "uploading: at most " + std::to_string(most_) +
                                     " bytes are taken (artifacts.max_mb, artifacts.quota_mb)");
  }
  TRY(writer_->write(bytes));
  size_ += bytes.size();
  if (head_.size() < kHeadBytes) head_ += bytes.substr(0, kHeadBytes);
  good_ = true;
  return {};
}

boost::asio::awaitable<Result<model::ArtifactRef>> UploadContent::finish(BlobKeeper& blobs,
                                                                         std::string tenant) {
  good_ = false;
  model::ArtifactRef ref;
  ref.path = path_;
  ref.size = size_;
  ref.sha256 = CO_TRY(co_await blobs.keep(std::move(tenant), *writer_));
  ref.content_type = base::sniffContentType(path_, head_);
  co_return ref;
}

}  // namespace cloister::orchestrator
