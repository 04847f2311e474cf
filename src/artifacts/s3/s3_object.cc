// SPDX-License-Identifier: Apache-2.0
#include "artifacts/s3/s3_object.h"

#include <algorithm>
#include <utility>

#include "artifacts/blobs.h"

namespace cloister::artifacts {
namespace {

bool covers(const S3Client::Range& range, uint64_t offset, size_t length) {
  return offset >= range.offset && offset - range.offset <= range.bytes.size() &&
         length <= range.bytes.size() - (offset - range.offset);
}

std::string cutOut(const S3Client::Range& range, uint64_t offset, size_t length) {
  return range.bytes.substr(offset - range.offset, length);
}

}  // namespace

Result<std::unique_ptr<S3Object>> S3Object::open(S3Client& client, std::string key) {
  auto tail = TRY(client.tail(key, kReadAtOnce));
  return std::unique_ptr<S3Object>(new S3Object(client, std::move(key), std::move(tail)));
}

// Reads ahead, and more with each read that goes on within or at the end of the last window. A
// header is read alone: it tells nothing about later reads.
Result<std::string> S3Object::read(uint64_t offset, size_t length) {
  constexpr size_t kHeaderMost = 1024;
  if (offset >= size()) return std::string();
  length = std::min<uint64_t>(length, size() - offset);
  if (covers(tail_, offset, length)) return cutOut(tail_, offset, length);
  if (covers(window_, offset, length)) return cutOut(window_, offset, length);
  const bool onwards = offset > window_.offset && offset - window_.offset <= window_.bytes.size();
  ahead_ = onwards ? std::min(2 * ahead_, kMostAhead) : kFirstAhead;
  const size_t ahead = length <= kHeaderMost ? length : std::max(length, ahead_);
  window_ = TRY(client_.get(key_, offset, std::min<uint64_t>(ahead, size() - offset)));
  return cutOut(window_, offset, length);
}

}  // namespace cloister::artifacts
