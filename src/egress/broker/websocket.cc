// SPDX-License-Identifier: Apache-2.0
#include "egress/broker/websocket.h"

#include <algorithm>
#include <utility>

#include "base/big_endian.h"

namespace cloister::egress {
namespace {

constexpr uint8_t kContinuation = 0;
constexpr uint8_t kBinary = 2;
constexpr uint8_t kFirstControl = 8;
constexpr uint8_t kPong = 10;
constexpr unsigned char kFin = 0x80;
constexpr unsigned char kReserved = 0x70;
constexpr unsigned char kOpcode = 0x0f;
constexpr unsigned char kMasked = 0x80;
constexpr unsigned char kLength = 0x7f;
constexpr unsigned char kLength16 = 126;
constexpr unsigned char kLength64 = 127;
constexpr size_t kHead = 2;
constexpr size_t kMaskSize = 4;

std::unexpected<Error> malformedFrame(std::string_view why) {
  return fail(Code::kInvalid, "the WebSocket is malformed: " + std::string(why));
}

bool isControl(uint8_t opcode) {
  return opcode >= kFirstControl;
}

void appendFrame(uint8_t opcode, bool final, std::string_view payload, std::string& out) {
  out += static_cast<char>(opcode | (final ? kFin : 0));
  const auto number = [&](int bytes) {
    for (int i = bytes - 1; i >= 0; --i)
      out += static_cast<char>(static_cast<uint64_t>(payload.size()) >> (8 * i));
  };
  if (payload.size() < kLength16) {
    number(1);
  } else if (payload.size() <= UINT16_MAX) {
    out += static_cast<char>(kLength16);
    number(2);
  } else {
    out += static_cast<char>(kLength64);
    number(8);
  }
  out += payload;
}

}  // namespace

size_t FrameReader::headSize() const {
  if (head_.size() < kHead) return kHead;
  const auto second = static_cast<unsigned char>(head_[1]);
  size_t size = kHead + ((second & kMasked) != 0 ? kMaskSize : 0);
  if ((second & kLength) == kLength16) size += sizeof(uint16_t);
  if ((second & kLength) == kLength64) size += sizeof(uint64_t);
  return size;
}

// False: more bytes are needed.
Result<bool> FrameReader::readHead(std::string_view& bytes) {
  while (head_.size() < headSize()) {
    if (bytes.empty()) return false;
    head_ += bytes.front();
    bytes.remove_prefix(1);
  }
  base::BigEndianReader reader(head_);
  const uint8_t first = reader.u8();
  const uint8_t second = reader.u8();
  opcode_ = first & kOpcode;
  final_ = (first & kFin) != 0;
  masked_ = (second & kMasked) != 0;
  left_ = second & kLength;
  if (left_ == kLength16) {
    left_ = reader.u16();
  } else if (left_ == kLength64) {
    const uint64_t high = reader.u32();
    left_ = high << 32 | reader.u32();
  }
  mask_ = {};
  for (unsigned char& byte : mask_)
    byte = masked_ ? reader.u8() : 0;
  head_.clear();
  if ((first & kReserved) != 0) return malformedFrame("a reserved bit is set");
  const bool known = opcode_ <= kBinary || (isControl(opcode_) && opcode_ <= kPong);
  if (!known) return malformedFrame("a frame is of an unknown kind");
  if (isControl(opcode_) && (!final_ || left_ > kMaxControl)) {
    return malformedFrame("a control frame is too long, or cut");
  }
  if (!isControl(opcode_)) {
    if ((opcode_ == kContinuation) != message_) return malformedFrame("a message is interrupted");
    message_ = !final_;
  }
  in_frame_ = begins_ = true;
  at_ = 0;
  return true;
}

Result<std::optional<FrameReader::Piece>> FrameReader::next(std::string_view& bytes) {
  if (!in_frame_ && !TRY(readHead(bytes))) return std::nullopt;
  const size_t count = std::min<uint64_t>(left_, bytes.size());
  if (count == 0 && left_ > 0) return std::nullopt;
  std::string payload(bytes.substr(0, count));
  bytes.remove_prefix(count);
  for (char& c : payload)
    c = static_cast<char>(static_cast<unsigned char>(c) ^ mask_[at_++ % kMaskSize]);
  left_ -= count;
  in_frame_ = left_ > 0;
  if (isControl(opcode_)) {
    control_ += payload;
    if (in_frame_) return std::nullopt;
    payload = std::exchange(control_, {});
    begins_ = true;
  }
  return Piece{.opcode = opcode_,
               .final = final_,
               .begins = std::exchange(begins_, false),
               .ends = !in_frame_,
               .payload = std::move(payload)};
}

CleanFrames::CleanFrames(std::shared_ptr<const redact::Patterns> values)
    : values_(std::move(values)) {}

Result<std::string> CleanFrames::feed(std::string_view bytes) {
  std::string out;
  while (auto piece = TRY(reader_.next(bytes)))
    take(*std::move(piece), out);
  flush(false, out);
  return out;
}

void CleanFrames::take(FrameReader::Piece piece, std::string& out) {
  if (isControl(piece.opcode)) {
    std::string clean = values_->redacted(piece.payload);
    clean.resize(std::min(clean.size(), FrameReader::kMaxControl));
    flush(false, out);
    return appendFrame(piece.opcode, true, clean, out);
  }
  if (piece.begins && piece.opcode != kContinuation) {
    opcode_ = piece.opcode;
    message_.emplace(values_);
  }
  payload_ += message_->feed(piece.payload);
  if (piece.ends && piece.final) {
    payload_ += message_->finish();
    message_.reset();
    flush(true, out);
  }
}

// Writes what is there. A message needs a last frame, even an empty one.
void CleanFrames::flush(bool last, std::string& out) {
  if (!last && payload_.empty()) return;
  appendFrame(opcode_, last, payload_, out);
  opcode_ = kContinuation;
  payload_.clear();
}

WatchedFrames::WatchedFrames(std::shared_ptr<const redact::Patterns> placeholders)
    : placeholders_(std::move(placeholders)) {}

Result<std::string> WatchedFrames::feed(std::string_view bytes) {
  while (auto piece = TRY(reader_.next(bytes))) {
    if (isControl(piece->opcode)) {
      if (std::string name = placeholders_->find(piece->payload); !name.empty()) return name;
      continue;
    }
    if (piece->begins && piece->opcode != kContinuation) message_.emplace(placeholders_);
    std::ignore = message_->feed(piece->payload);
    if (piece->ends && piece->final) std::ignore = message_->finish();
    if (message_->hits() > 0) return message_->firstName();
  }
  return std::string();
}

}  // namespace cloister::egress
