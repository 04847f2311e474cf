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
// Followed by the name of a file with a system call filter, which the runner installs first
// (runner/filter.h).
inline constexpr const char* kFilterFlag = "--filter";
// Before where programs may change files, "temporary" or "none" (runner/writes.h).
inline constexpr const char* kWritesFlag = "--writes";
// Before anything: it begins as root, with the right to change its user alone, and programs run as
// another user than the files' owner (runner/other_user.h).
inline constexpr const char* kOtherUserFlag = "--other-user";
// The runner begins as root with the rights to mount and to drop rights, and first shows programs
// so many processors (runner/share.h). Then kOtherUserFlag or kOwnUserFlag follows.
inline constexpr const char* kProcessorsFlag = "--processors";
// The runner begins as root, and first becomes the programs' user.
inline constexpr const char* kOwnUserFlag = "--own-user";
// Each program first sets its own limit of processor time again: gVisor does not enforce an
// inherited limit.
inline constexpr const char* kOwnLimitFlag = "--own-limit";
// The runner's stdin is its socket, which the runner first moves to kRunnerFd. A gVisor resumed
// from a checkpoint gets new standard streams, but no other descriptors.
inline constexpr const char* kAtStdinFlag = "--at-stdin";
// Followed by the number of the socket on which pid 1 makes sandboxes within (wire/guest.h).
inline constexpr const char* kNesterFlag = "--nester";
inline constexpr int kNesterFd = kRunnerFd + 1;
// Maximum payload in either direction; longer data is sent in pieces.
inline constexpr uint32_t kRunnerMaxPayload = 65'536;

enum class ToRunner : uint16_t {
  // bytes path (relative to /workspace, or with kSecretFiles), u32 mode (permission bits only), u64
  // size. Then kFileData until `size` is reached. Missing parent directories are made. A secret's
  // file takes the place of another in a single step, when complete. Answered only by kFileFailed.
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
  // none. Records the workspace's current files, so that kCollect finds new files. Send when the
  // files are in place and the compiler has ended, before the program's kStart.
  kMark = 8,
  // u32 count, at most kMaxGroups. As SCM_RIGHTS (unix(7)) come `count` files into which a process
  // writes "0" to join a control group. The program of the channel's next kStart joins before
  // anything else.
  kGroups = 9,
  // u32 window units of output received by the node: opens the window of kStartWindow.
  kTaken = 10,
  // none. SIGKILL to the program, its session and all descendants, for sandboxes without a control
  // group to find the processes. Ignored once the program has ended.
  kKill = 11,
  // u16 columns, u16 rows of the program's terminal. Ignored once the program has ended, or without
  // a terminal.
  kResize = 12,
  // none. Answered by kResting. Afterwards the runner sends nothing until kGoOn, nothing but kGoOn
  // may be sent, and no frame is half sent or half received: this runner, or a copy of its memory
  // with another socket, continues with a whole frame. Programs keep running.
  kRest = 13,
  // none. Answered by kHello.
  kGoOn = 14,
  // u32 count, count x (u8 operations, u8 beneath, bytes path), as model::Walls::Writable: paths
  // where programs started later may change files despite kWritesFlag. Replaces the previous list.
  kWritable = 15,
  // bytes path: a name directly in /workspace or /tmp that begins with kTemporary. Removes a
  // regular file; in /tmp also any other kind, including a directory's content as far as possible.
  // Or the path of a secret's file. No answer.
  kRemove = 16,
};

// Prefix of the names removed by kRemove.
inline constexpr char kTemporary[] = ".cloister";

// Paths of secrets' files, and where they lie: no snapshot has the folder, and no artifact comes
// from there. The first is a link to the second.
inline constexpr char kSecretFiles[] = "/run/secrets/";
inline constexpr char kSecretsPlace[] = "/dev/shm/.cloister-secrets";

inline constexpr uint32_t kMaxGroups = 16;

// Limit of stdin bytes per channel that the runner buffers for a slow program.
inline constexpr uint32_t kStdinWindow = 262'144;

