// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/result_parts.h"

#include <algorithm>
#include <utility>

namespace cloister::orchestrator {
namespace {

constexpr size_t kMaxType = 128;  // bytes of a mime type
constexpr size_t kMaxPartsLeftOut = 16;
constexpr std::string_view kCuttable = "text/plain";
constexpr std::string_view kCutMark = "…\"";
constexpr uint64_t kLeastText = 16;  // shorter cut texts are left out as useless
constexpr uint64_t kAroundPart = 5;  // its quotes, its colon, its share of the braces
// An escaped surrogate pair, which a cut may split anywhere.
constexpr size_t kLongestEscape = 12;
constexpr base::JsonLimits kPartLimits{
    .max_bytes = size_t{1} << 30, .max_depth = 23, .max_values = 50'000};

bool isMimeType(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/+-._").contains(c);
  };
  return text.size() <= kMaxType && text.find('/') != std::string_view::npos &&
         std::ranges::all_of(text, allowed);
}

bool isSpace(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

}  // namespace

void ResultParts::add(std::string_view bytes) {
  while (!bytes.empty() && state_ != State::kBad) {
    const char c = bytes.front();
    if (state_ == State::kValue && !isSpace(c)) state_ = State::kInValue;
    if (state_ == State::kInValue) {
      bytes.remove_prefix(inValue(bytes));
      continue;
    }
    if (state_ == State::kInKey) {
      inKey(c);
    } else if (!isSpace(c)) {
      state_ = between(c);
    }
    bytes.remove_prefix(1);
  }
}

ResultParts::State ResultParts::between(char c) const {
  if (state_ == State::kStart && c == '{') return State::kFirstKey;
  if (state_ == State::kFirstKey && c == '}') return State::kEnd;
  if ((state_ == State::kFirstKey || state_ == State::kKey) && c == '"') return State::kInKey;
  if (state_ == State::kColon && c == ':') return State::kValue;
  return State::kBad;
}

void ResultParts::inKey(char c) {
  if (c == '"' && !escaped_) {
    state_ = State::kColon;
    return;
  }
  escaped_ = c == '\\' && !escaped_;
  if (type_.size() <= kMaxType) type_ += c;  // an extra character marks an overlong type
}

size_t ResultParts::inValue(std::string_view bytes) {
  for (size_t n = 0; n < bytes.size(); ++n) {
    const char c = bytes[n];
    if (in_string_) {
      if (c == '"' && !escaped_) in_string_ = false;
      escaped_ = c == '\\' && !escaped_;
      continue;
    }
    const bool closes = c == '}' || c == ']';
    if (depth_ == 0 && (closes || c == ',')) {
      keep(bytes.substr(0, n));
      endValue();
      state_ = c == ',' ? State::kKey : c == '}' ? State::kEnd : State::kBad;
      return n + 1;
    }
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    if (closes) --depth_;
  }
  keep(bytes);
  return bytes.size();
}

// Remaining bytes for the value of this type.
uint64_t ResultParts::room() const {
  const uint64_t taken = used_ + type_.size() + kAroundPart;
  return most_ - std::min(most_, taken);
}

void ResultParts::keep(std::string_view bytes) {
  value_bytes_ += bytes.size();
  if (value_bytes_ <= room()) {
    value_ += bytes;
  } else if (type_ == kCuttable) {
    value_ += bytes.substr(0, room() - std::min<uint64_t>(room(), value_.size()));
  } else {
    value_ = {};
  }
}

void ResultParts::endValue() {
  const bool whole = value_.size() == value_bytes_;
  const bool known = isMimeType(type_);
  const bool wanted = known && parts_.size() < kMaxTypes && !parts_.contains(type_);
  const bool kept = wanted && (whole ? keepValue() : keepCut());
  if ((!kept || !whole) && left_out_.size() < kMaxPartsLeftOut) {
    left_out_.push_back({.type = known ? type_ : std::string(),
                         .bytes = value_bytes_,
                         .kept_bytes = kept ? value_.size() : 0});
  }
  type_.clear();
  value_ = {};
  value_bytes_ = 0;
}

bool ResultParts::keepValue() {
  auto value = base::parseJson(value_, kPartLimits);
  if (!value) return false;
  used_ += type_.size() + kAroundPart + value_.size();
  parts_[type_] = *std::move(value);
  return true;
}

// The end of a cut text may be half a character, or half of an escape sequence.
bool ResultParts::keepCut() {
  if (type_ != kCuttable || !value_.starts_with('"') || room() < kLeastText) return false;
  value_.resize(std::min<uint64_t>(value_.size(), room() - kCutMark.size()));
  for (size_t i = 0; i < kLongestEscape && value_.size() > 1; ++i) {
    value_ += kCutMark;
    if (keepValue()) return true;
    value_.resize(value_.size() - kCutMark.size() - 1);
  }
  return false;
}

}  // namespace cloister::orchestrator
