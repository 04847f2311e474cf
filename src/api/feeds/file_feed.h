// SPDX-License-Identifier: Apache-2.0
// FileFeed: a reader's way through the changes of a watched directory, as events. After a loss the
// feed says `overflow`, and reports the unwatched directories again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/feeds/event_feed.h"
#include "api/http/http.h"
#include "base/clock.h"
#include "base/result.h"
#include "orchestrator/sessions/file_watch.h"

namespace cloister::api {

// A reader's progress: the id of a change, "<watch>.<number>", and ".end" after the last change.
struct FilePosition {
  std::string watch;  // "": none seen
  uint64_t seq = 0;
  bool ended = false;

  static Result<FilePosition> parse(std::string_view text);
  [[nodiscard]] std::string text() const;
};

class FileFeed {
 public:
  using ReaderPtr = std::shared_ptr<orchestrator::FileWatch::Reader>;

  // `path` is the directory, for show.
  FileFeed(ReaderPtr watch, std::string path, const FilePosition& from, Millis heartbeat);

  // The next event, nothing after `end`.
  Task<std::optional<Event>> next();

 private:
  std::optional<Event> ready();
  Event changed(const orchestrator::FileWatch::Change& change);
  [[nodiscard]] Event event(std::string type, base::json::object data) const;
  void skip();

  ReaderPtr watch_;
  std::string path_;
  FilePosition position_;
  std::string first_;                // the type of the event to begin with
  std::vector<std::string> untold_;  // unwatched directories, yet to be reported
  Millis heartbeat_;
  base::Monotonic next_heartbeat_;
};

}  // namespace cloister::api
