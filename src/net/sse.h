// SPDX-License-Identifier: Apache-2.0
// Server-Sent Events (WHATWG HTML, "server-sent events"), parsed from a stream in any pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::net {

struct SseEvent {
  std::string type = "message";
  std::string data;  // lines joined by "\n"
  std::string id;    // the last id so far
};

class SseParser {
 public:
  static constexpr size_t kMaxEvent = size_t{32} << 20;

  // The events completed by these bytes. kTooLarge for an event over kMaxEvent.
  Result<std::vector<SseEvent>> feed(std::string_view bytes);

 private:
  void line(std::string_view text, std::vector<SseEvent>& out);

  std::string partial_;  // of a line
  bool after_cr_ = false;
  std::string type_;
  std::optional<std::string> data_;
  std::string last_id_;
};

}  // namespace cloister::net
