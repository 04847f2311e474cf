// SPDX-License-Identifier: Apache-2.0
// Questions: the operations of one request, asked of an agent's rules one by one; the answer is one
// refusal, or none. Used by AgentGuard alone. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/guard/agent_guard.h"

namespace cloister::orchestrator {

// "agent coder"
std::string nameOfAgent(const std::string& agent);

// The first refusal that no person may lift refuses all; otherwise a single escalation asks for all
// that a person may allow.
class Questions {
 public:
  // Both outlive it.
  Questions(const policy::AgentRules& rules, const model::Principal& principal);

  // Whether the rules permit the operation.
  bool ask(const policy::Operation& operation);
  void askResources(const policy::Resources& wanted, const policy::Resources& used);
  // The network of a sandbox.
  void askNetwork(const model::NetworkRequest& network);
  void refuse(const policy::Validation& v, std::string_view operation, const std::string& what);
  // Refusals beyond approval go first.
  std::optional<AgentRefusal> take();

 private:
  void want(const policy::Operation& operation, const policy::Validation& v);
  bool askDestinations(const std::vector<model::NetworkEntry>& allow);

  const policy::AgentRules& rules_;
  const model::Principal& principal_;
  int64_t now_;
  std::optional<AgentRefusal> refusal_;
  std::optional<AgentRefusal> open_;  // the first that a person may allow
  std::vector<model::WantedOperation> wants_;
  bool needs_person_ = false;
  std::vector<std::string> safe_by_;
};

}  // namespace cloister::orchestrator
