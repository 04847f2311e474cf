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

// Bytes as a JSON string, and the name of the encoding.
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

// The limits named by the request with the default value.
json::array namedUsual(const RunRequest& request) {
  const Limits usual = usualLimits(request.limits);
  json::array names;
  for (size_t i = 0; i < kLimitCount; ++i) {
    const LimitKind& field = limitKinds()[i];
    if (request.named_limits.test(i) && field.get(request.limits) == field.get(usual)) {
      names.push_back(json::string(field.name));
    }
  }
  return names;
}

}  // namespace

json::object limitsObject(const Limits& limits) {
  return {{"cpu_millis", limits.cpu_millis},
          {"cpu_seconds", toSeconds(limits.cpu_time)},
          {"disk_mb", limits.disk_bytes / kMiB},
          {"file_size_mb", limits.file_bytes / kMiB},
          {"inodes", limits.inodes},
          {"max_output_bytes", limits.output_bytes},
          {"memory_mb", limits.memory_bytes / kMiB},
          {"open_files", limits.open_files},
          {"pids", limits.pids},
          {"timeout_seconds", toSeconds(limits.wall)}};
}

json::object toJsonObject(const RunRequest& request) {
  const auto [input, encoding] = encoded(request.input);
  std::map<std::string, json::value> sorted;
  for (const auto& limit : limitsObject(request.limits))
    sorted[limit.key()] = limit.value();
  sorted["args"] = toArray(request.args);
  if (!request.approval.empty()) sorted["approval"] = json::string(request.approval);
  sorted["artifacts"] = toArray(request.artifacts);
  if (const auto* shell = std::get_if<std::string>(&request.command)) {
    sorted["command"] = json::string(*shell);
  } else if (const auto* argv = std::get_if<std::vector<std::string>>(&request.command)) {
    sorted["command"] = toArray(*argv);
  } else {
    sorted["code"] = json::string(request.code);
  }
  sorted["deps"] = toArray(request.deps);
  sorted["encoding"] = json::string(encoding);
  sorted["env"] = toObject(request.env);
  sorted["files"] = toArray(request.files);
  // Only if set: digests of earlier versions' requests must not change.
  if (!request.image.empty()) sorted["image"] = json::string(request.image);
  sorted["input"] = json::string(input);
  sorted["language"] = textOrNull(request.language);
  sorted["metadata"] = toObject(request.metadata);
  // Only if any, for the same reason as the image.
  if (json::array named = namedUsual(request); !named.empty()) {
    sorted["named_limits"] = std::move(named);
  }
  sorted["network_policy"] = toJsonObject(request.network);
  sorted["runtime"] = textOrNull(request.runtime);
  if (request.nested) sorted["nested"] = true;
  // Only if any, for the same reason as the image.
  if (!request.secrets.empty()) {
    json::array secrets;
    for (const SecretUse& use : request.secrets)
      secrets.push_back(toJsonObject(use));
    sorted["secrets"] = std::move(secrets);
  }
  if (request.fresh) sorted[std::string(kSandboxMember)] = json::string(kFreshSandbox);
  sorted["tier"] = textOrNull(request.tier);
  json::object object;
  for (auto& [name, value] : sorted)
    object[name] = std::move(value);
  return object;
}

}  // namespace cloister::model
