// SPDX-License-Identifier: Apache-2.0
// Structured logs: one JSON object a line on stderr, every value escaped, so that no logged byte
// can forge a line. `journal`-friendly; level from $CLOISTER_LOG (debug, info, warn, error; info).
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace cloister::base {

enum class Level { kDebug, kInfo, kWarn, kError };

struct LogField {
  std::string_view key;
  std::string value;

  LogField(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, int64_t v) : key(k), value(std::to_string(v)) {}
};

// Names the process in every line; call once at the start of main.
void initLog(std::string_view process);

// Thread-safe. `event` is a short constant phrase; details go into fields. Never waits for a reader
// of stderr: without room a line is dropped, and the next line gives the number of dropped lines.
void log(Level level, std::string_view event, std::initializer_list<LogField> fields = {});
void log(Level level, std::string_view event, std::span<const LogField> fields);
// Whether lines of this level are written, so that callers can skip expensive fields.
[[nodiscard]] bool isLogged(Level level);

}  // namespace cloister::base
