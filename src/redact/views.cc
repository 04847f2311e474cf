// SPDX-License-Identifier: Apache-2.0
#include "redact/views.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

namespace cloister::redact {

Follower::Follower(const Automaton& automaton)
    : automaton_(&automaton),
      begins_(std::bit_ceil(size_t{automaton.longest()} + 1)),
      mask_(begins_.size() - 1) {}

void Follower::take(unsigned char byte, uint64_t begin, uint64_t end, std::vector<Extent>& found) {
  // Terminals and servers make CR LF of LF, so no pattern has a CR and no CR ends a match.
  if (byte == '\r') return;
  if (idle() && !automaton_->begins(byte)) return;
  begins_[count_++ & mask_] = begin;
  state_ = automaton_->step(state_, byte);
  const uint16_t pattern = automaton_->match(state_);
  if (pattern == Automaton::kNoMatch) return;
  const uint64_t first = beginOf(automaton_->length(pattern));
  if (!found.empty() && found.back().begin <= first && first < found.back().end) {
    found.back().end = std::max(found.back().end, end);
  } else {
    found.push_back({first, end, pattern});
  }
}

uint64_t Follower::beginOf(uint32_t length) const {
  return begins_[(count_ - length) & mask_];
}

uint64_t Follower::earliest() const {
  return idle() ? kNowhere : beginOf(automaton_->depth(state_));
}

namespace {

// The value of a digit; 255 for other bytes.
using Digits = std::array<uint8_t, 256>;

constexpr Digits kHexDigits = [] {
  Digits digits{};
  digits.fill(255);
  for (uint8_t i = 0; i < 16; ++i) {
    digits[static_cast<unsigned char>("0123456789abcdef"[i])] = i;
    digits[static_cast<unsigned char>("0123456789ABCDEF"[i])] = i;
  }
  return digits;
}();

// Both alphabets of RFC 4648.
constexpr Digits kBase64Digits = [] {
  Digits digits{};
  digits.fill(255);
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (uint8_t i = 0; i < 64; ++i)
    digits[static_cast<unsigned char>(kAlphabet[i])] = i;
  digits['-'] = 62;
  digits['_'] = 63;
  return digits;
}();

// Between digits, as programs that print many of them break lines and set bytes apart.
constexpr std::string_view kHexSeparators = "\r\n :-x\\";
constexpr std::string_view kBase64Separators = "\r\n";
constexpr size_t kMostSeparators = 2;  // in a row

// The bytes as they are.
class RawView final : public View {
 public:
  explicit RawView(const Automaton& automaton) : follower_(automaton) {}

  void feed(std::string_view bytes, uint64_t offset, std::vector<Extent>& found) override {
    for (const char each : bytes) {
      follower_.take(static_cast<unsigned char>(each), offset, offset + 1, found);
      ++offset;
    }
  }
  void end(std::vector<Extent>&) override {}
  [[nodiscard]] uint64_t earliest() const override { return follower_.earliest(); }
  void reset() override { follower_.reset(); }

 private:
  Follower follower_;
};

// Percent-encoding, of URLs and of forms, where "+" is a space. All other bytes are themselves.
class PercentView final : public View {
 public:
  explicit PercentView(const Automaton& folded) : follower_(folded) {}

  void feed(std::string_view bytes, uint64_t offset, std::vector<Extent>& found) override {
    for (const char each : bytes) {
      next(static_cast<unsigned char>(each), offset, found);
      ++offset;
    }
  }
  void end(std::vector<Extent>& found) override { giveUp(found); }
  [[nodiscard]] uint64_t earliest() const override {
    return std::min(follower_.earliest(), held_ == 0 ? kNowhere : begin_);
  }
  void reset() override {
    follower_.reset();
    held_ = 0;
  }

