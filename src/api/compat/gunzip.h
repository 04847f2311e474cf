// SPDX-License-Identifier: Apache-2.0
// Gunzip: decodes a gzip body (RFC 1952) while it arrives. The bytes are hostile: a piece of input
// gives pieces of bounded size, and the caller bounds their sum.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <boost/beast/zlib/inflate_stream.hpp>
#include <boost/crc.hpp>

#include "base/result.h"

namespace cloister::api::compat {

class Gunzip {
 public:
  // More input.
  void feed(std::string_view bytes) { held_ += bytes; }
  // The next decoded bytes, at most 64 KiB; "": more input is needed, or done(). kInvalid for
  // another format.
  Result<std::string> next();
  // The stream's end was seen, and its length was right.
  [[nodiscard]] bool done() const { return state_ == State::kDone; }

 private:
  enum class State : uint8_t { kHead, kBody, kTail, kDone };

  Result<bool> takeHead();
  Result<bool> takeTail();

  State state_ = State::kHead;
  std::string held_;
  boost::beast::zlib::inflate_stream inflate_;
  uint32_t size_ = 0;  // modulo 2³²
  boost::crc_32_type crc_;
};

}  // namespace cloister::api::compat
