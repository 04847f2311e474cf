// SPDX-License-Identifier: Apache-2.0
// Channel: one running program with its pipes, stdin buffer and accounts.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <time.h>

#include "base/fd.h"
#include "wire/runner.h"

namespace cloister::runner {

// Bytes on their way into a program's stdin.
class StdinBuffer {
 public:
  // Sets the memory: wire::kStdinWindow bytes that must outlive the buffer.
  void use(char* bytes) { bytes_ = bytes; }
  void clear() { begin_ = size_ = 0; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] size_t size() const { return size_; }
  // False if the bytes do not fit.
  bool add(std::string_view bytes);
  // The contiguous bytes at the front.
  [[nodiscard]] std::string_view front() const;
  void take(size_t n);

 private:
  size_t begin_ = 0;
  size_t size_ = 0;
  char* bytes_ = nullptr;
};

struct Channel {
  bool used = false;
  bool ended = false;  // the program has been reaped; `status` holds
  bool kill_rest = false;
  bool adopted = false;
  bool waited = false;    // at a FIFO
  bool terminal = false;  // `in` and `out` are its other side
  bool saves = false;     // the program has stopped all others, which must be resumed even if the
                          // program is killed
  bool holds = false;     // holds the workspace: no earlier program changes files until the end
  bool serves = false;    // a copy of the runner that changes nothing in the workspace
  bool notes = false;     // has notes of steps to undo
  bool begun = false;     // false while waiting for its code
  bool stdin_closing = false;  // close stdin once the buffer is empty
  bool windowed = false;
  bool draining = false;   // ended, with so many bytes left to read:
  bool out_ready = false;  // poll(2) has reported data: needless calls are expensive in gVisor
  bool err_ready = false;
  uint32_t taken = 0;  // bytes of stdin not yet reported to the node
  uint32_t out_left = 0;
  uint32_t err_left = 0;
  uint32_t window = 0;  // units of output that may be sent
  uint32_t number = 0;
  int kernel = -1;  // for a cell: index in KernelOutputs
  pid_t pid = -1;
  int status = 0;
  uint64_t user_micros = 0;
  uint64_t system_micros = 0;
  uint64_t max_rss_bytes = 0;
  uint64_t read_bytes = 0;  // from storage
  uint64_t written_bytes = 0;
  uint32_t reaped = 0;
  timespec since = {};      // its start, by the clock of files
  uint32_t open_files = 0;  // maximum of a process, as far as seen
  uint32_t file_table = 0;  // open_files.h; of a failed program, or after a message of too many
                            // open files
  Fd in;
  Fd out;
  Fd err;
  StdinBuffer pending;

  void reset(uint32_t channel_number);
  // Bytes of output that may now be read into a frame.
  [[nodiscard]] size_t allowance() const;
  // Whether to look at its open files: a running program's channel.
  [[nodiscard]] bool watched() const { return used && begun && !ended && !notes; }
  void sawOpenFiles(uint32_t number_of_them) { open_files = std::max(open_files, number_of_them); }
  // `room`: tableIfAlone(). An unknown size counts as the largest, for good.
  void sawTable(uint32_t room) { file_table = std::max(file_table, room > 0 ? room : UINT32_MAX); }
  // Adds a reaped process's usage.
  void account(const rusage& usage);
  // Writes as much as the pipe accepts, and adds to `taken`. A program that closed its stdin
  // accepts everything.
  void feed();
};

}  // namespace cloister::runner
