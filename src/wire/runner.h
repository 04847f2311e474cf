// SPDX-License-Identifier: Apache-2.0
// Messages between node and runner, over a stream socket that the runner inherits as fd 3. Payload
// layouts are given beside each type, fields in order; `bytes` is a u32 length and that many bytes.
// The runner trusts the node; the node trusts nothing here. `channel` is the exec's number, chosen
// by the node (0: the sandbox itself).
#pragma once

#include <cstdint>

namespace cloister::wire {

// The socket's number inside, in both directions of trust the only channel.
inline constexpr int kRunnerFd = 3;
// Payloads are at most this long either way; longer data is sent in pieces.
inline constexpr uint32_t kRunnerMaxPayload = 65'536;

enum class ToRunner : uint16_t {
  // bytes path (relative to /workspace), u32 mode, u64 size. Then kFileData until `size` is
  // reached.
  kFile = 1,
  // raw bytes
  kFileData = 2,
  // One piece of an argument or environment list for the next kStart: u8 (0 argument, 1
  // environment),
  // u8 more (the string goes on in the next piece), raw rest.
  kText = 3,
  // u8 flags (kStart* below), bytes cwd. Starts the command built by kText.
  kStart = 4,
  // raw bytes for stdin; empty: end of file
  kStdin = 5,
  // u32 signal, sent to the program's process group
  kSignal = 6,
  // u32 max_files, u64 max_bytes, u32 count, count x bytes glob. Answer: kFileBegin… kCollected.
  kCollect = 7,
  // Takes note of the workspace's files as they are now, so that kCollect finds what is new.
  kMark = 8,
};

inline constexpr uint8_t kStartStdin = 1;     // stdin is a pipe fed by kStdin; otherwise /dev/null
inline constexpr uint8_t kStartKillRest = 2;  // when it ends, kill every other process inside

enum class FromRunner : uint16_t {
  // u32 pid as seen inside. The first message.
  kHello = 65,
  // none: the program has been executed
  kStarted = 66,
  // u32 errno, bytes what: it could not be
  kStartFailed = 67,
  // raw bytes
  kStdout = 68,
  kStderr = 69,
  // u8 (0 exited, 1 signaled), u32 code or signal, u64 user µs, u64 system µs, u64 max RSS bytes,
  // u32 processes reaped. Sent after all output.
  kExited = 70,
  // bytes path, u64 size; then kFileContent until `size` is reached
  kFileBegin = 71,
  kFileContent = 72,
  // u32 files left out by the bounds
  kCollected = 73,
  // u32 errno, bytes what: a kFile could not be written
  kFileFailed = 74,
  // u64 device blocks used, u64 total, u64 inodes used, u64 total of the scratch file system; sent
  // before kExited
  kScratch = 75,
};

}  // namespace cloister::wire
