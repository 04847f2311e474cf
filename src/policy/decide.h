// SPDX-License-Identifier: Apache-2.0
// Policy: a run request in, a decision out. Pure: no I/O, no clock of its own. Only this folder can
// construct a Permit. Silence denies; the first matching rule decides; a broken policy denies.
//
// What no rule can grant, because no node can do it yet, is refused first and says so: a network,
// and dependencies (which need one). A runtime that the node does not offer is refused too: nothing
// falls back to something weaker, unless the configuration says so (`policy.allow_weaker`), and
// then the record names it. A denial stands whoever approves.
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
#include "model/exec_spec.h"
#include "model/image_name.h"
#include "model/language.h"
#include "model/permit.h"
#include "model/plan.h"
#include "model/principal.h"
#include "model/run_request.h"
#include "policy/document.h"

namespace cloister::policy {

// A rule that wants a person's consent. Nothing may run until the approval stands; what decides is
// the rule that matched, so a request that was approved is decided again with `Question::approved`.
struct NeedsApproval {
  std::string rule;                         // its name; never ""
  std::string reason;                       // the rule's `why`, or why its tier is so high
  std::vector<std::string> approver_roles;  // a principal with one of them; never empty
  uint32_t quorum = 1;                      // distinct approvers, 1 to 10
  int64_t ttl_seconds = 3600;               // how long the request waits for them
  std::string fallback = "deny";            // at the timeout; nothing else is known
};

struct Denied {
  std::string rule;  // "" when no rule matched
  std::string reason;
  std::string remedy;
  bool for_approval = false;  // only an approval is missing; see refusalOf()
  bool unavailable = false;   // there is no policy that could decide; it may be back later
};

// What the decision is about, beyond the request itself.
struct Question {
  const model::RunRequest& request;
  const model::Principal& principal;
  std::string execution_id;
  std::string permit_id;
  std::string spec_sha256;
  std::string prestart;    // see PermitFields, as the two above and below
  int64_t now = 0;         // wall-clock microseconds
  int64_t valid_for = 0;   // microseconds a permit lives before the node must have it
  std::string language;    // ruleLanguage(); without it nothing is allowed
  std::string session_id;  // see PermitFields
  // What the node offers, outlives the question; null or empty: not known, then only "process".
  const std::vector<std::string>* runtimes = nullptr;
  const std::vector<model::OfferedImage>* images = nullptr;  // likewise: only the host's
  std::string inside = {};  // the runtime of its session's sandbox; "": there is none yet
  const model::Walls* walls = nullptr;  // that a sandbox gets for the agent; null: none
  uint32_t agent_cpu_millis = 0;        // see PermitFields
  bool approved = false;  // an approval of exactly this stands: a rule that wants one allows
  std::string_view operation = "run";     // one of kOperations
  const RiskFacts* risk_facts = nullptr;  // null: as if there were none
};

// What `languages` of a rule are compared with: the language's own name, never an alias, or
// "command" for a command, whatever language it names besides. "" for an unknown language.
std::string ruleLanguage(const model::RunRequest& request, const model::LanguageSet& languages);

using Decision = std::variant<model::Permit, Denied, NeedsApproval>;

Decision decide(const Policy& policy, const Question& question);

// How a decision comes about: all that decide() goes by, for those who explain it.
struct Evaluation {
  const Rule* rule = nullptr;  // that decides, in the policy; null: none
  int score = 0;
  Tier tier = Tier::kAuto;  // with a rule that allows
  std::string_view runtime;
  std::string weaker;  // what `policy.allow_weaker` made of the runtime, for records; "" if nothing
  const model::OfferedImage* image = nullptr;  // among the question's; null: the host's
  model::Limits limits;  // asked for; those that are not named, lowered to what the rule allows
  std::optional<Denied> denied;
  const Approval* wanted = nullptr;  // that is missing; in the policy
};
Evaluation evaluate(const Policy& policy, const Question& question);
// Of one that is not denied.
model::ImageRef imageOf(const Evaluation& made);

// Why `decision` is no permit; nullopt where it is one. A missing approval is a denial that says
// how to ask, for callers that cannot wait for one.
std::optional<Denied> refusalOf(const Decision& decision);

// Whether a rule matches; `score` is riskOf() the question.
bool matches(const Rule& rule, const Question& question, int score);

// Evaluation::weaker, for `weakened` of the record.
std::string weakerOf(const Policy& policy, const Question& question);

// The name of the rule that decides, for the record; "" when none matches.
std::string decidingRule(const Policy& policy, const Question& question);

// The most that the rule which decides allows; what is asked for where none matches.
model::Limits mostAllowed(const Policy& policy, const Question& question);
// The longest that its rule lets a program run; nothing where the rule names no time.
std::optional<std::chrono::milliseconds> mostTime(const Policy& policy, const Question& question);

// The request and its language → what the sandbox is to run: files, argv, environment. kInvalid for
// an unknown language, or a file in the place of the code. What a compile step makes goes to /tmp,
// so that /workspace holds only the request's files and what the program writes. `tag` makes the
// code's names its own, for a program beside others in a session; "" for a run alone.
Result<model::ExecSpec> resolve(const model::RunRequest& request,
                                const model::LanguageSet& languages, std::string_view tag = {});

// A session's kernel for `language`, with the session's variables: its argv, with {dir} for `dir`,
// and its environment.
model::ExecSpec resolveKernel(const model::Language& language, const model::RunRequest& request,
                              const std::string& dir);

}  // namespace cloister::policy
