// SPDX-License-Identifier: Apache-2.0
// Checks the audit log against checkpoints published elsewhere, for a client that trusts neither
// the server nor its ledger: the client computes every hash again. docs/AUDIT.md defines the lines.
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

// Errors name the first entry that differs from the checkpoints or breaks the chain. Not
// thread-safe.
class ChainWalk {
 public:
  // kInvalid for a checkpoint without a signature of `key`, or for two different checkpoints of an
  // entry.
  static Result<ChainWalk> against(const std::vector<model::Checkpoint>& published,
                                   const base::VerifyKey& key);

  // Takes the next piece of the export, cut anywhere. kUnsupported if the first entry shows an
  // incomplete log, which proves nothing.
  Result<> feed(std::string_view bytes);
  // All was fed.
  Result<> finish();

  [[nodiscard]] uint64_t entries() const { return last_; }
  [[nodiscard]] uint64_t held() const { return held_; }  // checkpoints matched so far
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
