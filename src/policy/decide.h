// SPDX-License-Identifier: Apache-2.0
// Policy: a run request in, a decision out. Pure: no I/O, no clock of its own. Only this folder can
// construct a Permit. Without a matching rule the request is denied; the first matching rule
// decides; a broken policy denies.
//
// Dependencies cannot be granted by any rule, because no node can install them yet. Such a request
// is refused first, and the message says so. A network is granted as far as the rule's entries go
// (network_plan.h). A runtime that the node does not offer is refused too. No request falls back to
// a weaker runtime unless the configuration allows a fallback (`policy.allow_weaker`), and then the
// record names the fallback. No approval lifts a denial.
//
// All functions are thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/egress_settings.h"
#include "model/exec_spec.h"
#include "model/image_name.h"
#include "model/language.h"
#include "model/permit.h"
#include "model/plan.h"
#include "model/principal.h"
#include "model/run_request.h"
#include "policy/document.h"
#include "policy/network_grants.h"

namespace cloister::policy {

// The decision of a rule that requires a person's approval. Nothing may run without the approval.
// The matching rule decides, so an approved request is decided again with `Question::approved`.
struct NeedsApproval {
  std::string rule;                         // its name; never ""
  std::string reason;                       // the rule's `why`, or why its tier is so high
  std::vector<std::string> approver_roles;  // roles of approvers; never empty
  uint32_t quorum = 1;                      // distinct approvers, 1 to 10
  int64_t ttl_seconds = 3600;               // how long the request waits for approvers
  std::string fallback = "deny";            // at the timeout; nothing else is known
};

struct Denied {
  std::string rule;  // "" when no rule matched
  std::string reason;
  std::string remedy;
  bool for_approval = false;  // only an approval is missing; see refusalOf()
  bool unavailable = false;   // no policy can decide at the moment; try again later
};

// The facts of a decision beyond the request itself.
struct Question {
  const model::RunRequest& request;
  const model::Principal& principal;
  std::string execution_id;
  std::string permit_id;
  std::string spec_sha256;
  std::string prestart;  // see PermitFields, as the two above and the two below
  std::vector<model::PermitLayer> layers = {};
  int64_t now = 0;         // wall-clock microseconds
  int64_t valid_for = 0;   // microseconds in which the node must receive the permit
  std::string language;    // ruleLanguage(); without a language nothing is allowed
  std::string session_id;  // see PermitFields
  // The node's offers, which must outlive the question; null or empty: unknown, then only
  // "process".
  const std::vector<std::string>* runtimes = nullptr;
  const std::vector<model::OfferedImage>* images = nullptr;  // null or empty: only the host's
  std::string inside = {};  // the runtime of its session's sandbox; "": there is none yet
  const model::Walls* walls = nullptr;  // the agent's confinement rules for a sandbox; null: none
  uint32_t agent_cpu_millis = 0;        // see PermitFields
  bool approved = false;  // exactly this request is approved: an approving rule then allows
  std::string_view operation = "run";                     // a member of kOperations
  const RiskFacts* risk_facts = nullptr;                  // null: no facts
  const AgentNetwork* agent_network = nullptr;            // null: the agent is held to no rules
  const model::InternalDestinations* internal = nullptr;  // of the configuration; null: none
  const model::PackageSettings* packages = nullptr;       // the same
  // The brokered secrets of the request, for the plan; null: not made yet.
  const std::vector<model::PlanSecret>* brokered = nullptr;
};

// The name compared with `languages` of a rule: the language's own name, never an alias, or
// "command" for a command, whatever language the request names. "" for an unknown language.
std::string ruleLanguage(const model::RunRequest& request, const model::LanguageSet& languages);

using Decision = std::variant<model::Permit, Denied, NeedsApproval>;

Decision decide(const Policy& policy, const Question& question);

// The course of a decision: all facts used by decide(), for explanations.
struct Evaluation {
  const Rule* rule = nullptr;  // the deciding rule of the policy; null: none
  int score = 0;
  Tier tier = Tier::kAuto;  // valid with an allowing rule
  std::string_view runtime;
  std::string weaker;  // the change of the runtime by `policy.allow_weaker`, for records; "" if
                       // none
  const model::OfferedImage* image = nullptr;  // among the question's; null: the host's
  model::Limits limits;  // requested limits; unnamed ones are lowered to the rule's
  std::optional<model::NetworkPlan> network;  // of a tier other than none, without denial
  std::optional<Denied> denied;
  const Approval* wanted = nullptr;  // the missing approval; in the policy
};
Evaluation evaluate(const Policy& policy, const Question& question);
// The image of an evaluation without denial.
model::ImageRef imageOf(const Evaluation& made);

// Why `decision` is no permit; nullopt for a permit. A missing approval is a denial with advice on
// asking, for callers that cannot wait.
std::optional<Denied> refusalOf(const Decision& decision);

// Whether a rule matches; `score` is riskOf() the question.
bool matches(const Rule& rule, const Question& question, int score);

// Evaluation::weaker, for `weakened` of the record.
std::string weakerOf(const Policy& policy, const Question& question);

// The name of the deciding rule, for the record; "" without a match.
std::string decidingRule(const Policy& policy, const Question& question);

// The maximum limits of the deciding rule; the requested limits without a match.
model::Limits mostAllowed(const Policy& policy, const Question& question);
// The maximum run time of the deciding rule; nullopt if the rule gives no time.
std::optional<std::chrono::milliseconds> mostTime(const Policy& policy, const Question& question);

// Converts a request and its language to the sandbox's work: files, argv, environment. kInvalid for
// an unknown language, or a file in the place of the code. The output of a compile step goes to
// /tmp, so that /workspace has only the request's files and the program's. `tag` makes the code's
// names unique for a program beside others in a session; "" for a separate run.
Result<model::ExecSpec> resolve(const model::RunRequest& request,
                                const model::LanguageSet& languages, std::string_view tag = {});

// A session's kernel for `language`, with the session's variables: its argv, with {dir} for `dir`,
// and its environment. `languages` has the variables of programs with a network.
model::ExecSpec resolveKernel(const model::Language& language, const model::RunRequest& request,
                              const std::string& dir, const model::LanguageSet& languages);

}  // namespace cloister::policy
