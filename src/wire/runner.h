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
// The runner's argument before the name of a file with a system call filter, which it takes on
// before all else (runner/filter.h).
inline constexpr const char* kFilterFlag = "--filter";
// Before where programs may change files, "temporary" or "none" (runner/writes.h).
inline constexpr const char* kWritesFlag = "--writes";
// Before anything: it begins as root, with the right to change its user alone, and programs run as
// another user than the files' owner (runner/other_user.h).
inline constexpr const char* kOtherUserFlag = "--other-user";
// Before anything: it begins as root, with the rights to mount and to give rights up, and shows
// programs that many processors (runner/share.h). Then kOtherUserFlag or kOwnUserFlag.
inline constexpr const char* kProcessorsFlag = "--processors";
// Before anything: it begins as root, and becomes who programs run as.
inline constexpr const char* kOwnUserFlag = "--own-user";
// Before anything: each program sets its limit of processor time anew, as it is. In gVisor one that
// was inherited does not hold.
inline constexpr const char* kOwnLimitFlag = "--own-limit";
// Before anything: the socket is its stdin, and it makes kRunnerFd of that. A gVisor that goes on
// from a checkpoint is given new standard streams, and no other descriptors.
inline constexpr const char* kAtStdinFlag = "--at-stdin";
// Before the number of the socket on which pid 1 makes sandboxes within (wire/guest.h).
inline constexpr const char* kNesterFlag = "--nester";
inline constexpr int kNesterFd = kRunnerFd + 1;
// Payloads are at most this long either way; longer data is sent in pieces.
inline constexpr uint32_t kRunnerMaxPayload = 65'536;

enum class ToRunner : uint16_t {
  // bytes path (relative to /workspace), u32 mode (permission bits only), u64 size. Then kFileData
  // until `size` is reached. Missing parent directories are made. Answered only by kFileFailed.
  kFile = 1,
  // raw bytes
  kFileData = 2,
  // One piece of an argument or environment list for the next kStart: u8 (0 argument, 1
  // environment), u8 more (the string goes on in the next piece), raw rest. No NUL inside.
  kText = 3,
  // u8 flags (kStart* below), bytes cwd ("" for /workspace), with kStartFifo bytes name, and with
  // kStartTerminal u16 columns, u16 rows. Starts
  // the command built by kText, in a session of its own: kStarted or kStartFailed. `channel` must
  // not be running already.
  kStart = 4,
  // raw bytes for stdin; empty: end of file. At most kStdinWindow bytes may be on their way, that
  // is, sent after kStart and not yet given back by kStdinTaken. Ignored once the program has
  // ended.
  kStdin = 5,
  // u32 signal, sent to the program's process group. Ignored once the program has ended.
  kSignal = 6,
  // u32 max_files, u64 max_bytes, u32 count, count x bytes glob. Answer: kFileBegin… kCollected, at
  // once or, while the channel's program runs, behind its kExited.
  kCollect = 7,
  // none. Takes note of the workspace's files as they are now, so that kCollect finds what is new:
  // to be sent when the files are in place and the compiler has ended, before the program's kStart.
  kMark = 8,
  // u32 count, at most kMaxGroups. With it come, as SCM_RIGHTS (unix(7)), `count` files that a
  // process
  // writes "0" into to join a control group: the program of the channel's kStart, which follows,
  // does
  // so before anything else.
  kGroups = 9,
  // u32 window units of output that the node has taken in: opens the window of kStartWindow.
  kTaken = 10,
  // none. SIGKILL to the program, its session and whatever descends from it, where no control group
  // tells who they are. Ignored once the program has ended.
  kKill = 11,
  // u16 columns, u16 rows: of the program's terminal. Ignored once the program has ended, or where
  // it has none.
  kResize = 12,
  // none. Answered by kResting, after which nothing is said until kGoOn, nothing may be sent but
  // that
  // before, and nothing lies half said or half heard: whoever goes on from here, this runner or a
  // copy of its memory with another socket, begins with a whole frame. Programs go on.
  kRest = 13,
  // none. Answered by kHello.
  kGoOn = 14,
  // u32 count, count x (u8 operations, u8 beneath, bytes path), as model::Walls::Writable: where
  // programs that start from now on may change files although kWritesFlag does not let them. It
  // takes the place of the list before it.
  kWritable = 15,
  // bytes path: kTemporary and what may be in a name, directly in /workspace or /tmp. A regular
  // file is removed; in /tmp also what else is there, with what is in it, as far as it can be. No
  // answer.
  kRemove = 16,
};