 private:
  void next(unsigned char byte, uint64_t at, std::vector<Extent>& found) {
    if (held_ != 0 && kHexDigits[byte] == 255) giveUp(found);
    if (held_ == 2) {
      emit(static_cast<unsigned char>(kHexDigits[first_] * 16 + kHexDigits[byte]), begin_, at + 1,
           found);
      held_ = 0;
    } else if (held_ == 1) {
      first_ = byte;
      held_ = 2;
    } else if (byte == '%') {
      begin_ = at;
      held_ = 1;
    } else {
      emit(byte, at, at + 1, found);
    }
  }
  // The held bytes are no escape.
  void giveUp(std::vector<Extent>& found) {
    if (held_ >= 1) emit('%', begin_, begin_ + 1, found);
    if (held_ == 2) emit(first_, begin_ + 1, begin_ + 2, found);
    held_ = 0;
  }
  void emit(unsigned char byte, uint64_t begin, uint64_t end, std::vector<Extent>& found) {
    follower_.take(byte == '+' ? ' ' : byte, begin, end, found);
  }

  Follower follower_;
  size_t held_ = 0;
  uint64_t begin_ = 0;
  unsigned char first_ = 0;
};

// Turns code units of UTF-16 into UTF-8, the coding of the values.
class Utf16 {
 public:
  explicit Utf16(const Automaton& automaton) : follower_(automaton) {}

  void take(char16_t unit, uint64_t begin, uint64_t end, std::vector<Extent>& found) {
    if (unit >= 0xDC00 && unit < 0xE000) {
      const std::optional<char16_t> high = std::exchange(high_, std::nullopt);
      if (!high) return follower_.reset();
      return put(0x10000 + ((char32_t{*high} - 0xD800) << 10) + (char32_t{unit} - 0xDC00),
                 high_begin_, end, found);
    }
    drop();
    if (unit >= 0xD800 && unit < 0xDC00) {
      high_ = unit;
      high_begin_ = begin;
      return;
    }
    put(unit, begin, end, found);
  }
  // Bytes that are no code units.
  void raw(unsigned char byte, uint64_t begin, uint64_t end, std::vector<Extent>& found) {
    drop();
    follower_.take(byte, begin, end, found);
  }
  [[nodiscard]] uint64_t earliest() const {
    return std::min(follower_.earliest(), high_ ? high_begin_ : kNowhere);
  }
  void reset() {
    follower_.reset();
    high_.reset();
  }
  [[nodiscard]] const Follower& follower() const { return follower_; }

 private:
  // A high surrogate without a low one is no character.
  void drop() {
    if (std::exchange(high_, std::nullopt)) follower_.reset();
  }
  void put(char32_t point, uint64_t begin, uint64_t end, std::vector<Extent>& found) {
    const auto byte = [&](char32_t value) {
      follower_.take(static_cast<unsigned char>(value), begin, end, found);
    };
    if (point < 0x80) return byte(point);
    if (point < 0x800) {
      byte(0xC0 | (point >> 6));
    } else {
      if (point < 0x10000) {
        byte(0xE0 | (point >> 12));
      } else {
        byte(0xF0 | (point >> 18));
        byte(0x80 | ((point >> 12) & 0x3F));
      }
      byte(0x80 | ((point >> 6) & 0x3F));
    }
    byte(0x80 | (point & 0x3F));
  }

  Follower follower_;
  std::optional<char16_t> high_;
  uint64_t high_begin_ = 0;
};

// Strings of JSON, with any choice of escaped characters.
class JsonView final : public View {
 public:
  explicit JsonView(const Automaton& automaton) : utf16_(automaton) {}

  void feed(std::string_view bytes, uint64_t offset, std::vector<Extent>& found) override {
    for (const char each : bytes) {
      next(each, offset, found);
      ++offset;
    }
  }
  void end(std::vector<Extent>& found) override { giveUp(found); }
  [[nodiscard]] uint64_t earliest() const override {
    return std::min(utf16_.earliest(), held_ == 0 ? kNowhere : begin_);
  }
  void reset() override {
    utf16_.reset();
    held_ = 0;
  }

 private:
  static constexpr size_t kWhole = 6;  // \u0041

