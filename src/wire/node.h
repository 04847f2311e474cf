// SPDX-License-Identifier: Apache-2.0
// Messages between control plane and node over a Unix or TCP stream. `channel` names a sandbox,
// chosen by the control plane, unique on the connection and never used again. At the end of the
// connection the node kills every sandbox of the connection: the connection is the lease.
//
// Encodings of model values (encode*/decode*) are in this header's .cc; all decoders are strict.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/exec_spec.h"
#include "model/image_state.h"
#include "model/outcome.h"
#include "model/permit.h"
#include "model/plan.h"
#include "model/pool_stats.h"
#include "model/sandbox_end.h"

namespace cloister::wire {

// The largest payload either side accepts.
inline constexpr uint32_t kNodeMaxPayload = 64u << 20;

// The size limit of kOffer: all images with the maximum of links.
inline constexpr uint32_t kMaxOffer = 32u << 20;

// The largest kPool.
inline constexpr uint32_t kMaxPool = 64u << 10;

// The largest kImage.
inline constexpr uint32_t kMaxImage = 128u << 10;

enum class ToNode : uint16_t {
  kProvision = 1,  // SignedPermit → kProvisioned | kFailed
  kExec = 2,       // encoded ExecSpec → kStarted, kOutput…, kFile…, kFinished | kFailed
  kCancel = 3,     // none
  kTeardown = 4,   // none → kTornDown; frees the channel
  kPlan = 5,       // SignedPermit → kPlanned | kFailed; channel is only a call number
  kAck = 6,        // u32 window units consumed: opens the node's window for the channel
  // In a session's sandbox, on a separate channel of the program: encoded OpenRequest → kFailed, or
  // no answer: the program waits for kGo. Accepts kCancel and kAck; kTeardown ends the program and
  // drops its pending frames → kTornDown.
  kOpen = 7,
  kInput = 8,    // to such a program: raw bytes for its stdin, none: end of file → kInputTaken
  kSignal = 9,   // to such a program: u32 signal
  kResize = 10,  // to such a program: u16 columns, u16 rows of its terminal
  kGo = 11,      // to such a program, once: none → as kExec; with the answer the channel is free
  kPing = 12,    // on channel 0: none → kPong
  kPong = 13,    // on channel 0: none; the answer to kPing
};

enum class FromNode : uint16_t {
  kOffer = 65,        // encoded NodeOffer; the first message, and again when its images change
  kProvisioned = 66,  // encoded SandboxInfo
  kFailed = 67,       // encoded Error
  kStarted = 68,      // none
  kOutput = 69,       // u8 Stream, raw bytes
  kFileBegin = 70,    // bytes path, u64 size
  kFileData = 71,     // raw bytes
  kFileEnd = 72,      // none
  kUsage = 73,        // encoded Usage: of a program, or of a session's sandbox
  kFinished = 74,     // encoded Outcome
  kTornDown = 75,     // none
  kPlanned = 76,      // JSON
  kPool = 77,         // encoded PoolStats, on channel 0; the last counts
  kDied = 78,         // encoded SandboxEnd: a session's sandbox has ended; kTeardown is due
  kInputTaken = 79,   // u32 bytes of kInput written to the program: opens its window
  kPong = 80,         // on channel 0: none
  kImage = 81,        // encoded ImageTold, on channel 0; the last counts
  kPing = 82,         // on channel 0: none → kPong
};

// Bytes of kInput in flight to a program; a frame has at most kInputPiece.
inline constexpr uint32_t kInputWindow = 1u << 18;
inline constexpr uint32_t kInputPiece = 1u << 16;

// Limit of units (windowCost()) in flight to the control plane per sandbox. Beyond the limit the
// node stops reading from the runner until kAck. kOutput, kFileBegin, kFileData and kFileEnd count.
inline constexpr uint32_t kOutputWindow = 1u << 20;

// A frame's share of the window: its payload plus the receiver's cost of holding a frame, so that a
// flood of tiny frames is bounded too.
inline constexpr uint32_t windowCost(size_t payload_bytes) {
  return static_cast<uint32_t>(payload_bytes) + 64;
}

std::string encodePermit(const model::PermitFields& permit);
Result<model::PermitFields> decodePermit(std::string_view bytes);
// Encodes a permit's confinement rules alone.
std::string encodeWalls(const model::Walls& walls);
Result<model::Walls> decodeWalls(std::string_view bytes);
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

// A program in a session's sandbox.
struct OpenRequest {
  uint32_t sandbox = 0;  // its channel
  model::SignedPermit permit;
  std::string spec;  // encoded ExecSpec
};
std::string encodeOpen(const OpenRequest& request);
Result<OpenRequest> decodeOpen(std::string_view bytes);

// For the kinds that a node can report: kMemory, kRunnerLost and kFileLocks.
std::string encodeSandboxEnd(const model::SandboxEnd& end);
Result<model::SandboxEnd> decodeSandboxEnd(std::string_view bytes);

std::string encodePool(const model::PoolStats& stats);
Result<model::PoolStats> decodePool(std::string_view bytes);

// The state of the content of the node's own image, and the node's time of the report.
struct ImageTold {
  model::ImageState state;
  int64_t told_at = 0;  // wall-clock microseconds
};
std::string encodeImage(const ImageTold& told);
Result<ImageTold> decodeImage(std::string_view bytes);

// A sandbox's properties (runtime/runtime.h SandboxInfo), as plain values.
struct Provisioned {
  std::string runtime;
  std::string node;
  std::string image;
  std::string image_digest;
  std::vector<std::string> weakened;
};
std::string encodeProvisioned(const Provisioned& info);
Result<Provisioned> decodeProvisioned(std::string_view bytes);

}  // namespace cloister::wire
