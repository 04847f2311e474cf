// SPDX-License-Identifier: Apache-2.0
// FileWatch: what changes in one directory of a session, for any number of readers at their own
// pace. One request to the file server (wire/files.h) serves them all; the last changes are kept,
// in bounded memory, and a reader that falls behind them is told so. It goes on for a while after
// its last reader has left, so that one who comes back misses nothing. One executor.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/result.h"
#include "orchestrator/sessions/file_call.h"
#include "wire/files_codec.h"

namespace cloister::orchestrator {

struct WatchBounds {
  uint32_t per_session = 4;             // directories watched at once, each with those beneath it
  uint32_t directories = 8192;          // of one watch, at most wire::files::kMostWatched
  size_t kept_bytes = size_t{1} << 20;  // of changes
  Millis linger{30'000};                // without a reader
};

class FileWatch {
 public:
  struct Change {
    uint64_t seq = 0;  // from 1 on
    wire::files::Change what;
  };

  // Counted as a reader while it lives.
  class Reader {
   public:
    explicit Reader(std::shared_ptr<FileWatch> of);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    FileWatch* operator->() const { return watch_.get(); }

   private:
    std::shared_ptr<FileWatch> watch_;
  };

  FileWatch(boost::asio::any_io_executor executor, WatchBounds bounds);
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;
  ~FileWatch() = default;

  // Takes what `call` says, to its end; and, beside that, ends it when it has no readers for long.
  // Without a call there is only the reason why.
  static Task<void> run(std::shared_ptr<FileWatch> self, Result<std::shared_ptr<FileCall>> call);
  static Task<void> endUnread(std::shared_ptr<FileWatch> self);

  // Once it stands, or cannot.
  static Task<Result<>> begun(std::shared_ptr<FileWatch> self);
  // The changes are of another watch's numbers unless this is the same.
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] uint64_t last() const { return last_; }
  // Whether a reader that has seen all up to `seq` can go on without loss.
  [[nodiscard]] bool keepsAfter(uint64_t seq) const;
  // The first change after `seq`; nothing while there is none.
  [[nodiscard]] const Change* after(uint64_t seq) const;
  // What is not watched, as it was last said.
  [[nodiscard]] const std::vector<std::string>& unwatched() const { return unwatched_; }
  [[nodiscard]] bool closed() const { return closed_.has_value(); }
  [[nodiscard]] bool read() const { return readers_ > 0; }
  // Why it is closed; no error where the directory is gone.
  [[nodiscard]] Result<> end() const { return closed_.value_or(Result<>{}); }
  // Ends it: its place is needed.
  void stop();

  // Resumes when there may be a change after `seq`, it is closed, or at `deadline`. The caller
  // keeps it alive.
  Task<void> wait(uint64_t seq, base::Monotonic deadline);

  // What the file server says, one by one, and its end.
  void take(wire::files::Change what);
  void close(Result<> why);

 private:
  std::string id_;
  WatchBounds bounds_;
  async::Signal changed_;  // also: it has begun, or is closed
  async::Signal readers_changed_;
  std::shared_ptr<FileCall> call_;
  bool ready_ = false;
  std::optional<Result<>> closed_;
  std::deque<Change> kept_;
  size_t kept_bytes_ = 0;
  uint64_t last_ = 0;
  std::vector<std::string> unwatched_;
  uint32_t readers_ = 0;
  base::Monotonic left_at_ = base::monotonicNow();  // by the last reader
};

}  // namespace cloister::orchestrator
