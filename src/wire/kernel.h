// SPDX-License-Identifier: Apache-2.0
// Kernels: interpreters that keep their state between the cells of a session; and the connection of
// a cell to its kernel inside the sandbox. Two built-in programs of the runner (kStartFiles in
// runner.h) implement both, with the rights of any other program of the sandbox:
//
//   kernel DIR CWD ARGUMENT…  makes DIR, its FIFOs and an empty file DIR/cell anew, sends kReady on
//                             stdout, and becomes the interpreter, whose stdout and stderr are
//                             DIR/out and DIR/err
//   cell DIR CODE             hands CODE to the kernel of DIR, serves as the kernel's stdin, stdout
//                             and stderr, and reports the result on stdout, in frames; first
//                             the tail of the output since the previous cell
//
// An interpreter reads a cell from DIR/code: a line with the cell's TAG, the text and a NUL; text
// without the NUL is no cell. Then the interpreter opens DIR/in, its stdin until the end of the
// cell, and DIR/report, for its reports:
//
//   B TAG\n          the cell begins: from here on SIGINT interrupts the cell
//   R<SIZE> TAG\n…   a result, SIZE bytes of JSON: {"mime type": data}
//   D<CODE> TAG\n    the cell has ended with all output written; its exit code, 0 to 255
//
// The interpreter may keep the text in DIR/cell; the interpreter's user may be unable to make files
// there.
//
// A running cell holds an exclusive flock(2) on DIR; another cell waits for the lock.
//
// A report with another cell's tag is late, and ignored. Such a report comes from the interpreter
// after the cell's code has forged an end of its own.
//
// A frame is u8 type, u32 size, and `size` bytes. No part of this is trusted: code in a cell may
// send anything that an interpreter may send, and can only deceive its own session.
#pragma once

#include <cstdint>
#include <string_view>

namespace cloister::wire::kernel {

inline constexpr std::string_view kKernel = "kernel";
inline constexpr std::string_view kCell = "cell";
inline constexpr std::string_view kReady = "ready";

enum class Frame : uint8_t {
  kStdout = 1,
  kStderr = 2,
  kBegun = 3,   // none
  kResult = 4,  // u32 size of a result, whose bytes come in kPiece frames
  kPiece = 5,
  kDone = 6,  // u32 exit code; the last
};

inline constexpr uint32_t kTagSize = 16;  // hexadecimal digits
inline constexpr uint32_t kFrameHead = 5;
inline constexpr uint32_t kMaxFrame = 65'536;
// Larger than any result that is kept; more is a protocol error.
inline constexpr uint32_t kMaxResult = uint32_t{1} << 30;

}  // namespace cloister::wire::kernel
