// SPDX-License-Identifier: Apache-2.0
// The node's end of a runner's socket: frames in, frames out (wire/runner.h). Incoming frames are
// hostile: a frame that is too long or malformed ends the connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "base/fd.h"
#include "base/result.h"
#include "linux/proc_tree.h"
#include "model/walls.h"
#include "runtime/runtime.h"
#include "wire/frame.h"
#include "wire/runner.h"

namespace cloister::runtime {

struct RunnerFrame {
  wire::FromRunner type{};
  uint32_t channel = 0;
  std::string_view payload;  // valid until the next read
};

// kExited: the runner's report of a program's end.
struct ExitReport {
  bool signaled = false;
  int value = 0;  // exit code or signal
  uint32_t reaped = 0;
  uint64_t max_rss = 0;     // bytes
  uint64_t cpu_micros = 0;  // used without a better source
  linux::IoBytes io = {};   // traffic of the reaped processes
};
// kScratch: how full /workspace's file system is.
struct Scratch {
  uint64_t bytes = 0;
  uint64_t bytes_total = 0;
  uint64_t inodes = 0;
  uint64_t inodes_total = 0;
  uint64_t largest_file = 0;  // bytes, of files changed since the start of a failed program
  uint32_t open_files = 0;    // the most seen open in a process; 0: not counted
  uint32_t file_table = 0;    // size of the descriptor table at failure or at an EMFILE message; 0:
                              // not counted
};
// kCounts: of a guest's control group.
struct Counts {
  uint64_t memory_peak = 0;  // bytes
  uint64_t killed = 0;       // processes, for lack of memory
  uint64_t refused = 0;      // processes
};
// Limit of a runner's text in an error, in bytes.
inline constexpr size_t kMostSaid = 512;

// nullopt: malformed, or impossible values.
std::optional<ExitReport> decodeExited(std::string_view payload);
std::optional<Scratch> decodeScratch(std::string_view payload);
std::optional<Counts> decodeCounts(std::string_view payload);

// For kStartFailed because a program is missing or not executable. Both are failures of the
// request's program, with a shell's exit code (127 or 126) and message. nullopt for all other
// failures.
struct NotExecuted {
  int exit_code = 0;
  std::string message;  // a line
};
std::optional<NotExecuted> notExecuted(std::string_view what, int error, std::string_view program);

// Checks a runner's first frame: kHello, or the error of a process that failed to become the
// runner.
Result<> checkHello(const RunnerFrame& frame);

class RunnerChannel {
 public:
  RunnerChannel(const boost::asio::any_io_executor& executor, Fd socket);

  // From now on kCounts frames are allowed and stored in `counts`, which must outlive the channel.
  // read() does not return kCounts frames. Counts never decrease.
  void takeCounts(Counts& counts) { counts_ = &counts; }

  [[nodiscard]] int fd() const { return fd_; }
  // Whether received bytes are not yet read.
  [[nodiscard]] bool buffered() const { return begin_ < end_; }

  // kUnavailable: the runner closed the socket. kInvalid: protocol error.
  Task<Result<RunnerFrame>> read();
  // Writes whole frames, as made by addFrame(). At most one write at a time.
  Task<Result<>> write(std::string_view frames);
  // Writes whole frames with descriptors in a single message of at most kMaxWithFds bytes.
  static constexpr size_t kMaxWithFds = 8192;
  Task<Result<>> writeWithFds(std::string_view frames, const std::vector<int>& fds);

  // Ends pending and later reads and writes with kUnavailable. Pending calls resume after close()
  // returns, so the channel must outlive them.
  void close();

 private:
  Result<std::optional<RunnerFrame>> next();
  [[nodiscard]] bool keepCounts(std::string_view payload);

  Counts* counts_ = nullptr;
  int fd_;  // of socket_, -1 once closed
  boost::asio::local::stream_protocol::socket socket_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // start of buffered bytes not yet returned
  size_t end_ = 0;
};

// Appends a frame; `payload` is at most kRunnerMaxPayload.
void addFrame(std::string& out, wire::ToRunner type, uint32_t channel, std::string_view payload);
std::string u32Payload(uint32_t value);
// The payload of kWritable.
std::string writablePayload(const model::Walls& walls);
// A frame alone.
std::string frameOf(wire::ToRunner type, uint32_t channel, std::string_view payload = {});

}  // namespace cloister::runtime
