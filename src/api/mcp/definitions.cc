// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/definitions.h"

#include <chrono>
#include <utility>

namespace cloister::api::mcp {
namespace {

std::string seconds(Millis time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

}  // namespace

std::string fillIn(std::string_view definitions, const RestParts& rest, const Settings& settings) {
  std::string languages;
  for (const model::Language& language : rest.languages.all())
    languages += (languages.empty() ? "" : ", ") + language.name;
  const std::pair<std::string_view, std::string> values[] = {
      {"%LANGUAGES%", languages},
      {"%TIMEOUT%", seconds(model::Limits{}.wall)},
      {"%MAX_TIMEOUT%", seconds(rest.bounds.max.wall)},
      {"%MAX_MEMORY%", std::to_string(rest.bounds.max.memory_bytes >> 20)},
      {"%TTL%", seconds(rest.session_bounds.ttl)},
      {"%IDLE_TTL%", seconds(rest.session_bounds.idle_ttl)},
      {"%MAX_TTL%", seconds(rest.session_bounds.max_ttl)},
      {"%SYNC_WAIT%", seconds(settings.sync_wait)},
      {"%TEXT_BYTES%", std::to_string(settings.text_bytes)},
      {"%MEMORY_KEYS%", std::to_string(rest.memory_bounds.keys)},
      {"%MEMORY_VALUE_BYTES%", std::to_string(rest.memory_bounds.value_bytes)},
      {"%DOWNLOAD_BYTES%", std::to_string(settings.download_bytes)},
  };
  std::string text(definitions);
  for (const auto& [name, value] : values) {
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size())
      text.replace(at, name.size(), value);
  }
  return text;
}

}  // namespace cloister::api::mcp
