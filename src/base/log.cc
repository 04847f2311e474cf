// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
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

std::atomic<int64_t> dropped = 0;

// A writable pipe accepts PIPE_BUF bytes at once (pipe(7)).
bool isRoom() {
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) != 0;
}

}  // namespace

void initLog(std::string_view process) {
  settings().process = process;
  const char* wanted = ::getenv("CLOISTER_LOG");
  for (size_t i = 0; wanted != nullptr && i < std::size(kNames); ++i) {
    if (kNames[i] == wanted) settings().least = static_cast<Level>(i);
  }
}

bool isLogged(Level level) {
  return level >= settings().least;
}

void log(Level level, std::string_view event, std::initializer_list<LogField> fields) {
  log(level, event, std::span(fields.begin(), fields.size()));
}

void log(Level level, std::string_view event, std::span<const LogField> fields) {
  if (!isLogged(level)) return;
  if (!isRoom()) {
    ++dropped;
    return;
  }
  json::object line{{"time", formatTime(wallMicros())},
                    {"level", kNames[static_cast<size_t>(level)]},
                    {"process", settings().process},
                    {"event", event}};
  for (const LogField& field : fields) {
    line[field.key] = isUtf8(field.value) ? field.value : "(not UTF-8)";
  }
  if (const int64_t before = dropped.exchange(0); before > 0) {
    line["lines_dropped"] = std::to_string(before);
  }
  const std::string text = json::serialize(line) + "\n";
  // Writes each line in a single call: pipes and files keep lines of several processes apart. This
  // process cannot act on a failed write.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace cloister::base
