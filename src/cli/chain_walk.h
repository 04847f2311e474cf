// SPDX-License-Identifier: Apache-2.0
// The audit log, held to checkpoints that were published elsewhere, by a client that trusts neither
// the server nor its ledger: it computes every hash anew. docs/AUDIT.md defines the lines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "model/checkpoint.h"
#include "model/numbering.h"

namespace cloister::cli {

// Errors name the first entry that is not what was published, or not in the chain. Not thread-safe.
class ChainWalk {
 public:
  // kInvalid where a checkpoint is not signed with `key`, or where two of one entry differ.
  static Result<ChainWalk> against(const std::vector<model::Checkpoint>& published,
                                   const base::VerifyKey& key);

  // The next piece of the export, cut anywhere. kUnsupported where its first entry shows that it is
  // not the whole log: that proves nothing.
  Result<> feed(std::string_view bytes);
  // All was fed.
  Result<> finish();

  [[nodiscard]] uint64_t entries() const { return last_; }
  [[nodiscard]] uint64_t held() const { return held_; }  // checkpoints that were met
  [[nodiscard]] const std::string& head() const { return head_; }

 private:
  Result<> line(std::string_view whole);

  std::map<uint64_t, std::string> published_;  // position → hash
  model::Numbering numbering_;
  uint64_t last_ = 0;
  uint64_t held_ = 0;
  std::string head_ = std::string(64, '0');
  std::string pending_;  // of a line whose end did not come yet
};

}  // namespace cloister::cli