  void next(char byte, uint64_t at, std::vector<Extent>& found) {
    if (held_ >= 2 && kHexDigits[static_cast<unsigned char>(byte)] == 255) giveUp(found);
    if (held_ >= 2) {
      escape_[held_++] = byte;
      if (held_ == kWhole) takeUnit(at + 1, found);
    } else if (held_ == 1) {
      second(byte, at, found);
    } else if (byte == '\\') {
      escape_[0] = byte;
      begin_ = at;
      held_ = 1;
    } else {
      utf16_.raw(static_cast<unsigned char>(byte), at, at + 1, found);
    }
  }
  // The byte after a backslash.
  void second(char byte, uint64_t at, std::vector<Extent>& found) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    if (byte == 'u') {
      escape_[held_++] = byte;
      return;
    }
    const size_t which = kNames.find(byte);
    if (which == std::string_view::npos) {
      giveUp(found);
      return next(byte, at, found);
    }
    held_ = 0;
    utf16_.raw(static_cast<unsigned char>(kValues[which]), begin_, at + 1, found);
  }
  void takeUnit(uint64_t end, std::vector<Extent>& found) {
    char16_t unit = 0;
    for (size_t i = 2; i < kWhole; ++i) {
      unit = static_cast<char16_t>(unit * 16 + kHexDigits[static_cast<unsigned char>(escape_[i])]);
    }
    held_ = 0;
    utf16_.take(unit, begin_, end, found);
  }
  // The held bytes are no escape.
  void giveUp(std::vector<Extent>& found) {
    const size_t held = std::exchange(held_, 0);
    for (size_t i = 0; i < held; ++i) {
      utf16_.raw(static_cast<unsigned char>(escape_[i]), begin_ + i, begin_ + i + 1, found);
    }
  }

  Utf16 utf16_;
  size_t held_ = 0;
  uint64_t begin_ = 0;
  std::array<char, kWhole> escape_{};
};

// UTF-16 in one byte order, from one of both alignments.
class Utf16View final : public View {
 public:
  Utf16View(const Automaton& automaton, bool little, bool odd)
      : utf16_(automaton), little_(little), skip_(odd) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      any_beyond_ascii_ |= byte >= 0x80 && automaton.begins(static_cast<unsigned char>(byte));
    }
  }

  void feed(std::string_view bytes, uint64_t offset, std::vector<Extent>& found) override {
    for (const char each : bytes) {
      next(static_cast<unsigned char>(each), offset, found);
      ++offset;
    }
  }
  void end(std::vector<Extent>&) override {}
  [[nodiscard]] uint64_t earliest() const override {
    return std::min(utf16_.earliest(), holdsBeginning() ? begin_ : kNowhere);
  }
  void reset() override {
    utf16_.reset();
    lost_ = true;
  }

 private:
  void next(unsigned char byte, uint64_t at, std::vector<Extent>& found) {
    if (std::exchange(skip_, false)) return;
    if (!half_) {
      half_ = byte;
      begin_ = at;
      lost_ = false;
      return;
    }
    const unsigned char half = *std::exchange(half_, std::nullopt);
    if (lost_) return;
    const auto unit = static_cast<char16_t>(little_ ? byte << 8 | half : half << 8 | byte);
    // Nearly every unit of other text is beyond ASCII; values seldom begin there.
    if (unit >= 0x80 && !any_beyond_ascii_ && utf16_.earliest() == kNowhere) return;
    utf16_.take(unit, begin_, at + 1, found);
  }
  // Whether the byte that waits for its other half may begin a value.
  [[nodiscard]] bool holdsBeginning() const {
    if (!half_ || lost_) return false;
    if (any_beyond_ascii_) return true;
    return little_ ? utf16_.follower().automaton().begins(*half_) : *half_ == 0;
  }

  Utf16 utf16_;
  bool little_;
  bool skip_;
  bool any_beyond_ascii_ = false;
  bool lost_ = false;  // the half was passed on, so its unit is no part of a match
  std::optional<unsigned char> half_;
  uint64_t begin_ = 0;
};

