// SPDX-License-Identifier: Apache-2.0
#include "artifacts/blobs.h"

#include <utility>

#include "async/awaiting.h"

namespace cloister::artifacts {

Task<Result<std::string>> BlobWriter::finish() {
  std::string digest = CO_TRY(co_await seal());
  CO_TRY(co_await keep());
  co_return digest;
}

Task<Result<>> Blobs::removed(BlobName name) {
  co_return co_await async::callback<Result<>>(
      [this, name = std::move(name)](std::function<void(Result<>)> done) {
        remove(name, std::move(done));
      });
}

bool isDigest(std::string_view text) {
  constexpr size_t kDigits = 64;
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace cloister::artifacts
