// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/stored_request.h"

namespace cloister::orchestrator {
namespace {

constexpr size_t kMaxStoredRequest = size_t{256} << 20;

}  // namespace

model::RequestBounds storedBounds() {
  constexpr size_t kItems = size_t{1} << 20;
  model::RequestBounds bounds;
  bounds.body_bytes = bounds.code_bytes = bounds.input_bytes = kMaxStoredRequest;
  bounds.files_bytes = bounds.text_bytes = bounds.command_bytes = kMaxStoredRequest;
  bounds.files = bounds.args = bounds.env = bounds.items = kItems;
  bounds.own_metadata = true;
  bounds.max.wall = bounds.max.cpu_time = std::chrono::years(1);
  bounds.max.cpu_millis = bounds.max.open_files = bounds.max.pids = uint32_t{1} << 30;
  bounds.max.memory_bytes = bounds.max.disk_bytes = bounds.max.file_bytes = uint64_t{1} << 50;
  bounds.max.inodes = bounds.max.output_bytes = uint64_t{1} << 40;
  return bounds;
}

Result<base::json::object> parseStored(const std::string& request_json) {
  base::json::value value = TRY(base::parseJson(request_json, {.max_bytes = kMaxStoredRequest}));
  if (!value.is_object()) return fail(Code::kInternal, "reading a stored request: no object");
  return std::move(value.get_object());
}

}  // namespace cloister::orchestrator
