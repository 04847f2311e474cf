// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/stored_request.h"

#include <string_view>

#include "model/limits.h"
#include "model/tool.h"

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

Result<base::json::object> bodyToRepeat(base::json::object stored) {
  model::RunRequest request;
  {
    base::ObjectReader reader(stored, "");
    TRY(model::readRunRequest(reader, storedBounds(), request));
  }
  for (size_t i = 0; i < model::kLimitCount; ++i) {
    if (!request.named_limits.test(i)) stored.erase(model::limitKinds()[i].name);
  }
  if (stored.contains("session_id")) {
    for (const std::string_view of_session : {"image", "network_policy", "runtime", "tier"})
      stored.erase(of_session);
  }
  for (const std::string_view own : {"approval", "named_limits", "parent_id", "session_id"})
    stored.erase(own);
  if (base::json::object* metadata = stored["metadata"].if_object()) {
    for (const auto& [name, value] : request.metadata) {
      const bool own_type = name == "tool_type" && value.starts_with(model::kReservedMetadata);
      if (own_type || name.starts_with(model::kReservedMetadata)) metadata->erase(name);
    }
  }
  return stored;
}

}  // namespace cloister::orchestrator
