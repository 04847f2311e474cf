// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <cstdlib>

#include "base/clock.h"
#include "base/json.h"

namespace cloister::base {
namespace {

struct Settings {
  std::string process = "cloister";
  Level least = Level::kInfo;
};

Settings& settings() {
  static Settings instance;
  return instance;
}

constexpr std::string_view kNames[] = {"debug", "info", "warn", "error"};

}  // namespace

void initLog(std::string_view process) {
  settings().process = process;
  const char* wanted = ::getenv("CLOISTER_LOG");
  for (size_t i = 0; wanted != nullptr && i < std::size(kNames); ++i) {
    if (kNames[i] == wanted) settings().least = static_cast<Level>(i);
  }
}

void log(Level level, std::string_view event, std::initializer_list<LogField> fields) {
  if (level < settings().least) return;
  json::object line{{"time", formatTime(wallMicros())},
                    {"level", kNames[static_cast<size_t>(level)]},
                    {"process", settings().process},
                    {"event", event}};
  for (const LogField& field : fields) {
    line[field.key] = isUtf8(field.value) ? field.value : "(not UTF-8)";
  }
  const std::string text = json::serialize(line) + "\n";
  // One write a line: pipes and files keep lines of several processes apart. A log that cannot be
  // written is nothing this process can act on.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace cloister::base
