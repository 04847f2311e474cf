// SPDX-License-Identifier: Apache-2.0
// WebSocket frames (RFC 6455 §5) of a connection to a host that gets a secret, or of a sandbox with
// placeholders. No extension is agreed on, so frames with reserved bits are malformed. Bytes are
// hostile. Pure; not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "redact/matcher.h"

namespace cloister::egress {

// Reads frames piece by piece.
class FrameReader {
 public:
  static constexpr size_t kMaxControl = 125;

  struct Piece {
    uint8_t opcode = 0;   // of the frame
    bool final = false;   // FIN of the frame
    bool begins = false;  // the piece is the first of its frame
    bool ends = false;    // the piece is the last of its frame
    std::string payload;  // unmasked
  };

  // The next piece of the front of `bytes`, whose used bytes are removed; nullopt: more are needed.
  // A control frame comes whole. kInvalid: malformed.
  Result<std::optional<Piece>> next(std::string_view& bytes);

 private:
  Result<bool> readHead(std::string_view& bytes);
  [[nodiscard]] size_t headSize() const;

  std::string head_;  // of the frame, as far as it came
  bool in_frame_ = false;
  uint8_t opcode_ = 0;
  bool final_ = false;
  bool begins_ = false;
  bool masked_ = false;
  std::array<unsigned char, 4> mask_{};
  uint64_t left_ = 0;     // of the payload
  size_t at_ = 0;         // in the mask
  bool message_ = false;  // between the frames of a message
  std::string control_;   // payload of a control frame, as far as it came
};

// Frames of the host, rewritten without the secrets. A long frame becomes several.
class CleanFrames {
 public:
  explicit CleanFrames(std::shared_ptr<const redact::Patterns> values);
  // → bytes for the sandbox. kInvalid: malformed.
  Result<std::string> feed(std::string_view bytes);

 private:
  void take(FrameReader::Piece piece, std::string& out);
  void flush(bool last, std::string& out);

  std::shared_ptr<const redact::Patterns> values_;
  FrameReader reader_;
  std::optional<redact::Stream> message_;
  uint8_t opcode_ = 0;   // of the next frame that is written
  std::string payload_;  // to be written
};

// Frames of the sandbox, searched for placeholders.
class WatchedFrames {
 public:
  explicit WatchedFrames(std::shared_ptr<const redact::Patterns> placeholders);
  // → the name of the secret whose placeholder is in the frames; "": none. kInvalid: malformed.
  Result<std::string> feed(std::string_view bytes);

 private:
  std::shared_ptr<const redact::Patterns> placeholders_;
  FrameReader reader_;
  std::optional<redact::Stream> message_;
};

}  // namespace cloister::egress
