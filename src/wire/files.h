// SPDX-License-Identifier: Apache-2.0
// A session's files: requests to the runner's built-in program (kStartFiles in runner.h), and the
// program's answers. The program runs like any other program of the sandbox, with the same rights
// and limits. So a request can do nothing that a program inside could not.
//
// A request is an argument list; the first argument names the request. A path is relative to
// /workspace, or begins with a directory of model::kFileRoots; the rest has no empty, `.` and `..`
// components. `PATH?` may be such a directory itself, "" for the workspace. No link is followed.
// Numbers are decimal.
//
//   stat PATH?                    an entry
//   list PATH? DEPTH LIMIT        the entries beneath PATH, in no order, then kEnd
//   read PATH OFFSET LENGTH       an entry, then at most LENGTH raw bytes from OFFSET on
//   write PATH MODE               replaces the file by stdin, at the end of stdin; an entry.
//                                 MODE "": as the replaced file, or 0644
//   append PATH OFFSET            stdin behind the file's OFFSET bytes; an entry. OFFSET 0 may
//                                 make the file
//   mkdir PATH                    with parent directories; an entry. An existing one is no error
//   remove PATH ALL               ALL 1: a directory with its contents
//   move FROM TO REPLACE          REPLACE 1: also over an existing TO of any kind
//   pack PATH?                    a tar archive (POSIX pax) of PATH on stdout
//   unpack PATH?                  the archive on stdin into PATH; kEnd
//   restore                       the archive of `save` on stdin into its directories; kEnd
//   connect PORT                  kEnd once a server on loopback has accepted; then stdin goes to
//                                 the server, and the answer's raw bytes are the server's output,
//                                 up to its end
//   clock                         an entry with the present time of the sandbox's clock as modified
//   changed SINCE LIMIT GLOB…     the files that have changed at SINCE (µs of the sandbox's clock)
//                                 or later and match a GLOB (runner/glob.h), as by list
//   save                          as pack of the workspace, while all other programs are stopped;
//                                 then the home directory's entries, by their absolute paths
//   state BYTES FILES             the state of the workspace, as "", and of each name in it and, by
//                                 absolute paths, in the home directory, in no order, then kEnd;
//                                 EFBIG above FILES files, or BYTES bytes in them
//   hold HOW BYTES FILES          as state, while nothing else of the session runs, and until stdin
//                                 ends. The node sets HOW: kHoldFrozen, or kHoldAlone, which fails
//                                 with EBUSY if another process exists
//   watch PATH? ALL DIRECTORIES   changes in a directory as they happen, from kReady on; ALL 1:
//                                 also in directories beneath, at most DIRECTORIES in all. kEnd
//                                 when PATH is gone
//   tools                         kEnd once programs can call; then, for each call, u32 caller, u32
//                                 size and as many bytes: a line of the caller's. stdin takes the
//                                 answers in the same form, one for each, of any size, in any order
//   checkpoint                    the sandbox's memory image (sandbox/box/memory_image.h) as a
//                                 tar archive on stdout, by the node and not by the runner; no end
//   resume                        also by the node, in a sandbox in which nothing has run: the
//                                 sandbox continues from the image on stdin; kEnd
//   layer NAME PATH               also by the node: the directory PATH becomes a dependency layer;
//                                 its JSON on stdout, no end
//   nest PARAMETER...             a sandbox within this one, with these parameters (wire/guest.h):
//                                 stdin and stdout are its runner's stream (wire/runner.h), without
//                                 an answer of the program; the sandbox ends with either stream
//
// Answers come on stdout. An entry is u8 kind, u32 mode, u64 size, i64 modified (wall-clock µs),
// bytes path (beneath the requested path; "" for the path itself). kEnd is its kind and u32 the
// number of omitted entries. A change is u8 kChange, u8 ChangeKind, u8 1 for a directory, bytes
// path, bytes from; both beneath the watched directory, "" being the directory itself. A state is
// u8 kState, u32 st_mode, u64 size, bytes path, bytes the SHA-256 of a file, or the target of a
// link, or nothing. Then follow, of a regular file, i64 seconds and u32 nanoseconds of its last
// modification, and, with more than one name, u64 device and u64 inode; each of these is 0
// otherwise. The exit code is 0, or kFailed with, on stderr, u32 errno and bytes what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/writable.h"

namespace cloister::wire::files {

// Whether `path` is the directory `root` or leads into it. Without the heap.
constexpr bool isWithin(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

enum class Kind : uint8_t {
  kEnd = 0,
  kFile = 1,
  kDirectory = 2,
  kLink = 3,
  kOther = 4,
  kChange = 5,
  kState = 7  // 6 had the digest of a link's target, and no times
};

enum class ChangeKind : uint8_t {
  kReady = 0,    // from now on only changes named by kOverflow and kLimit are missed
  kCreated = 1,  // or moved here from where nothing is watched
  kModified = 2,
  kMoved = 3,     // `from` is the earlier path
  kRemoved = 4,   // or moved to where nothing is watched
  kOverflow = 5,  // changes were missed; kLimit changes are sent again
  kLimit = 6,  // `path` and below are not watched: too many directories, too deep, or not readable
};

// kLimit names at most kMostLimits directories. A single "" stands for the next and all others:
// parts of the whole are missing.
inline constexpr uint32_t kMostLimits = 16;
// Maximum number of directories watched by a request.
inline constexpr uint32_t kMostWatched = 8192;
// An upload in the place of a file begins with such a name. Its changes are not told.
inline constexpr char kUploadName[] = ".cloister-upload-";

inline constexpr char kSave[] = "save";
inline constexpr char kRestore[] = "restore";
inline constexpr char kHold[] = "hold";
// Ways to hold the workspace: all other programs are stopped from outside, or no other program
// exists.
inline constexpr char kHoldFrozen[] = "frozen";
inline constexpr char kHoldAlone[] = "alone";
inline constexpr char kNest[] = "nest";
inline constexpr char kCheckpoint[] = "checkpoint";
inline constexpr char kResume[] = "resume";
inline constexpr char kLayer[] = "layer";

// The Unix socket for programs' calls (unix(7), in the abstract namespace, separate in each
// sandbox). A call is a line of JSON, and so is its answer, in order on each connection. At most
// kMostToolCallers connections exist.
inline constexpr char kToolSocket[] = "cloister-tools";
inline constexpr uint32_t kMostToolCallers = 8;
inline constexpr size_t kMaxToolRequest = 262'144;
inline constexpr char kToolTooLong[] =
    R"({"error":{"type":"INVALID_REQUEST","message":"a call: at most 262143 bytes are allowed",)"
    R"("details":{},"retryable":false}})"
    "\n";

inline constexpr int kFailed = 65;

// Maximum depth of directories listed, removed or packed.
inline constexpr uint32_t kMaxDepth = 128;

}  // namespace cloister::wire::files
