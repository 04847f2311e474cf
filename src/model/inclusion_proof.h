// SPDX-License-Identifier: Apache-2.0
// Proofs that an entry of the audit log is in the log: a signed root for each period, and a path of
// digests from the entry to the root. docs/AUDIT.md defines the bytes. Pure; the service and the
// command line verify with the same code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/result.h"
#include "model/audit_entry.h"

namespace cloister::model {

// Levels of the tree below its root; a proof has as many siblings.
inline constexpr size_t kProofDepth = 64;

// The public record of a period.
struct AuditRoot {
  uint64_t number = 0;  // 1, 2, 3 …
  int64_t begins = 0;   // wall-clock microseconds
  int64_t ends = 0;
  std::string root;       // hex digest over the period's entries
  std::string log;        // sealed digest of the log's end (sealedEnd())
  std::string prev;       // hex SHA-256 of rootText() of the record before; 64 zeros in the first
  std::string key_id;     // as in Checkpoint
  std::string signature;  // base64, over rootText()

  friend bool operator==(const AuditRoot&, const AuditRoot&) = default;
};

// The text under the signature.
std::string rootText(const AuditRoot& root);
// `prev` of the next record.
std::string rootDigest(const AuditRoot& root);
base::json::object toJsonObject(const AuditRoot& root);
Result<AuditRoot> parseAuditRoot(const base::json::object& object, const std::string& path);
// kInvalid: another key, or a signature that is not valid.
Result<> verifyRoot(const AuditRoot& root, const base::VerifyKey& key);
// Checks kept records, oldest first, each with its signature and its link to the one before.
Result<> verifyRoots(const std::vector<AuditRoot>& roots, const base::VerifyKey& key);
// A record a line.
Result<std::vector<AuditRoot>> parseRoots(std::string_view text, const std::string& name);

// `log` of a record: the last entry of its period under the period's secret (64 hex digits).
std::string sealedEnd(std::string_view secret, uint64_t position, std::string_view hash);

base::Digest leafDigest(uint64_t place, const base::Digest& entry_hash);
base::Digest nodeDigest(const base::Digest& left, const base::Digest& right);
// The root by a leaf and its siblings, the lowest first.
base::Digest climb(uint64_t place, base::Digest leaf, const std::vector<base::Digest>& siblings);

struct InclusionProof {
  AuditEntry entry;
  uint64_t place = 0;
  std::vector<base::Digest> siblings;  // kProofDepth
  AuditRoot record;
};

// `line`: the entry's exported line.
Result<base::json::object> toJsonObject(const InclusionProof& proof, std::string_view line);
// Strict: an unknown member, another version or another number of siblings is kInvalid.
Result<InclusionProof> parseInclusionProof(const base::json::object& object);
// The error names the first defect, its `field` the member of the proof.
Result<> verifyInclusion(const InclusionProof& proof, const base::VerifyKey& key);
// Whether the kept records have the proof's record. kInvalid otherwise.
Result<> verifyKept(const InclusionProof& proof, const std::vector<AuditRoot>& kept);

}  // namespace cloister::model
