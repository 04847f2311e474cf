// SPDX-License-Identifier: Apache-2.0
#include "model/snapshot.h"

#include <algorithm>

#include "base/clock.h"
#include "model/run_request.h"

namespace cloister::model {
namespace {

namespace json = base::json;

constexpr size_t kMaxName = 256;
constexpr size_t kMaxMembers = 64;
constexpr size_t kMaxValue = 4096;
constexpr int64_t kMaxSeconds = int64_t{100} * 365 * 86'400;

json::value timeOrNull(int64_t wall_micros) {
  const std::string text = base::formatTime(wall_micros);
  return text.empty() ? json::value(nullptr) : json::value(text);
}

bool isControl(char c) {
  return static_cast<uint8_t>(c) < 0x20 || c == 0x7f;
}

Result<std::string> readName(base::ObjectReader& reader) {
  std::string name = TRY(reader.text("name")).value_or("");
  if (name.size() <= kMaxName && std::ranges::none_of(name, isControl)) return name;
  return fail(Code::kInvalid, "name: at most 256 bytes, without control characters", "name");
}

Result<json::object> readMetadata(base::ObjectReader& reader) {
  const json::object* given = TRY(reader.object("metadata"));
  json::object metadata;
  if (given == nullptr) return metadata;
  if (given->size() > kMaxMembers) {
    return fail(Code::kTooLarge, "metadata: at most 64 members are allowed", "metadata");
  }
  for (const auto& member : *given) {
    const std::string field = "metadata." + std::string(member.key().substr(0, kMaxName));
    if (!member.value().is_string()) return fail(Code::kInvalid, field + ": must be text", field);
    if (member.key().size() > kMaxName || member.value().get_string().size() > kMaxValue) {
      return fail(Code::kTooLarge, field + ": at most 256 bytes of name and 4096 of value", field);
    }
    metadata[member.key()] = member.value();
  }
  return metadata;
}

json::value memoryOrNull(const Snapshot& snapshot) {
  if (!snapshot.memory) return nullptr;
  return json::object{{"runtime", snapshot.memory->runtime},
                      {"image", snapshot.memory->image},
                      {"limits", limitsObject(snapshot.memory->limits)}};
}

}  // namespace

json::object toJsonObject(const Snapshot& snapshot) {
  return {{"id", snapshot.id},
          {"session_id", snapshot.session_id},
          {"name", snapshot.name.empty() ? json::value(nullptr) : json::value(snapshot.name)},
          {"metadata", snapshot.metadata},
          {"entries", snapshot.entries},
          {"size", snapshot.bytes},
          {"chunks", snapshot.chunks},
          {"added_bytes", snapshot.added_bytes},
          {"sha256", snapshot.sha256},
          {"created_at", timeOrNull(snapshot.created_at)},
          {"expires_at", timeOrNull(snapshot.expires_at)},
          {"memory", memoryOrNull(snapshot)}};
}

Result<SnapshotRequest> parseSnapshotRequest(const json::object& body) {
  base::ObjectReader reader(body, "");
  SnapshotRequest request;
  request.name = TRY(readName(reader));
  request.metadata = TRY(readMetadata(reader));
  const auto seconds = TRY(reader.integer("ttl_seconds", 1, kMaxSeconds));
  request.ttl_us = seconds.value_or(0) * 1'000'000;
  request.memory = TRY(reader.boolean("memory")).value_or(false);
  TRY(reader.finish());
  return request;
}

}  // namespace cloister::model
