// SPDX-License-Identifier: Apache-2.0
// Permit: the only thing a node obeys. Only policy constructs one (see policy/decide.h); wire/
// encodes it; the control plane signs the encoding with Ed25519.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/limits.h"
#include "model/network.h"
#include "model/principal.h"
#include "model/walls.h"

namespace cloister::model {

struct PermitFields {
  std::string id;            // permit_…
  std::string execution_id;  // for a single use by this execution. "" for a session's sandbox
  std::string session_id;    // of the session to make, or to run a program in; otherwise ""
  std::string tenant;
  std::string policy_id;  // names the deciding policy version
  std::string runtime;    // "process"
  std::string image;      // model::ImageRef as text
  // Of the door to make for the sandbox; "none" for a program that uses the door of its session.
  std::string network_tier;
  std::string network_plan_sha256 = {};  // hex digest of the first plan; "" without a door
  // The ports that the first plan names (namedPorts()). A kernel without a transparent proxy has
  // listeners for these first.
  std::vector<uint16_t> network_ports = {};
  Limits limits;     // of the whole sandbox
  Walls walls = {};  // the agent's confinement rules; for a sandbox, not for a program
                     // within
  // Total processor share of all sandboxes of this agent, in thousandths; 0: no such limit.
  std::string agent = {};
  uint32_t agent_cpu_millis = 0;
  std::string spec_sha256;  // hex digest of the encoded ExecSpec; "" when making a session
  std::string prestart;     // model::prestartKey(), "" where the program starts with its code
  // For a session: nested sandboxes are possible. For a program within: the program gets a nested
  // sandbox, and `limits` are the limits of the whole nested sandbox.
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
  // The plan whose digest the fields have; nullopt without a door.
  [[nodiscard]] const std::optional<NetworkPlan>& network() const { return network_; }

 private:
  friend class ::cloister::policy::PermitIssuer;
  Permit(PermitFields fields, std::optional<NetworkPlan> network)
      : fields_(std::move(fields)), network_(std::move(network)) {}
  PermitFields fields_;
  std::optional<NetworkPlan> network_;
};

// A permit in transit: the encoded fields and a signature over exactly these bytes.
struct SignedPermit {
  std::string encoded;
  std::string signature;  // 64 bytes
};

}  // namespace cloister::model
