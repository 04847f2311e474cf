// SPDX-License-Identifier: Apache-2.0
// Permits: the only place where a question to policy is put together and decided, and where a
// permit is signed. An asker says what is to be done and for whom; the rest of the question (the
// node's offer, the time, the life of a permit) is filled in here, alike for every asker.
//
// On the service's executor (one thread). Nothing here writes a record.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/crypto.h"
#include "model/permit.h"
#include "orchestrator/core/nodes.h"
#include "orchestrator/core/policy_engine.h"
#include "orchestrator/core/task.h"
#include "policy/agent/walls.h"
#include "policy/decide.h"

namespace cloister::orchestrator {

// The subject of a question: an action and its principal. The references outlive the call. A member
// that is a reference cannot be left out: every question has the risks of its request and the rules
// of its agent.
struct Subject {
  std::string_view operation;  // from policy::kOperations
  const model::RunRequest& request;
  const model::Principal& principal;
  const policy::RiskFacts& risk_facts;                   // of the request
  const std::shared_ptr<const policy::HeldRules>& held;  // null: the agent is held to no rules
  const std::string& language;                           // policy::ruleLanguage()
  std::string execution_id = {};
  std::string session_id = {};
  std::string inside = {};       // the runtime of the session's sandbox; "": there is none yet
  std::string spec_sha256 = {};  // as model::PermitFields, and the next
  std::string prestart = {};
  std::vector<model::PermitLayer> layers = {};  // of a new sandbox
  // The brokered secrets of the request's sandbox, for its plan; null: not made yet.
  const std::vector<model::PlanSecret>* brokered = nullptr;
};

// A permit in plain, and signed for the node.
struct Granted {
  model::PermitFields fields;
  model::SignedPermit permit;
  std::optional<model::NetworkPlan> network = {};  // whose digest the permit has; signPlan() signs
};

// The denial otherwise, also where an approval is missing.
using Permission = std::expected<Granted, policy::Denied>;

class Permits {
 public:
  // Tells whether the requester has an approval for `wanted` (null: no approval is needed). A
  // denial: the requester names an invalid approval.
  using Approval =
      std::function<std::expected<bool, policy::Denied>(const policy::NeedsApproval* wanted)>;

  // `engine`, `key` and `node` outlive the Permits. `internal`: the operator's own destinations;
  // `packages`: the rules of the package gateway.
  Permits(PolicyEngine& engine, const base::SigningKey& key, const NodeState& node, Micros life,
          model::InternalDestinations internal = {}, model::PackageSettings packages = {})
      : engine_(engine),
        key_(key),
        node_(node),
        life_(life),
        internal_(std::move(internal)),
        packages_(std::move(packages)) {}

  // Asks the engine. The other calls use the engine's ruling.
  Task<Ruling> rule(const Subject& subject) const;

  // Decides about a start now. The permit in the answer has no id and no signature.
  [[nodiscard]] policy::Decision judge(const Ruling& ruling, const Subject& subject,
                                       const Approval& approval = {}) const;
  // As judge(), with a signed permit of id `permit_id`.
  [[nodiscard]] Permission ask(const Ruling& ruling, const Subject& subject, std::string permit_id,
                               const Approval& approval = {}) const;

  // The network of the sandbox of permit `permit_id` by the present rules, for a later plan; its
  // generation is the caller's to set. Policy may deny a network that it granted before.
  [[nodiscard]] std::expected<model::NetworkPlan, policy::Denied> network(
      const Ruling& ruling, const Subject& subject, std::string permit_id) const;
  [[nodiscard]] model::SignedPlan signPlan(const model::NetworkPlan& plan) const;

  // Parts of the decision (policy/decide.h). The request's limits; nullopt for a denied request.
  [[nodiscard]] std::optional<model::Limits> limits(const Ruling& ruling,
                                                    const Subject& subject) const;
  // Null: the node's own. Valid as long as the node's offer.
  [[nodiscard]] const model::OfferedImage* image(const Ruling& ruling,
                                                 const Subject& subject) const;
  [[nodiscard]] model::Limits mostAllowed(const Ruling& ruling, const Subject& subject) const;
  [[nodiscard]] std::optional<Millis> mostTime(const Ruling& ruling, const Subject& subject) const;
  [[nodiscard]] std::string weaker(const Ruling& ruling, const Subject& subject) const;
  [[nodiscard]] std::string decidingRule(const Ruling& ruling, const Subject& subject) const;

 private:
  [[nodiscard]] policy::Question question(const Subject& subject, std::string permit_id = {}) const;
  [[nodiscard]] policy::Decision decide(const Ruling& ruling, policy::Question asked,
                                        const Approval& approval) const;

  PolicyEngine& engine_;
  const base::SigningKey& key_;
  const NodeState& node_;
  Micros life_;
  const model::InternalDestinations internal_;
  const model::PackageSettings packages_;
};

}  // namespace cloister::orchestrator
