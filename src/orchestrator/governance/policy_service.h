// SPDX-License-Identifier: Apache-2.0
// The policy in force and its history: versions in the ledger, applied while the service runs, and
// questions about versions. A version is in force as soon as its row is durable; an unreadable
// version denies everything until another is applied.
//
// All methods run on the executor of Control (one thread).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/agent_sandbox.h"
#include "model/principal.h"
#include "model/run_request.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/policy_engine.h"
#include "orchestrator/core/task.h"
#include "policy/current.h"
#include "policy/explain.h"
#include "store/store.h"

namespace cloister::orchestrator {

class AgentGuard;

// The document given at the start of the service.
struct StartDocument {
  std::string name;  // "default"
  std::string text;
  bool chosen = false;  // the operator named the file; else the installation's own
};

struct PolicyConfig {
  model::Limits max;          // upper bound of every rule's limits
  uint32_t history = 1000;    // versions kept
  uint32_t replay = 200;      // the most recorded requests to try on a new version
  bool allow_weaker = false;  // policy::Policy
  // What the table of safe operations may approve (EscalationConfig).
  std::vector<std::string> safe_operations = {};
};

class PolicyService {
 public:
  // They outlive it.
  struct Parts {
    policy::Current& current;
    const policy::Levels& levels;
    const model::RequestBounds& bounds;
    PolicyEngine& engine;                // decides; another engine than ours ignores the documents
    const AgentGuard* agents = nullptr;  // null: there are no levels
  };
  PolicyService(std::shared_ptr<Control> control, Parts parts, PolicyConfig config);

  // Puts the policy in force before the service accepts requests; waits for the ledger. Usually the
  // newest version of the ledger comes into force. `start` becomes the next version if the ledger
  // has none, or if `start` is the operator's own and differs from the last start's document.
  Result<> open(const StartDocument& start);

  // The document becomes the next version, in force when the call returns. kConflict if `expected`
  // is given and is not the version in force.
  Task<Result<store::PolicyVersion>> apply(model::Principal principal, store::NewPolicy wanted);
  // An earlier version's document becomes the next version.
  Task<Result<store::PolicyVersion>> rollBack(model::Principal principal, int64_t version,
                                              std::optional<int64_t> expected, std::string note);

  // 0: the newest. kNotFound.
  Result<store::PolicyVersion> get(int64_t version);
  // Warnings for the author of a valid document (policy/warnings.h); none for an invalid one.
  [[nodiscard]] std::vector<std::string> warnings(const std::string& document) const;
  [[nodiscard]] const PolicyConfig& config() const { return config_; }
  // The version in force; 0 while broken.
  [[nodiscard]] int64_t version() const;

  // Questions of the API, each with the members of its body (spec/openapi.yaml): `document`, or a
  // `version` (without either, the version in force), and further members. kInvalid names a member.
  Result<base::json::object> check(const base::json::object& body);
  // Without a document and a version, the engine in use decides. An asker without policy.apply asks
  // for its own tenant, and sees only the matching rules and no version: kDenied.
  Task<Result<base::json::object>> explain(model::Principal asker, base::json::object body);
  // {url, method, network, language, principal}: whether such a run could reach the URL, as far as
  // policy and the agent's level go. As explain() about documents and tenants.
  Task<Result<base::json::object>> explainEgress(model::Principal asker, base::json::object body);
  // An asker without policy.apply brings a document: kDenied.
  Result<base::json::object> test(const model::Principal& asker, const base::json::object& body);
  // With `recent`, both versions decide the newest requests visible to the asker, on a thread of
  // its own: the answer lists each changed decision.
  Task<Result<base::json::object>> diff(model::Principal asker, base::json::object body);
  // What a change of an agent's sandbox would have done (agent_dry_run.h). kUnsupported without
  // levels.
  Task<Result<base::json::object>> dryRun(model::AgentSandbox proposed, uint32_t limit);

 private:
  [[nodiscard]] Result<policy::Policy> parse(const std::string& name,
                                             const std::string& document) const;
  Result<policy::Policy> choose(base::ObjectReader& reader, std::string_view version_name);
  [[nodiscard]] policy::ReaderParts readerParts() const;
  Task<Result<base::json::object>> replay(model::Principal asker, policy::Policy from,
                                          policy::Policy to, uint32_t count);
  Result<> takeUp(const std::optional<store::PolicyVersion>& newest, const std::string& name);
  Result<> addStart(const StartDocument& start);
  [[nodiscard]] Result<bool> isAnother(const StartDocument& start) const;
  Task<Result<store::PolicyVersion>> put(model::Principal principal, store::NewPolicy wanted,
                                         model::AuditEvent event, policy::Policy policy);

  std::shared_ptr<Control> control_;
  Parts parts_;
  PolicyConfig config_;
};

}  // namespace cloister::orchestrator
