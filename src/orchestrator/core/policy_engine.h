// SPDX-License-Identifier: Apache-2.0
// PolicyEngine: who decides. What an engine gives for a question is a policy to decide it by, so
// that whichever engine there is, policy::decide() has the last word: it alone makes permits, and a
// ceiling of the configuration or a runtime that the node lacks binds every engine alike.
//
// On the service's executor (one thread).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>

#include "base/json.h"
#include "base/result.h"
#include "model/audit_entry.h"
#include "policy/current.h"
#include "policy/decide.h"

namespace cloister::orchestrator {

// What an engine said to one question.
struct Ruling {
  std::shared_ptr<const policy::Policy> policy;  // never null once it was given
  // For the record: {engine, input_sha256, decision_id or failure}; empty where the policy's id
  // says all.
  base::json::object trace;
};

class PolicyEngine {
 public:
  virtual ~PolicyEngine() = default;
  // "embedded", "opa".
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Never fails: without an answer it is a broken policy, which denies and says why. The caller
  // keeps what the question refers to, and the engine.
  virtual boost::asio::awaitable<Ruling> rule(const policy::Question& question) = 0;
  // Of records that are begun before it is asked.
  [[nodiscard]] virtual std::string policyId() const = 0;
  // Why every run would be denied, as far as that is known without asking.
  [[nodiscard]] virtual Result<> ready() const = 0;
};

// The document in force, read by ourselves; answers at once. `current` outlives it.
class EmbeddedEngine final : public PolicyEngine {
 public:
  explicit EmbeddedEngine(const policy::Current& current) : current_(current) {}
  [[nodiscard]] std::string_view name() const override { return "embedded"; }
  boost::asio::awaitable<Ruling> rule(const policy::Question& question) override;
  [[nodiscard]] std::string policyId() const override { return current_.get()->id; }
  [[nodiscard]] Result<> ready() const override;

 private:
  const policy::Current& current_;
};

// Adds how it was decided, where there is more to say than the policy's id.
model::AuditEvent withRuling(model::AuditEvent event, const Ruling& ruling);

}  // namespace cloister::orchestrator
