// SPDX-License-Identifier: Apache-2.0
// The policy in force and its history: versions in the ledger, applied while the service runs, and
// questions about them. A version is in force from the moment that its row is durable; a version
// that cannot be read denies everything until another is applied.
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
#include "model/principal.h"
#include "model/run_request.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/policy_engine.h"
#include "orchestrator/core/task.h"
#include "policy/current.h"
#include "policy/explain.h"
#include "store/store.h"

namespace cloister::orchestrator {

// The document that the service was started with.
struct StartDocument {
  std::string name;  // "default"
  std::string text;
  bool chosen = false;  // the operator named the file; otherwise it is the installation's own
};

struct PolicyConfig {
  model::Limits max;          // the most that a rule can allow
  uint32_t history = 1000;    // versions kept
  uint32_t replay = 200;      // recorded requests that a new version is tried on, at most
  bool allow_weaker = false;  // policy::Policy
};

class PolicyService {
 public:
  // They outlive it.
  struct Parts {
    policy::Current& current;
    const policy::Levels& levels;
    const model::RequestBounds& bounds;
    PolicyEngine& engine;  // that decides; another than ours leaves the documents aside
  };
  PolicyService(std::shared_ptr<Control> control, Parts parts, PolicyConfig config);

  // Puts the policy in force, before anything is served; waits for the ledger. The newest version
  // of the ledger is it, unless there is none, or `start` is the operator's own and another than
  // the last that a start brought: then `start` becomes the next version.
  Result<> open(const StartDocument& start);

  // The document becomes the next version, and is in force once this returns. kConflict where
  // `expected` is given and not the version in force.
  Task<Result<store::PolicyVersion>> apply(model::Principal principal, store::NewPolicy wanted);
  // The document of an earlier version becomes the next one.
  Task<Result<store::PolicyVersion>> rollBack(model::Principal principal, int64_t version,
                                              std::optional<int64_t> expected, std::string note);

  // 0: the newest. kNotFound.
  Result<store::PolicyVersion> get(int64_t version);
  [[nodiscard]] const PolicyConfig& config() const { return config_; }
  // The version in force; 0 while it is broken.
  [[nodiscard]] int64_t version() const;

  // Questions of the API, each the members of its body (spec/openapi.yaml): `document`, or a
  // `version` (without either, what is in force), and what more is said. kInvalid names a member.
  Result<base::json::object> check(const base::json::object& body);
  // Without a document and a version the engine is asked, whichever it is. An asker without
  // policy.apply asks for its own tenant, hears of the rules that match, and of no version:
  // kDenied.
  Task<Result<base::json::object>> explain(model::Principal asker, base::json::object body);
  // An asker without policy.apply brings a document: kDenied.
  Result<base::json::object> test(const model::Principal& asker, const base::json::object& body);
  // With `recent`, the newest requests that the asker may see are decided by both, on a thread of
  // its own: each whose decision would be another.
  Task<Result<base::json::object>> diff(model::Principal asker, base::json::object body);

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
