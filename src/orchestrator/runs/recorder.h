// SPDX-License-Identifier: Apache-2.0
// Recorder: receives the results of one exec. The head of each stream goes to the OutputLog; a
// longer stream's whole, and each artifact, go to blobs. Everything is hashed in order of arrival.
// Data from the sandbox is hostile: names and amounts are checked again here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "artifacts/blobs.h"
#include "base/crypto.h"
#include "model/artifact.h"
#include "model/exec_spec.h"
#include "model/execution.h"
#include "orchestrator/runs/dlp_rules.h"
#include "orchestrator/runs/known_secrets.h"
#include "orchestrator/runs/output_log.h"
#include "redact/matcher.h"
#include "redact/rules.h"
#include "runtime/runtime.h"

namespace cloister::orchestrator {

class Recorder final : public runtime::ExecObserver {
 public:
  struct Bounds {
    uint64_t output = 0;  // kept in the result, of each stream
    uint64_t whole = 0;   // kept in a blob, if the stream is longer
    model::ArtifactRules artifacts;
  };
  // The owner of the blobs, and the remaining room; asked once, before the first blob. `keep` is
  // BlobKeeper::keepSealed(): the record of the execution releases the blobs.
  struct Owner {
    std::string tenant;
    std::function<model::ArtifactQuota()> room;
    std::function<runtime::Task<Result<>>(model::BlobName, artifacts::BlobWriter&)> keep;
  };
  struct Events {
    std::function<void()> started;
    std::function<void(const model::Usage&)> usage;
  };

  // `known`: secrets that no record may have; null for none. Output passes on without them, with
  // the digests of what passed on, and a file with one of them is left out. Then `rules` apply.
  Recorder(artifacts::Blobs& blobs, Owner owner, OutputLog& log, Bounds bounds, Events events,
           std::shared_ptr<const KnownSecrets> known = nullptr, DlpRules rules = {});

  void onStarted() override;
  runtime::Task<void> onOutput(model::Stream stream, std::string_view bytes) override;
  runtime::Task<void> onFileBegin(std::string path, uint64_t size) override;
  runtime::Task<void> onFileData(std::string_view bytes) override;
  runtime::Task<void> onFileEnd() override;
  void onUsage(const model::Usage& usage) override;

  // As onOutput(), for bytes from elsewhere: a compiler's messages.
  void record(model::Stream stream, std::string_view bytes);

  // The last bytes of a stream, at most kTailBytes.
  static constexpr size_t kTailBytes = 8192;
  [[nodiscard]] std::string_view tail(model::Stream stream);

  // Nothing more comes: keeps the blobs. This may take long, so it is no part of the conversation
  // with the node, and comes before complete(). Call once.
  runtime::Task<void> end();
  // Completes the record: output, digests, artifacts, and lost artifacts. `truncated`: the sandbox
  // left files out. Call once, with status and error set. The blobs surely outlast a crash only if
  // the recorder lives until a record names the blobs (see BlobWriter).
  void complete(model::Execution& execution, bool truncated);

  // A file that was left out, and the secret in it.
  struct Withheld {
    std::string path;
    std::string secret;
  };
  [[nodiscard]] const std::vector<Withheld>& withheld() const { return withheld_; }

  // Matches of a rule in a stream or a file.
  struct Matched {
    std::string rule;
    redact::RuleAction action = redact::RuleAction::kReport;
    std::string where;  // "stdout", "stderr", or the path of an artifact
    bool artifact = false;
    uint64_t count = 0;
  };
  // Complete after complete().
  [[nodiscard]] const std::vector<Matched>& matched() const { return matched_; }

 private:
  struct StreamRecord {
    base::Sha256 digest;
    std::unique_ptr<artifacts::BlobWriter> whole;  // once the stream exceeds the log
    uint64_t stored = 0;                           // bytes of the blob
    std::string tail;                              // up to twice kTailBytes
    std::shared_ptr<const redact::Patterns> patterns;
    std::unique_ptr<redact::Stream> redactor;   // by `patterns`; null while there are none
    std::unique_ptr<redact::RuleStream> rules;  // null: none
  };
  // A blob that is not kept yet, or is.
  struct Sealed {
    model::ArtifactRef ref;
    std::unique_ptr<artifacts::BlobWriter> writer;
    std::optional<model::Stream> stream = {};  // of which it is the whole
    bool kept = false;
  };
  struct FileRecord {
    std::string path;
    std::string head;  // first bytes, to tell the type
    uint64_t size = 0;
    std::unique_ptr<artifacts::BlobWriter> writer;
    std::unique_ptr<redact::Stream> search;     // null while no secret is known
    std::string secret;                         // in its path
    std::unique_ptr<redact::RuleStream> rules;  // null: none
  };

  void judge(model::Stream stream, std::string_view bytes);
  void keep(model::Stream stream, std::string_view bytes);
  void finishRules(model::Stream stream);
  void maskResults(model::Execution& execution);
  void noteMatches(const std::vector<redact::Rule>& rules, const std::vector<uint64_t>& hits,
                   const std::string& where, bool artifact);
  void flush(model::Stream stream);
  StreamRecord& of(model::Stream stream);
  bool take(uint64_t bytes);
  Result<std::unique_ptr<artifacts::BlobWriter>> create();
  runtime::Task<void> sealStream(model::Stream stream);
  void keepWhole(StreamRecord& record, model::Stream stream, std::string_view bytes);
  void completeStream(model::Stream stream, model::Execution& execution);
  void lose(const Error& error);

  artifacts::Blobs& blobs_;
  Owner owner_;
  OutputLog& log_;
  Bounds bounds_;
  Events events_;
  base::Sha256 combined_;
  StreamRecord out_;
  StreamRecord err_;
  std::unique_ptr<FileRecord> file_;  // the present file
  std::vector<Sealed> sealed_;
  std::optional<model::ArtifactQuota> room_;  // the tenant's room for new blobs
  bool over_quota_ = false;
  std::shared_ptr<const KnownSecrets> known_;
  std::vector<Withheld> withheld_;
  DlpRules rules_;
  std::vector<Matched> matched_;
  uint32_t files_ = 0;       // taken, including the present file
  uint64_t file_bytes_ = 0;  // of all files
  bool truncated_ = false;   // some files were over the bounds
  std::string lost_;         // why something could not be stored, "" if nothing
};

}  // namespace cloister::orchestrator
