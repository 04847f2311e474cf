// SPDX-License-Identifier: Apache-2.0
#include "api/compat/gunzip.h"

#include <algorithm>

namespace cloister::api::compat {
namespace {

constexpr size_t kPiece = size_t{64} << 10;
constexpr size_t kHead = 10;
constexpr size_t kTail = 8;
constexpr size_t kMaxHead = 65'536;
constexpr uint8_t kExtra = 4;
constexpr uint8_t kName = 8;
constexpr uint8_t kComment = 16;
constexpr uint8_t kHeadCrc = 2;

std::unexpected<Error> malformed() {
  return fail(Code::kInvalid, "request body: not a gzip stream, as Content-Encoding says");
}

uint32_t little(std::string_view bytes, size_t count) {
  uint32_t value = 0;
  for (size_t i = count; i-- > 0;)
    value = (value << 8) | static_cast<uint8_t>(bytes[i]);
  return value;
}

}  // namespace

// False: more input is needed.
Result<bool> Gunzip::takeHead() {
  if (held_.size() < kHead) return false;
  if (!held_.starts_with("\x1f\x8b\x08")) return malformed();
  const auto flags = static_cast<uint8_t>(held_[3]);
  size_t at = kHead;
  if ((flags & kExtra) != 0) {
    if (held_.size() < at + 2) return false;
    at += 2 + little(std::string_view(held_).substr(at), 2);
  }
  for (const uint8_t text : {kName, kComment}) {
    if ((flags & text) == 0) continue;
    const size_t end = held_.find('\0', std::min(at, held_.size()));
    if (end == std::string::npos)
      return held_.size() > kMaxHead ? malformed() : Result<bool>(false);
    at = end + 1;
  }
  if ((flags & kHeadCrc) != 0) at += 2;
  if (held_.size() < at) return false;
  held_.erase(0, at);
  inflate_.reset();
  state_ = State::kBody;
  return true;
}

Result<bool> Gunzip::takeTail() {
  if (held_.size() < kTail) return false;
  const std::string_view tail = held_;
  if (little(tail, 4) != crc_.checksum() || little(tail.substr(4), 4) != size_) {
    return malformed();
  }
  held_.erase(0, kTail);
  state_ = State::kDone;
  return true;
}

Result<std::string> Gunzip::next() {
  if (state_ == State::kHead && !TRY(takeHead())) return std::string();
  if (state_ == State::kBody) {
    std::string piece(kPiece, '\0');
    boost::beast::zlib::z_params params;
    params.next_in = held_.data();
    params.avail_in = held_.size();
    params.next_out = piece.data();
    params.avail_out = piece.size();
    boost::system::error_code error;
    inflate_.write(params, boost::beast::zlib::Flush::sync, error);
    const bool end = error == boost::beast::zlib::error::end_of_stream;
    if (error && !end && error != boost::beast::zlib::error::need_buffers) return malformed();
    piece.resize(piece.size() - params.avail_out);
    held_.erase(0, held_.size() - params.avail_in);
    size_ += static_cast<uint32_t>(piece.size());
    crc_.process_bytes(piece.data(), piece.size());
    if (end) state_ = State::kTail;
    if (!piece.empty()) return piece;
  }
  if (state_ == State::kTail) TRY(takeTail());
  if (state_ == State::kDone && !held_.empty()) return malformed();
  return std::string();
}

}  // namespace cloister::api::compat
