// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/recorder.h"

#include <algorithm>
#include <utility>

#include "base/content_type.h"
#include "base/id.h"
#include "base/json.h"
#include "base/log.h"
#include "orchestrator/runs/verdict.h"

namespace cloister::orchestrator {
namespace {

constexpr size_t kHeadBytes = 512;

bool isConfined(std::string_view path) {
  if (path.empty() || path.front() == '/') return false;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return true;
}

// Control characters (C0, DEL, C1) and the bidirectional controls U+200E…F, U+202A…E, U+2066…9.
bool hasControls(std::string_view text) {
  for (size_t i = 0; i < text.size(); i++) {
    const auto at = [&](size_t n) {
      return i + n < text.size() ? static_cast<uint8_t>(text[i + n]) : uint8_t{0};
    };
    if (at(0) < 0x20 || at(0) == 0x7f) return true;
    if (at(0) == 0xc2 && at(1) >= 0x80 && at(1) <= 0x9f) return true;
    if (at(0) != 0xe2) continue;
    if (at(1) == 0x80 && (at(2) == 0x8e || at(2) == 0x8f || (at(2) >= 0xa8 && at(2) <= 0xae))) {
      return true;
    }
    if (at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9) return true;
  }
  return false;
}

}  // namespace

std::string displayPath(std::string_view path) {
  if (!isConfined(path)) return "";
  if (base::isUtf8(path) && !hasControls(path)) return std::string(path);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string shown;
  for (const char c : path) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte > 0x20 && byte < 0x7f && byte != '%') {
      shown += c;
    } else {
      (shown += '%') += kHex[byte >> 4];
      shown += kHex[byte & 15];
    }
  }
  return shown;
}

Recorder::Recorder(artifacts::Blobs& blobs, Owner owner, OutputLog& log, Bounds bounds,
                   Events events)
    : blobs_(blobs),
      owner_(std::move(owner)),
      log_(log),
      bounds_(std::move(bounds)),
      events_(std::move(events)) {}

// Whether the tenant has room for another blob of at most so many bytes, which are then taken.
bool Recorder::take(uint64_t bytes) {
  if (!room_) room_ = owner_.room();
  if (room_->artifacts == 0 || room_->bytes < bytes) {
    over_quota_ = true;
    return false;
  }
  room_->artifacts--;
  room_->bytes -= bytes;
  return true;
}

Result<std::unique_ptr<artifacts::BlobWriter>> Recorder::create() {
  return blobs_.create(owner_.tenant);
}

Result<std::string> Recorder::finish(std::unique_ptr<artifacts::BlobWriter> writer) {
  std::string digest = TRY(writer->finish());
  finished_.push_back(std::move(writer));
  return digest;
}

void Recorder::onStarted() {
  events_.started();
}

void Recorder::onUsage(const model::Usage& usage) {
  events_.usage(usage);
}

runtime::Task<void> Recorder::onOutput(model::Stream stream, std::string_view bytes) {
  record(stream, bytes);
  co_return;
}

void Recorder::record(model::Stream stream, std::string_view bytes) {
  StreamRecord& record = of(stream);
  record.digest.update(bytes);
  combined_.update(bytes);
  keepWhole(record, stream, bytes);
  log_.append(stream, bytes);
}

// The log has all that came before `bytes` until it has more than its bound: one of a terminal
// forgets its beginning with what is appended then.
void Recorder::keepWhole(StreamRecord& record, model::Stream stream, std::string_view bytes) {
  if (log_.total(stream) + bytes.size() <= bounds_.output || !lost_.empty()) return;
  Result<> stored;
  if (!record.whole) {
    if (record.stored > 0) return;  // given up
    if (over_quota_ || !take(bounds_.whole)) return;
    auto writer = create();
    if (!writer) return lose(writer.error());
    record.whole = *std::move(writer);
    const std::string_view before = log_.kept(stream, 0);
    stored = record.whole->write(before);
    record.stored = before.size();
  }
  const uint64_t room = bounds_.whole - std::min(bounds_.whole, record.stored);
  const std::string_view piece =
      bytes.substr(0, static_cast<size_t>(std::min<uint64_t>(room, bytes.size())));
  if (stored && !piece.empty()) stored = record.whole->write(piece);
  record.stored += piece.size();
  if (stored) return;
  record.whole.reset();
  lose(stored.error());
}

