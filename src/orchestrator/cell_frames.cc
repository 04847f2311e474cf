// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/cell_frames.h"

#include <algorithm>
#include <utility>

#include "wire/codec.h"
#include "wire/kernel.h"

namespace cloister::orchestrator {
namespace {

using wire::kernel::Frame;

constexpr size_t kMaxTypes = 16;  // of one result
constexpr size_t kMaxType = 128;  // bytes of a mime type
constexpr base::JsonLimits kResultLimits{
    .max_bytes = size_t{1} << 30, .max_depth = 24, .max_values = 50'000};

bool isMimeType(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/+-._").contains(c);
  };
  return text.size() <= kMaxType && text.find('/') != std::string_view::npos &&
         std::ranges::all_of(text, allowed);
}

}  // namespace

void CellFrames::onStarted() {
  started_ = true;
  observer_.onStarted();
  changed_();
}

void CellFrames::onUsage(const model::Usage& usage) {
  observer_.onUsage(usage);
}

Task<void> CellFrames::onFileBegin(std::string /*path*/, uint64_t /*size*/) {
  co_return;
}

Task<void> CellFrames::onFileData(std::string_view /*bytes*/) {
  co_return;
}

Task<void> CellFrames::onFileEnd() {
  co_return;
}

Task<void> CellFrames::onOutput(model::Stream stream, std::string_view bytes) {
  if (stream != model::Stream::kStdout || broken_ || exit_code_) co_return;
  pending_ += bytes;
  size_t at = 0;
  while (pending_.size() - at >= wire::kernel::kFrameHead && !broken_ && !exit_code_) {
    wire::Reader head(std::string_view(pending_).substr(at, wire::kernel::kFrameHead));
    const uint8_t type = head.u8();
    const uint32_t size = head.u32();
    if (size > wire::kernel::kMaxFrame) breakOff();
    if (broken_ || pending_.size() - at - wire::kernel::kFrameHead < size) break;
    at += wire::kernel::kFrameHead;
    co_await frame(type, std::string_view(pending_).substr(at, size));
    at += size;
  }
  pending_.erase(0, at);
}

Task<void> CellFrames::frame(uint8_t type, std::string_view payload) {
  wire::Reader r(payload);
  switch (static_cast<Frame>(type)) {
    case Frame::kStdout:
      co_return co_await observer_.onOutput(model::Stream::kStdout, payload);
    case Frame::kStderr:
      co_return co_await observer_.onOutput(model::Stream::kStderr, payload);
    case Frame::kBegun:
      if (!payload.empty()) break;
      begun_ = true;
      changed_();
      co_return;
    case Frame::kResult:
      co_return beginResult(payload);
    case Frame::kPiece:
      co_return addPiece(payload);
    case Frame::kDone: {
      const uint32_t code = r.u32();
      if (!r.done() || code > 255 || result_left_ > 0) break;
      exit_code_ = static_cast<int>(code);
      changed_();
      co_return;
    }
  }
  breakOff();
}

void CellFrames::breakOff() {
  broken_ = true;
  changed_();
}

void CellFrames::beginResult(std::string_view payload) {
  wire::Reader r(payload);
  const uint32_t size = r.u32();
  if (!r.done() || size == 0 || size > wire::kernel::kMaxResult || result_left_ > 0) {
    return breakOff();
  }
  result_left_ = size;
  result_.clear();
  skips_ = results_.size() >= bounds_.max_results || size > bounds_.result_bytes ||
           size > bounds_.results_bytes - std::min(bounds_.results_bytes, results_bytes_);
  truncated_ = truncated_ || skips_;
}

void CellFrames::addPiece(std::string_view piece) {
  if (piece.empty() || piece.size() > result_left_) return breakOff();
  result_left_ -= static_cast<uint32_t>(piece.size());
  if (!skips_) result_ += piece;
  if (result_left_ == 0 && !skips_) keepResult();
}

// One that is no result is left out; what it was to be is the kernel's own affair.
void CellFrames::keepResult() {
  auto value = base::parseJson(result_, kResultLimits);
  const uint64_t bytes = result_.size();
  result_ = {};
  const bool fits = value && value->is_object() && value->get_object().size() <= kMaxTypes &&
                    std::ranges::all_of(value->get_object(),
                                        [](const auto& each) { return isMimeType(each.key()); });
  if (!fits) {
    truncated_ = true;
    return;
  }
  results_bytes_ += bytes;
  results_.push_back(*std::move(value));
}

}  // namespace cloister::orchestrator
