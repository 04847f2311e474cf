// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/incoming.h"

#include <algorithm>
#include <utility>

namespace cloister::egress {
namespace {

constexpr size_t kHeadPiece = size_t{8} << 10;
constexpr size_t kBodyPiece = size_t{64} << 10;

std::unexpected<Error> gone() {
  return fail(Code::kUnavailable, "the connection ended");
}

}  // namespace

Task<bool> Incoming::more(size_t most) {
  const auto [error, count] = co_await connection_.read(connection_.inside(), bytes_, most);
  co_return !error && count > 0;
}

Task<Result<RequestHead>> Incoming::head() {
  chunks_.reset();
  left_ = 0;
  if (any_) connection_.expireIn(connection_.limits().idle);
  if (bytes_.empty() && !co_await connection_.awaitRequest()) co_return gone();
  const base::Monotonic deadline = base::monotonicNow() + connection_.limits().greeting;
  for (;;) {
    const auto end = CO_TRY(headEnd(bytes_));
    if (end) {
      RequestHead head = CO_TRY(readHead(std::string_view(bytes_).substr(0, *end)));
      bytes_.erase(0, *end);
      any_ = true;
      left_ = head.content_length.value_or(0);
      if (head.chunked) chunks_.emplace();
      connection_.expireIn(connection_.limits().idle);
      co_return head;
    }
    // Slow bytes do not postpone this deadline.
    const auto left = std::chrono::duration_cast<Millis>(deadline - base::monotonicNow());
    connection_.expireIn(std::max(left, Millis(0)));
    if (!co_await more(kHeadPiece)) co_return gone();
  }
}

bool Incoming::bodyDone() const {
  return chunks_ ? chunks_->done() : left_ == 0;
}

Task<Result<std::string>> Incoming::piece() {
  std::string piece;
  while (!bodyDone() && piece.empty()) {
    if (bytes_.empty() && !co_await more(kBodyPiece)) co_return gone();
    size_t used = 0;
    if (chunks_) {
      used = CO_TRY(chunks_->feed(bytes_, piece));
    } else {
      used = std::min<uint64_t>(left_, bytes_.size());
      piece.assign(bytes_, 0, used);
      left_ -= used;
    }
    bytes_.erase(0, used);
    if (bytes_.empty()) bytes_ = {};
  }
  co_return piece;
}

Task<void> Incoming::linger() {
  constexpr size_t kMost = size_t{4} << 20;
  if (co_await connection_.sayEnd(connection_.inside())) co_return;
  const base::Monotonic deadline = base::monotonicNow() + connection_.limits().linger;
  for (size_t dropped = 0; dropped < kMost;) {
    bytes_ = {};
    const auto left = std::chrono::duration_cast<Millis>(deadline - base::monotonicNow());
    connection_.expireIn(std::max(left, Millis(0)));
    const auto [failed, count] =
        co_await connection_.read(connection_.inside(), bytes_, kHeadPiece);
    if (failed || count == 0) co_return;
    dropped += count;
  }
}

}  // namespace cloister::egress
