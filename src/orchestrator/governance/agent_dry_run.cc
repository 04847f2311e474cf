// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/governance/agent_dry_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "async/awaiting.h"
#include "orchestrator/core/stored_request.h"
#include "orchestrator/governance/policy_service.h"
#include "orchestrator/governance/replay.h"
#include "orchestrator/guard/approval.h"
#include "store/agent_requests.h"

namespace cloister::orchestrator {
namespace {

namespace json = base::json;
using Rules = std::shared_ptr<const policy::AgentRules>;

constexpr size_t kExamples = 5;

// Why a request cannot be decided again.
constexpr std::string_view kForgotten = "forgotten";       // retention removed it
constexpr std::string_view kIllegible = "illegible";       // its key or its form is gone
constexpr std::string_view kVisit = "another's session";   // whose rules hold there, too
constexpr std::string_view kGoneSession = "session gone";  // nobody knows whose it was
constexpr std::string_view kLanguage = "unknown language";

// A request by one of the two sets of rules.
struct Side {
  std::optional<AgentRefusal> refusal;
  Held held;
  policy::Supposed supposed;
  std::shared_ptr<const policy::Policy> policy;  // the engine's ruling

  [[nodiscard]] policy::Question question() const {
    policy::Question asked = supposed.question();
    asked.now = base::wallMicros();
    asked.walls = held ? &held->walls : nullptr;
    asked.agent_cpu_millis = held ? held->cpu_millis : 0;
    asked.agent_network = held ? &held->network : nullptr;
    return asked;
  }
};

struct Replayed {
  std::string execution;
  bool takes_input = false;  // then no approval can be waited for
  Side before;
  Side after;
};

struct Replay {
  std::vector<Replayed> requests;
  std::map<std::string_view, uint64_t> not_replayable;
};

// The parts of the work on a background thread; it owns them: the node may come or go meanwhile.
struct Work {
  DryRunParts with;
  store::AgentName agent;
  Rules present;
  Rules proposed;
  model::NodeOffer offer;
  model::RequestBounds bounds = storedBounds();
  std::map<std::string, std::optional<model::Principal>> makers = {};  // of sessions

