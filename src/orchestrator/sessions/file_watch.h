// SPDX-License-Identifier: Apache-2.0
// FileWatch: changes in one directory of a session, for any number of readers at their own pace.
// One request to the file server (wire/files.h) serves all readers. The last changes are kept in
// bounded memory, and a reader behind these changes is notified. The watch continues for a while
// after its last reader has left, so that a returning reader misses nothing. One executor.
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
  uint32_t per_session = 4;             // directories watched at once, each with its subdirectories
  uint32_t directories = 8192;          // of a watch, at most wire::files::kMostWatched
  size_t kept_bytes = size_t{1} << 20;  // of changes
  Millis linger{30'000};                // without a reader
};

class FileWatch {
 public:
  struct Change {
    uint64_t seq = 0;  // from 1 on
    wire::files::Change what;
  };

  // Counts as a reader during its lifetime.
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

  // Takes the changes of `call` to its end, and ends the call after a long time without readers.
  // Without a call there is only the error.
  static Task<void> run(std::shared_ptr<FileWatch> self, Result<std::shared_ptr<FileCall>> call);
  static Task<void> endUnread(std::shared_ptr<FileWatch> self);

  // Resumes once the watch is ready, or has failed.
  static Task<Result<>> begun(std::shared_ptr<FileWatch> self);
  // Numbers of changes are valid only within the watch with this id.
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] uint64_t last() const { return last_; }
  // True if a reader with all changes up to `seq` can continue without loss.
  [[nodiscard]] bool keepsAfter(uint64_t seq) const;
  // The first change after `seq`; nothing while there is none.
  [[nodiscard]] const Change* after(uint64_t seq) const;
  // Unwatched directories, as last reported.
  [[nodiscard]] const std::vector<std::string>& unwatched() const { return unwatched_; }
  [[nodiscard]] bool closed() const { return closed_.has_value(); }
  [[nodiscard]] bool read() const { return readers_ > 0; }
  // The reason for the close; no error for a removed directory.
  [[nodiscard]] Result<> end() const { return closed_.value_or(Result<>{}); }
  // Ends the watch: its place is needed.
  void stop();

  // Resumes at a change after `seq`, at the close, or at `deadline`. The caller keeps the watch
  // alive.
  Task<void> wait(uint64_t seq, base::Monotonic deadline);

  // Handles the file server's changes, one by one, and its end.
  void take(wire::files::Change what);
  void close(Result<> why);

 private:
  std::string id_;
  WatchBounds bounds_;
  async::Signal changed_;  // also notified of begin and close
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