inline constexpr uint8_t kStartStdin = 1;     // stdin is a pipe fed by kStdin; otherwise /dev/null
inline constexpr uint8_t kStartKillRest = 2;  // when the program ends, kill all other processes
                                              // inside
// Makes a FIFO `name` directly in /workspace, fed by kStdin; stdin is /dev/null. A program that
// reads the file so starts ahead of the file's content and waits for the content. A kFile of the
// same path later replaces the FIFO by a regular file in a single step: if kStdin sends the same
// content, the program reads the same from either.
inline constexpr uint8_t kStartFifo = 4;

// The program is already started (runner/runner.h): no command is sent, and the end of kStdin,
// which sends no data, lets the program continue. Only kStartKillRest may be combined.
inline constexpr uint8_t kStartAdopted = 8;

// Limits the channel's kStdout and kStderr to kOutputUnits sent but not yet acknowledged by kTaken:
// concurrent programs wait only for their own readers.
inline constexpr uint8_t kStartWindow = 16;
// The program is the runner's own: the command is its request, for files (wire/files.h) or of a
// kernel (wire/kernel.h).
inline constexpr uint8_t kStartFiles = 32;
// The program's standard streams are a new terminal (pts(4)), the controlling terminal of its
// session. kStdin is typed input, and the end of kStdin is the end-of-file character; all output is
// kStdout. When the program ends, the rest of its session gets SIGHUP. Not with kStartStdin,
// kStartFifo or kStartFiles.
inline constexpr uint8_t kStartTerminal = 64;

inline constexpr uint32_t kOutputUnits = 262'144;
// A frame's share of the window: its payload plus the node's cost of holding a frame.
inline constexpr uint32_t outputUnits(size_t payload_bytes) {
  return static_cast<uint32_t>(payload_bytes) + 64;
}

enum class FromRunner : uint16_t {
  // u32 pid as seen inside. The first message.
  kHello = 65,
  // none: the program has been executed
  kStarted = 66,
  // u32 errno, bytes what: the start failed
  kStartFailed = 67,
  // raw bytes
  kStdout = 68,
  kStderr = 69,
  // u8 (0 exited, 1 signaled), u32 code or signal, u64 user µs, u64 system µs, u64 max RSS bytes,
  // u32 processes reaped: for the program and all processes reaped meanwhile; u64 bytes read from
  // storage, u64 bytes written to storage, by the same. Sent after all output; the channel is free
  // again.
  kExited = 70,
  // bytes path, u64 size; then kFileContent until `size` is reached: always exactly `size` bytes,
  // filled up with zeros if the file shrinks meanwhile. Files are sent in byte order of paths.
  kFileBegin = 71,
  kFileContent = 72,
  // u32 files left out because of bounds or unreadable; a directory left out counts once
  kCollected = 73,
  // u32 errno, bytes what: writing a kFile failed
  kFileFailed = 74,
  // u64 bytes used, u64 bytes in total, u64 inodes used, u64 inodes in total of /workspace's file
  // system, u64 bytes of the largest file there if the program failed, otherwise 0, u32 maximum of
  // open files seen in a process, u32 size of the program's descriptor table at its failure or its
  // message of too many open files, the largest number if unknown. The last two are 0 if not looked
  // at. Sent before kExited. A runner resumed from an older memory image sends four or five
  // numbers.
  kScratch = 75,
  // u32 bytes of kStdin that the program has read or will never read: opens the node's window.
  // After the end of kStdin, sent at the latest before kExited.
  kStdinTaken = 76,
  // u64 maximum bytes of memory, u64 processes killed for lack of memory, u64 processes refused:
  // counts of the control group of all programs. Sent by pid 1 of a virtual machine, and accepted
  // only from pid 1: for other sandboxes the host's kernel counts. Channel 0; before each kExited,
  // and after a kill or a refusal.
  kCounts = 77,
  // none
  kResting = 78,
};

}  // namespace cloister::wire
