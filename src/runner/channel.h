// SPDX-License-Identifier: Apache-2.0
// Channel: one running program with its pipes, stdin buffer and accounts.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/fd.h"
#include "wire/runner.h"

namespace cloister::runner {

// Bytes on their way into a program's stdin.
class StdinBuffer {
 public:
  // Its memory from now on: wire::kStdinWindow bytes that outlive it.
  void use(char* bytes) { bytes_ = bytes; }
  void clear() { begin_ = size_ = 0; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] size_t size() const { return size_; }
  // False when it does not fit.
  bool add(std::string_view bytes);
  // The bytes that lie together at the front.
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
  bool saves = false;     // it has stopped the others, which it may no longer be able to let go on
  bool holds = false;     // the workspace: nothing of before changes it until it has ended
  bool serves = false;    // it is a copy of the runner that changes nothing in the workspace
  bool notes = false;     // it has noted what is to be undone
  bool begun = false;     // it is not one that still waits for its code
  bool stdin_closing = false;  // close stdin once the buffer is empty
  bool windowed = false;
  bool draining = false;   // it has ended, and these many bytes were left to be read:
  bool out_ready = false;  // poll(2) has said so: each call that has nothing to do costs, in gVisor
  bool err_ready = false;
  uint32_t taken = 0;  // bytes of stdin that the node is yet to hear of
  uint32_t out_left = 0;
  uint32_t err_left = 0;
  uint32_t window = 0;  // units of output that may be sent
  uint32_t number = 0;
  int kernel = -1;  // of the cell that it is: KernelOutputs
  pid_t pid = -1;
  int status = 0;
  uint64_t user_micros = 0;
  uint64_t system_micros = 0;
  uint64_t max_rss_bytes = 0;
  uint64_t read_bytes = 0;  // from storage
  uint64_t written_bytes = 0;
  uint32_t reaped = 0;
  uint32_t open_files = 0;  // of one process at the most, as far as was looked
  uint32_t file_table = 0;  // open_files.h; of a program that failed, or that said it has too many
  Fd in;
  Fd out;
  Fd err;
  StdinBuffer pending;

  void reset(uint32_t channel_number);
  // Bytes of output that may be read now, into one frame.
  [[nodiscard]] size_t allowance() const;
  // Its open files are to be looked at: it is a program's and runs.
  [[nodiscard]] bool watched() const { return used && begun && !ended && !notes; }
  void sawOpenFiles(uint32_t number_of_them) { open_files = std::max(open_files, number_of_them); }
  // `room`: tableIfAlone(). What cannot be seen once may have been any, and stays so.
  void sawTable(uint32_t room) { file_table = std::max(file_table, room > 0 ? room : UINT32_MAX); }
  // Adds what a reaped process used.
  void account(const rusage& usage);
  // Writes what the pipe takes, and adds to `taken`. A program that closed its stdin takes
  // everything.
  void feed();
};

}  // namespace cloister::runner
