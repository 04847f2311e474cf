// SPDX-License-Identifier: Apache-2.0
// The node's end of a runner's socket: frames in, frames out (wire/runner.h). What comes in is
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

// kExited: what the runner says of a program's end.
struct ExitReport {
  bool signaled = false;
  int value = 0;  // exit code or signal
  uint32_t reaped = 0;
  uint64_t max_rss = 0;     // bytes
  uint64_t cpu_micros = 0;  // where nobody else tells
  linux::IoBytes io = {};   // of those reaped
};
// kScratch: how full /workspace's file system is.
struct Scratch {
  uint64_t bytes = 0;
  uint64_t bytes_total = 0;
  uint64_t inodes = 0;
  uint64_t inodes_total = 0;
  uint64_t largest_file = 0;  // bytes, of a program that failed
  uint32_t open_files = 0;    // of one process, at the most that was seen; 0: nobody looked
  uint32_t file_table = 0;    // room for so many, when it failed or said it has too many; likewise
};
// kCounts: of a guest's control group.
struct Counts {
  uint64_t memory_peak = 0;  // bytes
  uint64_t killed = 0;       // processes, for lack of memory
  uint64_t refused = 0;      // processes
};
// Of a runner's words in an error, bytes.
inline constexpr size_t kMostSaid = 512;

// nullopt: malformed, or not what a kernel would say.
std::optional<ExitReport> decodeExited(std::string_view payload);
std::optional<Scratch> decodeScratch(std::string_view payload);
std::optional<Counts> decodeCounts(std::string_view payload);

// Of kStartFailed, where a program could not be executed as there is none, or none that may be: the
// program's own failure, with the exit code that a shell gives it, 127 or 126, and what a shell
// would say. Nothing for every other failure.
struct NotExecuted {
  int exit_code = 0;
  std::string message;  // a line
};
std::optional<NotExecuted> notExecuted(std::string_view what, int error, std::string_view program);

// A runner's first frame: that it is there; or, of who was to become it, what failed.
Result<> checkHello(const RunnerFrame& frame);

class RunnerChannel {
 public:
  RunnerChannel(const boost::asio::any_io_executor& executor, Fd socket);

  // From now on kCounts is allowed, and kept in `counts`, which outlives this; read() does not give
  // it out. Counts never go down.
  void takeCounts(Counts& counts) { counts_ = &counts; }

  [[nodiscard]] int fd() const { return fd_; }
  // Something has come that was not read yet.
  [[nodiscard]] bool buffered() const { return begin_ < end_; }

  // kUnavailable: the runner has closed. kInvalid: it broke the protocol.
  Task<Result<RunnerFrame>> read();
  // Whole frames, as of addFrame(). One write at a time.
  Task<Result<>> write(std::string_view frames);
  // Whole frames with descriptors, which go as one message: at most kMaxWithFds bytes.
  static constexpr size_t kMaxWithFds = 8192;
  Task<Result<>> writeWithFds(std::string_view frames, const std::vector<int>& fds);

  // Ends what reads or writes now, and what would later: kUnavailable. They resume after this has
  // returned, so the channel outlives them.
  void close();

 private:
  Result<std::optional<RunnerFrame>> next();
  [[nodiscard]] bool keepCounts(std::string_view payload);

  Counts* counts_ = nullptr;
  int fd_;  // of socket_, -1 once closed
  boost::asio::local::stream_protocol::socket socket_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what is buffered and not yet given out
  size_t end_ = 0;
};

// Appends one frame; `payload` is at most kRunnerMaxPayload.
void addFrame(std::string& out, wire::ToRunner type, uint32_t channel, std::string_view payload);
std::string u32Payload(uint32_t value);
// Of kWritable.
std::string writablePayload(const model::Walls& walls);
// A frame alone.
std::string frameOf(wire::ToRunner type, uint32_t channel, std::string_view payload = {});

}  // namespace cloister::runtime
