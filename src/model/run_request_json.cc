// SPDX-License-Identifier: Apache-2.0
// The canonical JSON of a run request; run_request.cc reads it back.
#include "base/crypto.h"
#include "model/run_request.h"

namespace cloister::model {
namespace {

namespace json = base::json;

constexpr uint64_t kMiB = uint64_t{1} << 20;

json::value textOrNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::array toArray(const std::vector<std::string>& texts) {
  return json::array(texts.begin(), texts.end());
}

json::object toObject(const std::map<std::string, std::string>& map) {
  json::object object;
  for (const auto& [name, value] : map)
    object[name] = value;
  return object;
}

json::value toSeconds(std::chrono::milliseconds time) {
  if (time.count() % 1000 == 0) return time.count() / 1000;
  return static_cast<double>(time.count()) / 1000;
}

// Bytes as a JSON string and the name of how they are written there.
std::pair<std::string, std::string_view> encoded(const std::string& bytes) {
  if (base::isUtf8(bytes)) return {bytes, "utf8"};
  return {base::toBase64(bytes), "base64"};
}

json::array toArray(const std::vector<FileSpec>& files) {
  json::array array;
  for (const FileSpec& file : files) {
    const auto [content, encoding] = encoded(file.content);
    array.push_back({{"content", content},
                     {"encoding", encoding},
                     {"executable", file.mode == 0755},
                     {"path", file.path}});
  }
  return array;
}

}  // namespace

json::object toJsonObject(const RunRequest& request) {
  const Limits& limits = request.limits;
  const auto [input, encoding] = encoded(request.input);
  json::object object;
  object["args"] = toArray(request.args);
  object["artifacts"] = toArray(request.artifacts);
  if (const auto* shell = std::get_if<std::string>(&request.command)) {
    object["command"] = *shell;
  } else if (const auto* argv = std::get_if<std::vector<std::string>>(&request.command)) {
    object["command"] = toArray(*argv);
  } else {
    object["code"] = request.code;
  }
  object["cpu_millis"] = limits.cpu_millis;
  object["cpu_seconds"] = toSeconds(limits.cpu_time);
  object["deps"] = toArray(request.deps);
  object["disk_mb"] = limits.disk_bytes / kMiB;
  object["encoding"] = encoding;
  object["env"] = toObject(request.env);
  object["file_size_mb"] = limits.file_bytes / kMiB;
  object["files"] = toArray(request.files);
  object["inodes"] = limits.inodes;
  object["input"] = input;
  object["language"] = textOrNull(request.language);
  object["max_output_bytes"] = limits.output_bytes;
  object["memory_mb"] = limits.memory_bytes / kMiB;
  object["metadata"] = toObject(request.metadata);
  object["network_policy"] = {{"tier", request.network_tier}};
  object["open_files"] = limits.open_files;
  object["pids"] = limits.pids;
  object["runtime"] = textOrNull(request.runtime);
  object["tier"] = textOrNull(request.tier);
  object["timeout_seconds"] = toSeconds(limits.wall);
  return object;
}

}  // namespace cloister::model