runtime::Task<void> Recorder::onFileBegin(std::string path, uint64_t size) {
  file_.reset();
  std::string shown = displayPath(path);
  const bool fits =
      files_ < bounds_.artifacts.max_files &&
      size <= bounds_.artifacts.max_bytes - std::min(file_bytes_, bounds_.artifacts.max_bytes);
  if (shown.empty() || !fits) {
    truncated_ = truncated_ || !fits;
    co_return;
  }
  if (!take(size)) co_return;
  auto writer = create();
  if (!writer) {
    lose(writer.error());
    co_return;
  }
  files_++;
  file_ = std::make_unique<FileRecord>();
  file_->path = std::move(shown);
  file_->writer = *std::move(writer);
}

runtime::Task<void> Recorder::onFileData(std::string_view bytes) {
  if (!file_) co_return;
  file_bytes_ += bytes.size();
  if (file_bytes_ > bounds_.artifacts.max_bytes) {
    truncated_ = true;
    file_.reset();
    co_return;
  }
  file_->size += bytes.size();
  if (file_->head.size() < kHeadBytes) file_->head += bytes.substr(0, kHeadBytes);
  if (const auto stored = file_->writer->write(bytes); !stored) {
    lose(stored.error());
    file_.reset();
  }
}

runtime::Task<void> Recorder::onFileEnd() {
  if (!file_) co_return;
  const std::unique_ptr<FileRecord> file = std::move(file_);
  auto digest = finish(std::move(file->writer));
  if (!digest) {
    lose(digest.error());
    co_return;
  }
  artifacts_.push_back({base::newId("art"), file->path, file->size,
                        base::sniffContentType(file->path, file->head), *std::move(digest)});
}

void Recorder::complete(model::Execution& execution, bool truncated) {
  execution.artifacts = std::move(artifacts_);
  finishStream(model::Stream::kStdout, execution.out, execution);
  finishStream(model::Stream::kStderr, execution.err, execution);
  execution.provenance.output_sha256 = combined_.hex();
  if (!lost_.empty()) noteLostArtifacts(execution, lost_);
  if (truncated || truncated_) {
    noteTruncatedArtifacts(execution, bounds_.artifacts.max_files, bounds_.artifacts.max_bytes);
  }
  if (over_quota_) noteOverQuota(execution);
  noteTruncatedOutput(execution, bounds_.output);
}

void Recorder::finishStream(model::Stream stream, model::KeptOutput& kept,
                            model::Execution& execution) {
  StreamRecord& record = of(stream);
  const bool is_out = stream == model::Stream::kStdout;
  (is_out ? execution.provenance.stdout_sha256 : execution.provenance.stderr_sha256) =
      record.digest.hex();
  kept.bytes = log_.kept(stream, 0);
  kept.total = log_.total(stream);
  kept.truncated = kept.total > kept.bytes.size();
  if (!record.whole) return;
  auto digest = finish(std::move(record.whole));
  if (!digest) return lose(digest.error());
  // A hidden name: the sandbox's own artifacts never have one.
  kept.artifact = base::newId("art");
  execution.artifacts.push_back({.id = kept.artifact,
                                 .path = is_out ? ".cloister/stdout" : ".cloister/stderr",
                                 .size = record.stored,
                                 .content_type = "application/octet-stream",
                                 .sha256 = *std::move(digest),
                                 .full_size = kept.total > record.stored ? kept.total : 0});
}

Recorder::StreamRecord& Recorder::of(model::Stream stream) {
  return stream == model::Stream::kStdout ? out_ : err_;
}

void Recorder::lose(const Error& error) {
  if (!lost_.empty()) return;
  lost_ = error.message;
  base::log(base::Level::kError, "artifact not stored", {{"reason", error.message}});
}

}  // namespace cloister::orchestrator