// How the names begin of what kRemove removes.
inline constexpr char kTemporary[] = ".cloister";

inline constexpr uint32_t kMaxGroups = 16;

// Bytes of stdin per channel that the runner holds for a program that is slow to read them.
inline constexpr uint32_t kStdinWindow = 262'144;

inline constexpr uint8_t kStartStdin = 1;     // stdin is a pipe fed by kStdin; otherwise /dev/null
inline constexpr uint8_t kStartKillRest = 2;  // when it ends, kill every other process inside
// A FIFO is made as `name`, directly in /workspace, and what kStdin brings goes there; stdin is
// /dev/null. A program that is to read that file starts ahead of the file's content and waits for
// it. A kFile of the same path then puts a regular file in the FIFO's place, in one step: whether
// the program has opened the one or opens the other, it reads the same if kStdin brings the same.
inline constexpr uint8_t kStartFifo = 4;

// The program is there already (runner/runner.h): no command is given, and the end of kStdin, which
// brings nothing else, sets it off. The only other flag that may be with it is kStartKillRest.
inline constexpr uint8_t kStartAdopted = 8;

// Of the channel's kStdout and kStderr at most kOutputUnits may be on their way, that is, sent and
// not yet given back by kTaken: programs beside each other wait only for their own readers.
inline constexpr uint8_t kStartWindow = 16;
// The program is the runner's own: the command is its request, for files (wire/files.h) or of a
// kernel (wire/kernel.h).
inline constexpr uint8_t kStartFiles = 32;
// The program's standard streams are a new terminal (pts(4)) of its own, which is the controlling
// one of its session. kStdin is typed at it, and the end of kStdin is its end of file character;
// all output is kStdout. When the program ends, what is left of its session gets SIGHUP. Without
// kStartStdin, kStartFifo and kStartFiles.
inline constexpr uint8_t kStartTerminal = 64;

inline constexpr uint32_t kOutputUnits = 262'144;
// A frame's share of it: its payload and what holding a frame costs the node.
inline constexpr uint32_t outputUnits(size_t payload_bytes) {
  return static_cast<uint32_t>(payload_bytes) + 64;
}

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
  // u32 processes reaped: of the program and of all that was reaped while it ran; u64 bytes read
  // from storage, u64 bytes written to it, by the same. Sent after all output; the channel is free
  // again.
  kExited = 70,
  // bytes path, u64 size; then kFileContent until `size` is reached: always exactly that many
  // bytes, filled up with zeros if the file shrinks meanwhile. Files come in byte order of paths.
  kFileBegin = 71,
  kFileContent = 72,
  // u32 files left out by the bounds or because they could not be read; a directory that was not
  // looked into counts as one
  kCollected = 73,
  // u32 errno, bytes what: a kFile could not be written
  kFileFailed = 74,
  // u64 bytes used, u64 bytes in total, u64 inodes used, u64 inodes in total of /workspace's file
  // system, u64 bytes of the largest file there if the program failed, otherwise 0, u32 files that
  // one of its processes was seen to have open at the most, u32 that the program's table had room
  // for when it failed or said that there were too many, the largest number where that could not be
  // seen; of both, 0 where nobody looked. Sent before kExited. A runner that goes on from an older
  // image of memory sends four or five numbers.
  kScratch = 75,
  // u32 bytes of kStdin that the program has read or will never read: opens the node's window. What
  // is taken when the end of kStdin has come is said before kExited at the latest.
  kStdinTaken = 76,
  // u64 bytes of memory at most, u64 processes killed for lack of it, u64 processes refused: what
  // the control group of all programs has counted so far. Said by pid 1 of a virtual machine, and
  // taken from nobody else: where the sandbox's processes are the host's, its own kernel says it.
  // Channel 0; before each kExited, and when something was killed or refused.
  kCounts = 77,
  // none
  kResting = 78,
};

}  // namespace cloister::wire
