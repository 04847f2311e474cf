// SPDX-License-Identifier: Apache-2.0
// Kernels: interpreters that keep their state between the cells of a session; and how a cell meets
// its kernel inside the sandbox. Two programs that the runner has in itself (kStartFiles in
// runner.h) do it, with the rights of any other program of the sandbox:
//
//   kernel DIR CWD ARGUMENT…  makes DIR, its FIFOs and an empty file DIR/cell anew, says kReady on
//                             stdout, and becomes the interpreter, whose stdout and stderr are
//                             DIR/out and DIR/err
//   cell DIR CODE             hands CODE to the kernel of DIR, is its stdin, stdout and stderr, and
//                             says on stdout, in frames, what became of it; first the tail of what
//                             was written since the cell before
//
// An interpreter reads a cell from DIR/code: a line with its TAG, the text and a NUL; without the
// NUL it is none. Then it opens DIR/in, its stdin until the end of the cell, and DIR/report, where
// it says:
//
//   B TAG\n          the cell begins: from here on SIGINT interrupts it
//   R<SIZE> TAG\n…   a result, SIZE bytes of JSON: {"mime type": data}
//   D<CODE> TAG\n    the cell has ended and all it wrote is out; its exit code, 0 to 255
//
// The interpreter may keep the text in DIR/cell; it may be a user who can make no files there.
//
// While a cell meets its kernel it holds an exclusive flock(2) on DIR; another waits for it.
//
// What has another cell's tag is late, and passed over: code that ends its cell by a word of its
// own leaves the interpreter's to come.
//
// A frame is u8 type, u32 size, and `size` bytes. Nothing of this is trusted: code in a cell may
// say whatever an interpreter may, and can so deceive its own session.
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
