// SPDX-License-Identifier: Apache-2.0
// Network: the doors of sandboxes, as runs and sessions use them. A sandbox whose permit grants a
// network has one door, named by the id of its permit. cloister-egress obeys the door's plan
// (model/network.h). Doors (orchestrator/egress) is the implementation.
//
// On the services' executor (one thread).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/network.h"
#include "model/principal.h"
#include "orchestrator/core/task.h"

namespace cloister::orchestrator {

// The owner of a door, for records and for approvers.
struct DoorOwner {
  model::Principal principal;
  std::string execution_id;  // "" for a session's door
  std::string session_id;    // "" for a separate run

  // The subject of audit rows.
  [[nodiscard]] const std::string& subject() const {
    return execution_id.empty() ? session_id : execution_id;
  }
};

// The brokered secrets of a door.
struct DoorSecrets {
  std::vector<model::SecretValue> values;  // of the plan's secrets, by their ids
  // A text of a program's without the secrets that the sandbox knows, for records; null: as it is.
  std::function<std::string(const std::string&)> redacted;
};

class Network {
 public:
  // Asks policy again about the same sandbox. Nothing: policy denies the sandbox by now, so every
  // destination is denied.
  using Again = std::function<Task<std::optional<model::NetworkPlan>>()>;

  virtual ~Network() = default;

  // Sends the first plan of a permit. Call before the sandbox is requested from the node; the
  // request need not wait for confirm(), because cloister-egress serves no door before its plan.
  // `again` is called until close(). kInternal: cloister-egress is not connected; the start may be
  // tried again. No node is lost, so the error is not kUnavailable.
  virtual Task<Result<>> open(model::NetworkPlan first, DoorOwner owner, Again again,
                              DoorSecrets secrets) = 0;
  // Returns once the plan of open() is in force. No program starts before. The result is the
  // certificate (PEM) of the authority of inspected destinations; "" without one. An error closes
  // the door: cloister-egress refuses the plan, or does not answer (kInternal).
  virtual Task<Result<std::string>> confirm(std::string permit) = 0;
  // Ends the plan, after the teardown of the sandbox. No effect for an unknown permit.
  virtual void close(const std::string& permit) = 0;
  // What the sandbox did so far. kUnavailable: cloister-egress is not connected, or does
  // not answer. kNotFound for an unknown permit.
  virtual Task<Result<model::NetworkUse>> use(std::string permit) = 0;
};

}  // namespace cloister::orchestrator
