// SPDX-License-Identifier: Apache-2.0
// PolicyEngine: the source of decisions. An engine answers a question with a policy, so that
// policy::decide() has the last word with every engine: policy::decide() alone makes permits, and
// the configuration's ceilings and the node's runtimes bind every engine alike.
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

// An engine's answer to a question.
struct Ruling {
  std::shared_ptr<const policy::Policy> policy;  // never null in an answer
  // For the record: {engine, input_sha256, decision_id or failure}; empty where the policy's id
  // says all.
  base::json::object trace;
};

class PolicyEngine {
 public:
  virtual ~PolicyEngine() = default;
  // "embedded", "opa".
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Never fails: without an answer the ruling is a broken policy, which denies with a reason. The
  // caller keeps the engine alive, and the objects of the question.
  virtual boost::asio::awaitable<Ruling> rule(const policy::Question& question) = 0;
  // For records begun before the question.
  [[nodiscard]] virtual std::string policyId() const = 0;
  // The reason for denying every run, as far as known without asking.
  [[nodiscard]] virtual Result<> ready() const = 0;
};

// The document in force, evaluated in this process; answers at once. `current` outlives the engine.
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

// Adds the ruling's details beyond the policy's id.
model::AuditEvent withRuling(model::AuditEvent event, const Ruling& ruling);

}  // namespace cloister::orchestrator
