// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/recorder.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "async/together.h"
#include "base/content_type.h"
#include "base/id.h"
#include "base/json.h"
#include "base/log.h"
#include "orchestrator/core/display_path.h"
#include "orchestrator/runs/verdict.h"

namespace cloister::orchestrator {
namespace {

constexpr size_t kHeadBytes = 512;

void keepTail(std::string& tail, std::string_view bytes) {
  constexpr size_t kMost = Recorder::kTailBytes;
  tail.append(bytes.substr(bytes.size() - std::min(bytes.size(), kMost)));
  if (tail.size() > 2 * kMost) tail.erase(0, tail.size() - kMost);
}

}  // namespace

Recorder::Recorder(artifacts::Blobs& blobs, Owner owner, OutputLog& log, Bounds bounds,
                   Events events, std::shared_ptr<const KnownSecrets> known, DlpRules rules)
    : blobs_(blobs),
      owner_(std::move(owner)),
      log_(log),
      bounds_(std::move(bounds)),
      events_(std::move(events)),
      known_(std::move(known)),
      rules_(std::move(rules)) {
  if (!rules_.output) return;
  for (StreamRecord* each : {&out_, &err_})
    each->rules = std::make_unique<redact::RuleStream>(rules_.output);
}

// Takes `bytes` from the tenant's room for blobs, if there is enough room.
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

// The secrets of a session may become more while a program runs.
void Recorder::record(model::Stream stream, std::string_view bytes) {
  StreamRecord& record = of(stream);
  const auto patterns = known_ ? known_->patterns() : nullptr;
  if (patterns != record.patterns) {
    flush(stream);
    record.redactor = patterns ? std::make_unique<redact::Stream>(patterns) : nullptr;
    record.patterns = patterns;
  }
  if (!record.redactor) return judge(stream, bytes);
  judge(stream, record.redactor->feed(bytes));
}

// Bytes that were held back, as the beginning of a secret that did not come.
void Recorder::flush(model::Stream stream) {
  if (const auto& redactor = of(stream).redactor) judge(stream, redactor->finish());
}

void Recorder::judge(model::Stream stream, std::string_view bytes) {
  const auto& rules = of(stream).rules;
  if (!rules) return keep(stream, bytes);
  keep(stream, rules->feed(bytes));
}

// The values of cells: a match cannot be cut off there, so a refused text is masked to its end.
void Recorder::maskResults(model::Execution& execution) {
  std::vector<uint64_t> hits;
  const std::function<void(base::json::value&)> mask = [&](base::json::value& value) {
    if (auto* text = value.if_string()) *text = redact::masked(rules_.output, *text, hits);
    if (auto* items = value.if_array()) std::ranges::for_each(*items, mask);
    if (auto* object = value.if_object()) {
      for (auto& member : *object)
        mask(member.value());
    }
  };
  std::ranges::for_each(execution.results, mask);
  std::ranges::for_each(execution.results_left_out, mask);
  if (!hits.empty()) noteMatches(rules_.output->all(), hits, "results", false);
}

void Recorder::finishRules(model::Stream stream) {
  const auto rules = std::move(of(stream).rules);
  if (!rules) return;
  keep(stream, rules->finish());
  noteMatches(rules_.output->all(), rules->hits(),
              stream == model::Stream::kStdout ? "stdout" : "stderr", false);
}

void Recorder::noteMatches(const std::vector<redact::Rule>& rules,
                           const std::vector<uint64_t>& hits, const std::string& where,
                           bool artifact) {
  for (size_t i = 0; i < rules.size(); ++i) {
    if (hits[i] > 0) matched_.push_back({rules[i].name, rules[i].action, where, artifact, hits[i]});
  }
}

void Recorder::keep(model::Stream stream, std::string_view bytes) {
  if (bytes.empty()) return;
  StreamRecord& record = of(stream);
  record.digest.update(bytes);
  combined_.update(bytes);
  keepWhole(record, stream, bytes);
  keepTail(record.tail, bytes);
  log_.append(stream, bytes);
}

std::string_view Recorder::tail(model::Stream stream) {
  const std::string_view tail = of(stream).tail;
  return tail.substr(tail.size() - std::min(tail.size(), kTailBytes));
}

// The log still has all earlier bytes until its bound is exceeded; a terminal's log then drops its
// beginning with this append.
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
  if (const auto& patterns = known_ ? known_->patterns() : nullptr) {
    file_->secret = patterns->find(path);
    file_->search = std::make_unique<redact::Stream>(patterns);
    shown = patterns->redacted(shown);
  }
  if (rules_.artifacts) file_->rules = std::make_unique<redact::RuleStream>(rules_.artifacts);
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
  if (file_->search) std::ignore = file_->search->feed(bytes);
  std::string passing;
  if (file_->rules) bytes = passing = file_->rules->feed(bytes);
  if (file_->head.size() < kHeadBytes) file_->head += bytes.substr(0, kHeadBytes);
  if (const auto stored = file_->writer->write(bytes); !stored) {
    lose(stored.error());
    file_.reset();
  }
}