// Digits of a few bits each: hex and base64. A run of digits is decoded from one alignment.
template <unsigned kBits>
class DigitView final : public View {
 public:
  DigitView(const Automaton& automaton, const Digits& digits, std::string_view separators,
            unsigned alignment)
      : follower_(automaton), digits_(&digits), alignment_(alignment), wait_(alignment) {
    for (const char each : separators)
      separators_[static_cast<unsigned char>(each)] = true;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (!automaton.begins(static_cast<unsigned char>(byte))) continue;
      for (unsigned bits = 0; bits < 8; ++bits)
        beginnings_[bits][byte >> (8 - bits)] = true;
    }
  }

  void feed(std::string_view bytes, uint64_t offset, std::vector<Extent>& found) override {
    for (const char each : bytes) {
      next(static_cast<unsigned char>(each), offset, found);
      ++offset;
    }
  }
  void end(std::vector<Extent>&) override {}
  [[nodiscard]] uint64_t earliest() const override {
    return std::min(follower_.earliest(), holdsBeginning() ? begin_ : kNowhere);
  }
  void reset() override {
    follower_.reset();
    lost_ = true;
  }

 private:
  void next(unsigned char byte, uint64_t at, std::vector<Extent>& found) {
    const uint8_t digit = (*digits_)[byte];
    if (digit != 255) {
      separators_seen_ = 0;
      return take(digit, at, found);
    }
    if (separators_[byte] && separators_seen_++ < kMostSeparators) return;
    follower_.reset();
    wait_ = alignment_;
    bits_ = 0;
  }
  void take(uint8_t digit, uint64_t at, std::vector<Extent>& found) {
    if (wait_ > 0) {
      --wait_;
      return;
    }
    const uint64_t begin = bits_ == 0 ? at : begin_;
    value_ = (value_ << kBits | digit) & 0xFFFF;
    bits_ += kBits;
    if (bits_ == kBits) {
      begin_ = at;
      lost_ = false;
      return;
    }
    bits_ -= 8;
    if (!std::exchange(lost_, false)) {
      follower_.take(static_cast<unsigned char>(value_ >> bits_ & 0xFF), begin, at + 1, found);
    }
    begin_ = at;
  }
  // Whether the bits that wait for the rest of their byte may begin a value.
  [[nodiscard]] bool holdsBeginning() const {
    return bits_ != 0 && !lost_ && beginnings_[bits_][value_ & ((1U << bits_) - 1)];
  }

  Follower follower_;
  const Digits* digits_;
  std::array<bool, 256> separators_{};
  std::array<std::array<bool, 128>, 8> beginnings_{};  // by number of bits and their value
  unsigned alignment_;
  unsigned wait_;  // digits to skip at the beginning of a run
  unsigned bits_ = 0;
  unsigned value_ = 0;
  bool lost_ = false;  // the bits were passed on, so their byte is no part of a match
  size_t separators_seen_ = 0;
  uint64_t begin_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<View>> makeViews(const Automaton& values, const Automaton& folded) {
  std::vector<std::unique_ptr<View>> views;
  views.push_back(std::make_unique<RawView>(values));
  views.push_back(std::make_unique<PercentView>(folded));
  views.push_back(std::make_unique<JsonView>(values));
  for (const bool little : {true, false}) {
    for (const bool odd : {true, false}) {
      views.push_back(std::make_unique<Utf16View>(values, little, odd));
    }
  }
  for (unsigned alignment = 0; alignment < 2; ++alignment) {
    views.push_back(std::make_unique<DigitView<4>>(values, kHexDigits, kHexSeparators, alignment));
  }
  for (unsigned alignment = 0; alignment < 4; ++alignment) {
    views.push_back(
        std::make_unique<DigitView<6>>(values, kBase64Digits, kBase64Separators, alignment));
  }
  return views;
}

}  // namespace cloister::redact
