// SPDX-License-Identifier: Apache-2.0
#include "net/sse.h"

#include <utility>

namespace cloister::net {

void SseParser::line(std::string_view text, std::vector<SseEvent>& out) {
  if (text.empty()) {
    if (data_) out.push_back({type_.empty() ? "message" : type_, *std::move(data_), last_id_});
    data_.reset();
    type_.clear();
    return;
  }
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  std::string_view value;
  if (colon != std::string_view::npos) value = text.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "event") {
    type_ = value;
  } else if (name == "id") {
    if (value.find('\0') == std::string_view::npos) last_id_ = value;
  } else if (name == "data") {
    if (data_) {
      data_->append("\n").append(value);
    } else {
      data_.emplace(value);
    }
  }
}

Result<std::vector<SseEvent>> SseParser::feed(std::string_view bytes) {
  std::vector<SseEvent> events;
  while (!bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = bytes.find_first_of("\r\n");
    partial_.append(bytes.substr(0, end));
    if (partial_.size() + (data_ ? data_->size() : 0) > kMaxEvent) {
      return fail(Code::kTooLarge, "reading events: one is larger than 32 MiB");
    }
    if (end == std::string_view::npos) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    line(partial_, events);
    partial_.clear();
  }
  return events;
}

}  // namespace cloister::net