runtime::Task<void> Recorder::onFileEnd() {
  if (!file_) co_return;
  const std::unique_ptr<FileRecord> file = std::move(file_);
  if (file->search) {
    std::ignore = file->search->finish();
    if (file->secret.empty()) file->secret = file->search->firstName();
  }
  if (!file->secret.empty()) {
    withheld_.push_back({file->path, file->secret});
    co_return;
  }
  if (file->rules) {
    const std::string rest = file->rules->finish();
    noteMatches(rules_.artifacts->all(), file->rules->hits(), file->path, true);
    if (file->rules->refusing() != nullptr) co_return;
    if (file->head.size() < kHeadBytes) file->head += rest.substr(0, kHeadBytes);
    if (const auto stored = file->writer->write(rest); !stored) {
      lose(stored.error());
      co_return;
    }
  }
  auto digest = co_await file->writer->seal();
  if (!digest) {
    lose(digest.error());
    co_return;
  }
  sealed_.push_back({.ref = {base::newId("art"), file->path, file->size,
                             base::sniffContentType(file->path, file->head), *std::move(digest)},
                     .writer = std::move(file->writer)});
}

runtime::Task<void> Recorder::end() {
  constexpr size_t kAtOnce = 8;
  for (const model::Stream stream : {model::Stream::kStdout, model::Stream::kStderr}) {
    flush(stream);
    of(stream).redactor.reset();
    finishRules(stream);
    co_await sealStream(stream);
  }
  async::Tasks keeping;
  for (Sealed& each : sealed_) {
    keeping.emplace_back([this, &each]() -> runtime::Task<void> {
      const auto kept = co_await owner_.keep({owner_.tenant, each.ref.sha256}, *each.writer);
      each.kept = kept.has_value();
      if (!kept) lose(kept.error());
    });
  }
  if (!keeping.empty()) co_await async::together(std::move(keeping), kAtOnce);
}

runtime::Task<void> Recorder::sealStream(model::Stream stream) {
  StreamRecord& record = of(stream);
  if (!record.whole) co_return;
  const uint64_t total = log_.total(stream);
  auto digest = co_await record.whole->seal();
  if (!digest) {
    lose(digest.error());
    co_return;
  }
  const bool is_out = stream == model::Stream::kStdout;
  // A hidden name, because the sandbox's own artifacts never have a hidden name.
  sealed_.push_back({.ref = {.id = base::newId("art"),
                             .path = is_out ? ".cloister/stdout" : ".cloister/stderr",
                             .size = record.stored,
                             .content_type = "application/octet-stream",
                             .sha256 = *std::move(digest),
                             .full_size = total > record.stored ? total : 0},
                     .writer = std::move(record.whole),
                     .stream = stream});
}

void Recorder::complete(model::Execution& execution, bool truncated) {
  if (rules_.output) maskResults(execution);
  execution.artifacts.clear();
  completeStream(model::Stream::kStdout, execution);
  completeStream(model::Stream::kStderr, execution);
  for (const Sealed& each : sealed_) {
    if (each.kept) execution.artifacts.push_back(each.ref);
  }
  execution.provenance.output_sha256 = combined_.hex();
  if (!lost_.empty()) noteLostArtifacts(execution, lost_);
  if (truncated || truncated_) {
    noteTruncatedArtifacts(execution, bounds_.artifacts.max_files, bounds_.artifacts.max_bytes);
  }
  if (over_quota_) noteOverQuota(execution);
  if (!withheld_.empty()) {
    noteWithheldArtifact(execution, withheld_.front().path, withheld_.front().secret);
  }
  const auto refused = std::ranges::find(matched_, redact::RuleAction::kRefuse, &Matched::action);
  if (refused != matched_.end()) {
    noteRefusedText(execution, refused->artifact, refused->where, refused->rule);
  }
  noteTruncatedOutput(execution, bounds_.output);
}

void Recorder::completeStream(model::Stream stream, model::Execution& execution) {
  const bool is_out = stream == model::Stream::kStdout;
  (is_out ? execution.provenance.stdout_sha256 : execution.provenance.stderr_sha256) =
      of(stream).digest.hex();
  model::KeptOutput& kept = is_out ? execution.out : execution.err;
  kept.bytes = log_.kept(stream, 0);
  kept.total = log_.total(stream);
  kept.truncated = kept.total > kept.bytes.size();
  const auto whole = std::ranges::find_if(
      sealed_, [&](const Sealed& each) { return each.kept && each.stream == stream; });
  if (whole != sealed_.end()) kept.artifact = whole->ref.id;
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