  [[nodiscard]] policy::ReaderParts readerParts() const {
    return {.languages = with.control->languages,
            .levels = with.levels,
            .bounds = bounds,
            .runtimes = &offer.runtimes,
            .images = &offer.images,
            .internal = &with.control->config.internal,
            .packages = &with.control->config.packages};
  }
};

// A limit that the present rules lowered is stored as if the request had named it.
void unnameLowered(const policy::AgentRules* present, model::RunRequest& request) {
  if (present == nullptr) return;
  const model::Limits usual;
  const size_t memory = model::limitIndex(model::limit_name::kMemory);
  const auto& most = present->limits.memory_mb;
  if (most && request.limits.memory_bytes == std::max<uint64_t>(1, *most) << 20 &&
      request.limits.memory_bytes < usual.memory_bytes) {
    request.limits.memory_bytes = usual.memory_bytes;
    request.named_limits.reset(memory);
  }
  const size_t wall = model::limitIndex(model::limit_name::kWall);
  const auto& time = present->limits.time_seconds;
  if (time && request.limits.wall == std::chrono::seconds(std::max<uint64_t>(1, *time)) &&
      request.limits.wall < usual.wall) {
    request.limits.wall = usual.wall;
    request.named_limits.reset(wall);
  }
}

// The maker of the session, read once.
const std::optional<model::Principal>& makerOf(Work& work, const std::string& session) {
  const auto known = work.makers.find(session);
  if (known != work.makers.end()) return known->second;
  auto found = work.with.control->store.session(store::Scope::ofTenant(work.agent.tenant), session);
  return work.makers
      .emplace(session, found ? std::optional(std::move(found->principal)) : std::nullopt)
      .first->second;
}

// "" if the request can be decided again.
std::string_view obstacle(Work& work, const store::AgentRequest& stored) {
  if (!stored.request_json) return kForgotten;
  if (stored.request_json->empty()) return kIllegible;
  if (stored.session_id.empty()) return "";
  const auto& maker = makerOf(work, stored.session_id);
  if (!maker) return kGoneSession;
  return maker->sameAgent(stored.principal) ? "" : kVisit;
}

Result<Side> sideOf(const Work& work, const Rules& rules, const store::AgentRequest& stored,
                    const model::ExecRequest& asked) {
  model::ExecRequest request = asked;
  const bool in_session = !stored.session_id.empty();
  AgentJudgement judged =
      TRY(work.with.guard.judgeBy(rules, stored.principal, request, in_session));
  Side side{
      .refusal = std::move(judged.refusal),
      .held = std::move(judged.held),
      .supposed = policy::suppose(std::move(request.run), stored.principal, work.readerParts()),
      .policy = nullptr};
  side.supposed.in_session = in_session;
  if (in_session) side.supposed.operation = "exec";
  return side;
}

Result<std::optional<Replayed>> replayOne(Work& work, const store::AgentRequest& stored,
                                          std::string_view& why) {
  why = obstacle(work, stored);
  if (!why.empty()) return std::nullopt;
  why = kIllegible;
  const auto object = parseStored(*stored.request_json);
  if (!object) return std::nullopt;
  base::ObjectReader reader(*object, "");
  model::ExecRequest asked;
  if (!model::readRunRequest(reader, work.bounds, asked.run)) return std::nullopt;
  asked.cwd = TRY(reader.text("cwd")).value_or("");
  asked.run.approval.clear();  // asked anew
  unnameLowered(work.present.get(), asked.run);
  why = kLanguage;
  if (policy::ruleLanguage(asked.run, work.with.control->languages).empty()) return std::nullopt;
  const bool input = TRY(reader.boolean("keep_input")).value_or(false) || object->contains("tty");
  why = "";
  return Replayed{.execution = stored.execution,
                  .takes_input = input,
                  .before = TRY(sideOf(work, work.present, stored, asked)),
                  .after = TRY(sideOf(work, work.proposed, stored, asked))};
}

Result<Replay> replayAll(Work& work, uint32_t limit) {
  Replay all;
  for (const store::AgentRequest& stored :
       TRY(store::agentRequests(work.with.control->store, work.agent, limit))) {
    std::string_view why;
    auto made = TRY(replayOne(work, stored, why));
    if (made) {
      all.requests.push_back(*std::move(made));
    } else {
      ++all.not_replayable[why];
    }
  }
  return all;
}

json::object decided(std::string_view decision, std::string_view by, json::value rule,
                     std::string reason) {
  return {
      {"decision", decision}, {"by", by}, {"rule", std::move(rule)}, {"reason", std::move(reason)}};
}

json::value keyOf(const AgentRefusal& refusal) {
  const std::string& rule = refusal.denied.rule;
  return json::string(rule.empty() ? refusal.violation.outcome : rule);
}

// As RunService decides: what the agent's rules refuse without a person's way out is denied; policy
// may deny the rest; and what both leave to people is asked.
json::object outcomeOf(const Side& side, bool takes_input,
                       const std::vector<std::string>& safe_operations) {
  const json::object policy = policy::briefly(*side.policy, side.question());
  const std::string_view by_policy = policy.at("decision").as_string();
  if (!side.refusal) {
    const bool unasked = takes_input && by_policy == "approve";
    return decided(unasked ? "deny" : by_policy, "policy", policy.at("rule"),
                   std::string(policy.at("reason").as_string()));
  }
  const AgentRefusal& refused = *side.refusal;
  const bool asks = !refused.wants.empty() && !takes_input && by_policy != "deny";
  if (!asks) return decided("deny", "agent", keyOf(refused), refused.denied.reason);
  const bool safe = !refused.needs_person && by_policy != "approve" &&
                    areSafeOperations(refused.wants, safe_operations);
  if (safe) return decided("allow", "safe_operations", keyOf(refused), refused.denied.reason);
  return decided("approve", "agent", keyOf(refused), refused.denied.reason);
}

json::object counted(const std::map<std::string, uint64_t>& counts) {
  json::object all{{"allow", 0}, {"approve", 0}, {"deny", 0}};
  for (const auto& [decision, count] : counts)
    all[decision] = count;
  return all;
}

json::object answerOf(const Replay& replay, const std::vector<std::string>& safe_operations) {
  std::map<std::string, uint64_t> before;
  std::map<std::string, uint64_t> after;
  ReplayGroups groups(kExamples);
  uint64_t changed = 0;
  for (const Replayed& each : replay.requests) {
    const json::object from = outcomeOf(each.before, each.takes_input, safe_operations);
    const json::object to = outcomeOf(each.after, each.takes_input, safe_operations);
    ++before[std::string(from.at("decision").as_string())];
    ++after[std::string(to.at("decision").as_string())];
    changed += from.at("decision") != to.at("decision") ? 1 : 0;
    groups.add(from, to, each.execution);
  }
  uint64_t lost = 0;
  json::object reasons;
  for (const auto& [why, count] : replay.not_replayable) {
    reasons[why] = count;
    lost += count;
  }
  return {{"replayed", replay.requests.size()},
          {"changed", changed},
          {"not_replayable", lost},
          {"not_replayable_why", std::move(reasons)},
          {"before", counted(before)},
          {"after", counted(after)},
          {"groups", groups.take()}};
}

}  // namespace

Task<Result<json::object>> dryRun(DryRunParts parts, model::AgentSandbox proposed, uint32_t limit) {
  const model::Principal agent{.tenant = proposed.tenant,
                               .app = {},
                               .agent = proposed.agent,
                               .user = {},
                               .roles = model::Role::kAgent,
                               .key_id = {}};
  const auto work = std::make_shared<Work>(Work{.with = parts,
                                                .agent = {proposed.tenant, proposed.agent},
                                                .present = CO_TRY(parts.guard.rulesOf(agent)),
                                                .proposed = CO_TRY(parts.guard.rulesWith(proposed)),
                                                .offer = parts.control->nodes.offer()});
  using Found = Result<std::shared_ptr<Replay>>;
  const std::function<Found()> replay = [work, limit]() -> Found {
    return std::make_shared<Replay>(TRY(replayAll(*work, limit)));
  };
  const auto all = CO_TRY(co_await async::inBackground<Found>(parts.control->background, replay));
  for (Replayed& each : all->requests) {
    for (Side* side : {&each.before, &each.after}) {
      const policy::Question question = side->question();
      side->policy = (co_await parts.engine.rule(question)).policy;
    }
  }
  const std::function<json::object()> compare = [all, work] {
    return answerOf(*all, work->with.safe_operations);
  };
  json::object answer =
      co_await async::inBackground<json::object>(parts.control->background, compare);
  answer["engine"] = json::string(parts.engine.name());
  co_return answer;
}

Task<Result<json::object>> PolicyService::dryRun(model::AgentSandbox proposed, uint32_t limit) {
  if (parts_.agents == nullptr) co_return fail(Code::kUnsupported, "agents: no levels were given");
  DryRunParts parts{.control = control_,
                    .guard = *parts_.agents,
                    .engine = parts_.engine,
                    .levels = parts_.levels,
                    .safe_operations = config_.safe_operations};
  co_return co_await orchestrator::dryRun(std::move(parts), std::move(proposed), limit);
}

}  // namespace cloister::orchestrator
