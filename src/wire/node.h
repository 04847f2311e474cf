// SPDX-License-Identifier: Apache-2.0
// Messages between control plane and node over a Unix or TCP stream. `channel` names a sandbox,
// chosen by the control plane, unique on the connection and never used again. When the connection
// ends, the node kills every sandbox of it: the connection is the lease.
//
// Encodings of model values (encode*/decode*) are in this header's .cc; all decoders are strict.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/exec_spec.h"
#include "model/outcome.h"
#include "model/permit.h"
#include "model/plan.h"

namespace cloister::wire {

// The largest payload either side accepts.
inline constexpr uint32_t kNodeMaxPayload = 64u << 20;

enum class ToNode : uint16_t {
  kProvision = 1,  // SignedPermit → kProvisioned | kFailed
  kExec = 2,       // encoded ExecSpec → kStarted, kOutput…, kFile…, kFinished | kFailed
  kCancel = 3,     // none
  kTeardown = 4,   // none → kTornDown; frees the channel
  kPlan = 5,       // SignedPermit → kPlanned | kFailed; channel is only a call number
  kAck = 6,        // u32 window units consumed: opens the node's window for that sandbox
};

enum class FromNode : uint16_t {
  kOffer = 65,        // encoded NodeOffer; the first message
  kProvisioned = 66,  // encoded SandboxInfo
  kFailed = 67,       // encoded Error
  kStarted = 68,      // none
  kOutput = 69,       // u8 Stream, raw bytes
  kFileBegin = 70,    // bytes path, u64 size
  kFileData = 71,     // raw bytes
  kFileEnd = 72,      // none
  kUsage = 73,        // encoded Usage
  kFinished = 74,     // encoded Outcome
  kTornDown = 75,     // none
  kPlanned = 76,      // JSON
};

// What may be in flight to the control plane per sandbox, in units of windowCost(); beyond it the
// node stops reading from the runner until kAck. kOutput, kFileBegin, kFileData and kFileEnd count.
inline constexpr uint32_t kOutputWindow = 1u << 20;

// A frame's share of the window: its payload and what holding a frame costs the receiver, so that a
// flood of tiny frames is bounded too.
inline constexpr uint32_t windowCost(size_t payload_bytes) {
  return static_cast<uint32_t>(payload_bytes) + 64;
}

std::string encodePermit(const model::PermitFields& permit);
Result<model::PermitFields> decodePermit(std::string_view bytes);
std::string encodeSignedPermit(const model::SignedPermit& permit);
Result<model::SignedPermit> decodeSignedPermit(std::string_view bytes);
std::string encodeExecSpec(const model::ExecSpec& spec);
Result<model::ExecSpec> decodeExecSpec(std::string_view bytes);
std::string encodeOutcome(const model::Outcome& outcome);
Result<model::Outcome> decodeOutcome(std::string_view bytes);
std::string encodeUsage(const model::Usage& usage);
Result<model::Usage> decodeUsage(std::string_view bytes);
std::string encodeOffer(const model::NodeOffer& offer);
Result<model::NodeOffer> decodeOffer(std::string_view bytes);
std::string encodeError(const Error& error);
Result<Error> decodeError(std::string_view bytes);

// What a sandbox is (runtime/runtime.h SandboxInfo), as plain values.
struct Provisioned {
  std::string runtime;
  std::string node;
  std::string image_digest;
  std::vector<std::string> weakened;
};
std::string encodeProvisioned(const Provisioned& info);
Result<Provisioned> decodeProvisioned(std::string_view bytes);

}  // namespace cloister::wire
