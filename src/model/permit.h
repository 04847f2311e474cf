// SPDX-License-Identifier: Apache-2.0
// Permit: the only thing a node obeys. Only policy constructs one (see policy/decide.h); wire/
// encodes it; the control plane signs the encoding with Ed25519.
#pragma once

#include <cstdint>
#include <string>

#include "model/limits.h"
#include "model/principal.h"
#include "model/walls.h"

namespace cloister::model {

struct PermitFields {
  std::string id;            // permit_…
  std::string execution_id;  // what it is for; one use. "" where it makes a session's sandbox
  std::string session_id;    // of the session that it makes, or runs a program in; otherwise ""
  std::string tenant;
  std::string policy_id;     // names the policy version that decided
  std::string runtime;       // "process"
  std::string image;         // model::ImageRef as text
  std::string network_tier;  // "none"
  Limits limits;             // of the whole sandbox
  Walls walls = {};          // of the agent that it is for; of a sandbox, not of a program in one
  // What all sandboxes of this agent have of processors together, in thousandths; 0: no such bound.
  std::string agent = {};
  uint32_t agent_cpu_millis = 0;
  std::string spec_sha256;  // hex digest of the encoded ExecSpec; "" where it makes a session
  std::string prestart;     // model::prestartKey(), "" where the program starts with its code
  // Of a session: sandboxes can be made within its own. Of a program in one: it has one of those,
  // of which `limits` are then the whole's.
  bool nested = false;
  // The program of a session has a sandbox of its own with the session's workspace, whose limits
  // `limits` are.
  bool fresh = false;
  int64_t not_before = 0;  // wall-clock microseconds
  int64_t expires = 0;
};

}  // namespace cloister::model

namespace cloister::policy {
class PermitIssuer;
}

namespace cloister::model {

class Permit {
 public:
  [[nodiscard]] const PermitFields& fields() const { return fields_; }

 private:
  friend class ::cloister::policy::PermitIssuer;
  explicit Permit(PermitFields fields) : fields_(std::move(fields)) {}
  PermitFields fields_;
};

// A permit as it travels: the encoded fields and the signature over exactly those bytes.
struct SignedPermit {
  std::string encoded;
  std::string signature;  // 64 bytes
};

}  // namespace cloister::model
