// SPDX-License-Identifier: Apache-2.0
#include "wire/files_codec.h"

#include <errno.h>

#include <algorithm>
#include <array>

#include "wire/codec.h"
#include "wire/string_writer.h"

namespace cloister::wire::files {
namespace {

constexpr size_t kEntryHead = 1 + 4 + 8 + 8 + 4;
constexpr size_t kEnd = 1 + 4;
constexpr size_t kMaxPath = 4096;  // PATH_MAX
constexpr size_t kChangeHead = 1 + 1 + 1;

struct Failure {
  int number;
  Code code;
  std::string_view why;
};

// The message names all three settings: the remedy depends on the workspace's place and limits.
constexpr std::string_view kFull =
    "the workspace is full; raise memory_mb where it is in memory, of which it has three quarters, "
    "or disk_mb or inodes";

constexpr std::array kFailures = {
    Failure{ENOENT, Code::kNotFound, "there is no such file or directory"},
    Failure{EEXIST, Code::kConflict, "it is there already; say overwrite to replace it"},
    Failure{ENOTEMPTY, Code::kConflict, "the directory is not empty; say recursive"},
    Failure{EISDIR, Code::kConflict, "it is a directory"},
    Failure{ENOTDIR, Code::kConflict,
            "a part of it is no directory, or a link, which is not followed"},
    Failure{ELOOP, Code::kConflict, "it is a link, which is not followed"},
    Failure{EXDEV, Code::kConflict, "it is on another file system; copy it instead"},
    Failure{ENXIO, Code::kConflict, "it is not a regular file"},
    Failure{EMFILE, Code::kUnavailable,
            "the host has no more inotify instances; raise fs.inotify.max_user_instances"},
    Failure{EUSERS, Code::kUnavailable,
            "the host has no more inotify watches; raise fs.inotify.max_user_watches"},
    Failure{ESPIPE, Code::kConflict, "the file does not end at that offset"},
    Failure{EACCES, Code::kConflict, "the sandbox may not do that there"},
    Failure{EPERM, Code::kConflict, "the sandbox may not do that there"},
    Failure{EBUSY, Code::kConflict, "it is in use"},
    Failure{ECONNREFUSED, Code::kNotFound, "no server listens on that port"},
    Failure{EAGAIN, Code::kUnavailable, "what runs there could not be stopped; try again"},
    Failure{ENOLCK, Code::kUnavailable,
            "a program has a lease on a file there (F_SETLEASE); end it, or try again"},
    Failure{EINVAL, Code::kInvalid, "not a path or an archive that can be used"},
    Failure{ENAMETOOLONG, Code::kInvalid, "a name, or the nesting of directories, is too long"},
    Failure{ENOSPC, Code::kTooLarge, kFull},
    Failure{EDQUOT, Code::kTooLarge, kFull},
    Failure{EFBIG, Code::kTooLarge, "larger than a file may be; raise file_size_mb"},
};

// The length-prefixed bytes at the front of `bytes`; nullopt until complete.
Result<std::optional<std::string_view>> takeBytes(std::string_view& bytes) {
  if (bytes.size() < 4) return std::nullopt;
  const uint32_t size = Reader(bytes.substr(0, 4)).u32();
  if (size > kMaxPath) return fail(Code::kInvalid, "reading a list of files: a path is too long");
  if (bytes.size() < 4 + size_t{size}) return std::nullopt;
  const std::string_view taken = bytes.substr(4, size);
  bytes.remove_prefix(4 + size_t{size});
  return taken;
}

Result<std::optional<Part>> takeChange(std::string_view& bytes) {
  if (bytes.size() < kChangeHead) return std::nullopt;
  Reader head(bytes.substr(1, 2));
  const uint8_t kind = head.u8();
  const uint8_t directory = head.u8();
  if (kind > static_cast<uint8_t>(ChangeKind::kLimit) || directory > 1) {
    return fail(Code::kInvalid, "reading changes of files: not one");
  }
  std::string_view rest = bytes.substr(kChangeHead);
  const auto path = TRY(takeBytes(rest));
  if (!path) return std::nullopt;
  const auto from = TRY(takeBytes(rest));
  if (!from) return std::nullopt;
  bytes = rest;
  return Part(Change{.kind = static_cast<ChangeKind>(kind),
                     .directory = directory != 0,
                     .path = std::string(*path),
                     .from = std::string(*from)});
}

Result<std::optional<Part>> takeState(std::string_view& bytes) {
  constexpr size_t kHead = 1 + 4 + 8;
  constexpr size_t kTail = 8 + 4 + 8 + 8;
  if (bytes.size() < kHead) return std::nullopt;
  Reader head(bytes.substr(1, kHead - 1));
  State state;
  state.mode = head.u32();
  state.size = head.u64();
  std::string_view rest = bytes.substr(kHead);
  const auto path = TRY(takeBytes(rest));
  if (!path) return std::nullopt;
  const auto sum = TRY(takeBytes(rest));
  if (!sum || rest.size() < kTail) return std::nullopt;
  Reader tail(rest.substr(0, kTail));
  rest.remove_prefix(kTail);
  state.path = *path;
  state.sum = *sum;
  state.modified_s = tail.i64();
  state.modified_ns = tail.u32();
  state.device = tail.u64();
  state.inode = tail.u64();
  bytes = rest;
  return Part(std::move(state));
}

}  // namespace

Result<std::optional<Part>> takePart(std::string_view& bytes) {
  if (bytes.size() < kEnd) return std::nullopt;
  const auto kind = static_cast<uint8_t>(bytes[0]);
  if (kind == static_cast<uint8_t>(Kind::kChange)) return takeChange(bytes);
  if (kind == static_cast<uint8_t>(Kind::kState)) return takeState(bytes);
  if (kind > static_cast<uint8_t>(Kind::kOther)) {
    return fail(Code::kInvalid, "reading a list of files: not one");
  }
  if (static_cast<Kind>(kind) == Kind::kEnd) {
    Reader r(bytes.substr(1, kEnd - 1));
    bytes.remove_prefix(kEnd);
    return Part(EndOfEntries{r.u32()});
  }
  if (bytes.size() < kEntryHead) return std::nullopt;
  Reader length(bytes.substr(kEntryHead - 4, 4));
  const uint32_t path = length.u32();
  if (path > kMaxPath) return fail(Code::kInvalid, "reading a list of files: a path is too long");
  if (bytes.size() < kEntryHead + path) return std::nullopt;
  Reader r(bytes.substr(1, kEntryHead - 1 + path));
  Entry entry{.kind = static_cast<Kind>(kind),
              .mode = r.u32(),
              .size = r.u64(),
              .modified_at = r.i64(),
              .path = {}};
  entry.path = r.bytes();
  bytes.remove_prefix(kEntryHead + path);
  return Part(std::move(entry));
}

Result<std::optional<ToolCall>> takeToolCall(std::string_view& bytes) {
  constexpr size_t kHead = 2 * sizeof(uint32_t);
  if (bytes.size() < kHead) return std::nullopt;
  Reader r(bytes);
  const uint32_t caller = r.u32();
  const uint32_t size = r.u32();
  if (caller >= kMostToolCallers || size > kMaxToolRequest) {
    return fail(Code::kInvalid, "reading a call: not one");
  }
  if (bytes.size() < kHead + size) return std::nullopt;
  ToolCall call{caller, std::string(bytes.substr(kHead, size))};
  bytes.remove_prefix(kHead + size);
  return call;
}

std::string toolAnswerHead(uint32_t caller, size_t size) {
  StringWriter w;
  w.u32(caller);
  w.u32(static_cast<uint32_t>(size));
  return w.take();
}

std::string encode(const Part& part) {
  StringWriter w;
  if (const auto* end = std::get_if<EndOfEntries>(&part)) {
    w.u8(static_cast<uint8_t>(Kind::kEnd));
    w.u32(end->left_out);
  } else if (const auto* change = std::get_if<Change>(&part)) {
    w.u8(static_cast<uint8_t>(Kind::kChange));
    w.u8(static_cast<uint8_t>(change->kind));
    w.u8(change->directory ? 1 : 0);
    w.bytes(change->path);
    w.bytes(change->from);
  } else if (const auto* state = std::get_if<State>(&part)) {
    w.u8(static_cast<uint8_t>(Kind::kState));
    w.u32(state->mode);
    w.u64(state->size);
    w.bytes(state->path);
    w.bytes(state->sum);
    w.i64(state->modified_s);
    w.u32(state->modified_ns);
    w.u64(state->device);
    w.u64(state->inode);
  } else {
    const auto& entry = std::get<Entry>(part);
    w.u8(static_cast<uint8_t>(entry.kind));
    w.u32(entry.mode);
    w.u64(entry.size);
    w.i64(entry.modified_at);
    w.bytes(entry.path);
  }
  return std::move(w).take();
}

Error failure(std::string_view said) {
  Reader r(said);
  const auto number = static_cast<int>(r.u32());
  const auto* const known = std::ranges::find(kFailures, number, &Failure::number);
  if (!r.ok() || known == kFailures.end()) {
    return {Code::kInternal, r.ok() ? "error " + std::to_string(number) : "no reason was given",
            ""};
  }
  return {known->code, std::string(known->why), "path"};
}

}  // namespace cloister::wire::files
