// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/cell_frames.h"

#include <algorithm>
#include <utility>

#include "wire/codec.h"
#include "wire/kernel.h"

namespace cloister::orchestrator {
namespace {

using wire::kernel::Frame;

constexpr size_t kMaxLeftOut = 32;  // reported parts

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
  if (!first_.empty()) {
    const std::string first = std::exchange(first_, {});
    co_await observer_.onOutput(model::Stream::kStderr, first);
  }
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
  result_size_ = size;
  // The last value is the most informative: it replaces the previous value if both do not fit.
  if (results_.size() >= bounds_.max_results) dropLast();
  if (size > room() && room() < bounds_.result_bytes && !results_.empty()) dropLast();
  result_ = ResultParts(room());
}

// For another result.
uint64_t CellFrames::room() const {
  const uint64_t left = bounds_.results_bytes - std::min(bounds_.results_bytes, results_bytes_);
  return std::min(bounds_.result_bytes, left);
}

void CellFrames::dropLast() {
  if (results_.empty()) return;
  results_.pop_back();
  const uint64_t bytes = result_bytes_.back();
  result_bytes_.pop_back();
  results_bytes_ -= bytes;
  // Earlier reports about the dropped result do not apply to its replacement.
  for (auto each = left_out_.begin(); each != left_out_.end();) {
    const base::json::value& result = each->at("result");
    const bool of_it = result.is_number() && result.to_number<size_t>() == results_.size();
    each = of_it ? left_out_.erase(each) : each + 1;
  }
  noteLeftOut(std::nullopt, {.type = {}, .bytes = bytes});
}

void CellFrames::noteLeftOut(std::optional<size_t> result, const LeftOutPart& part) {
  truncated_ = true;
  if (left_out_.size() >= kMaxLeftOut) return;
  left_out_.push_back(
      base::json::object{{"result", result ? base::json::value(*result) : base::json::value()},
                         {"type", part.type},
                         {"bytes", part.bytes},
                         {"kept_bytes", part.kept_bytes}});
}

void CellFrames::addPiece(std::string_view piece) {
  if (piece.empty() || piece.size() > result_left_) return breakOff();
  result_left_ -= static_cast<uint32_t>(piece.size());
  result_.add(piece);
  if (result_left_ == 0) keepResult();
}

// An invalid result is left out; the kernel's intention does not matter.
void CellFrames::keepResult() {
  ResultParts result = std::exchange(result_, ResultParts());
  if (!result.isResult() || result.parts().empty() || bounds_.max_results == 0) {
    return noteLeftOut(std::nullopt, {.type = {}, .bytes = result_size_});
  }
  for (const LeftOutPart& part : result.leftOut())
    noteLeftOut(results_.size(), part);
  results_bytes_ += result.bytes();
  result_bytes_.push_back(result.bytes());
  results_.push_back(std::move(result.parts()));
}

}  // namespace cloister::orchestrator
