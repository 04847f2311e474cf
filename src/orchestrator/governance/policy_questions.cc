// SPDX-License-Identifier: Apache-2.0
// Questions about policies: PolicyService::check, explain, test and diff. Nothing is recorded.
#include <optional>
#include <utility>

#include "async/awaiting.h"
#include "base/crypto.h"
#include "model/yaml.h"
#include "orchestrator/governance/policy_service.h"
#include "orchestrator/governance/replay.h"
#include "policy/warnings.h"

namespace cloister::orchestrator {
namespace {

namespace json = base::json;

constexpr std::string_view kEmbedded = "embedded";  // reads documents, whichever engine decides

// Ignores the reason: a rule may have a new sentence.
bool sameDecision(json::object before, json::object after) {
  before.erase("reason");
  after.erase("reason");
  return before == after;
}

json::object compare(std::vector<store::RecordedRequest> requests, const policy::Policy& from,
                     const policy::Policy& to, const policy::ReaderParts& parts) {
  json::array changes;
  ReplayGroups groups(3);
  int64_t unreadable = 0;
  const size_t count = requests.size();
  for (store::RecordedRequest& recorded : requests) {
    const auto supposed = supposedFrom(recorded.request_json, std::move(recorded.principal),
                                       !recorded.session_id.empty(), parts);
    if (!supposed) {
      ++unreadable;
      continue;
    }
    json::object before = policy::briefly(from, supposed->question());
    json::object after = policy::briefly(to, supposed->question());
    if (sameDecision(before, after)) continue;
    groups.add(before, after, recorded.execution);
    const bool other = before.at("decision") != after.at("decision");
    changes.push_back(json::object{{"execution_id", recorded.execution},
                                   {"tenant", supposed->principal.tenant},
                                   {"agent", supposed->principal.agent},
                                   {"language", supposed->language},
                                   {"decision_changes", other},
                                   {"from", std::move(before)},
                                   {"to", std::move(after)}});
  }
  return {{"requests", count},
          {"unreadable", unreadable},
          {"groups", groups.take()},
          {"changes", std::move(changes)}};
}

json::array texts(const std::vector<std::string>& values) {
  return json::array(values.begin(), values.end());
}

json::object notValid(const Error& error) {
  return {{"valid", false},
          {"error", error.message},
          {"warnings", json::array()},
          {"rules", json::array()},
          {"sha256", nullptr}};
}

// Whether the document has levels (`agents.levels`), which can be checked as well.
bool isLevels(const std::string& document) {
  const auto parsed = model::parseYaml(document, "document");
  return parsed && parsed->contains("sandbox_levels");
}

json::object checkLevels(const std::string& document) {
  const auto levels = policy::parseLevels(document, "document");
  if (!levels) return notValid(levels.error());
  json::array names;
  for (const auto& [name, level] : levels->levels)
    names.push_back(json::string(name));
  return {{"valid", true},
          {"error", nullptr},
          {"warnings", texts(policy::warningsOf(*levels))},
          {"rules", json::array()},
          {"levels", std::move(names)},
          {"sha256", base::sha256Hex(document)}};
}

// The service's documents name other tenants: only principals with policy.apply see the content.
bool seesDocuments(const model::Principal& asker) {
  return asker.may(model::Permission::kPolicyApply);
}

// Whether the asker brings the document along.
bool bringsDocument(const json::object& body) {
  const json::value* document = body.if_contains("document");
  return document != nullptr && document->is_string();
}

std::unexpected<Error> needsApply(const std::string& field, const std::string& what) {
  return fail(Code::kDenied, field + ": " + what + " needs the permission policy.apply", field);
}

}  // namespace

// Reads the policy to ask: a document, a version, or the version in force.
Result<policy::Policy> PolicyService::choose(base::ObjectReader& reader,
                                             std::string_view version_name) {
  const auto document = version_name == "version" ? TRY(reader.text("document")) : std::nullopt;
  const auto version = TRY(reader.integer(version_name, 1, INT64_MAX));
  if (document && version) {
    return fail(Code::kInvalid, "version: not together with document", "version");
  }
  if (document) {
    auto policy = parse("document", *document);
    if (!policy) policy.error().field = "document";
    return policy;
  }
  if (!version) return *parts_.current.get();
  const store::PolicyVersion stored = TRY(get(*version));
  policy::Policy policy = TRY(parse(stored.name, stored.document));
  policy::setVersion(policy, stored.version);
  return policy;
}

policy::ReaderParts PolicyService::readerParts() const {
  return {.languages = control_->languages,
          .levels = parts_.levels,
          .bounds = parts_.bounds,
          .runtimes = &control_->nodes.offer().runtimes,
          .images = &control_->nodes.offer().images,
          .internal = &control_->config.internal,
          .packages = &control_->config.packages};
}

Result<json::object> PolicyService::check(const json::object& body) {
  base::ObjectReader reader(body, "");
  const auto document = TRY(reader.text("document"));
  TRY(reader.finish());
  if (!document) return fail(Code::kInvalid, "document: is required", "document");
  if (isLevels(*document)) return checkLevels(*document);
  const auto policy = parse("document", *document);
  if (!policy) return notValid(policy.error());
  json::array rules;
  for (const policy::Rule& rule : policy->rules) {
    rules.push_back(json::object{
        {"name", rule.name}, {"effect", policy::effectName(rule.effect)}, {"why", rule.why}});
  }
  return json::object{{"valid", true},
                      {"error", nullptr},
                      {"warnings", texts(policy::warningsOf(*policy, readerParts()))},
                      {"rules", std::move(rules)},
                      {"sha256", policy->sha256}};
}

std::vector<std::string> PolicyService::warnings(const std::string& document) const {
  const auto policy = parse("document", document);
  return policy ? policy::warningsOf(*policy, readerParts()) : std::vector<std::string>{};
}

Task<Result<json::object>> PolicyService::explain(model::Principal asker, json::object body) {
  const bool own = bringsDocument(body);
  const bool sees = own || seesDocuments(asker);
  if (!sees && body.contains("version")) co_return needsApply("version", "to ask about a version");
  base::ObjectReader reader(body, "");
  const policy::Policy chosen = CO_TRY(choose(reader, "version"));
  const policy::Supposed supposed = CO_TRY(policy::readSupposed(reader, readerParts(), asker));
  CO_TRY(reader.finish());
  if (!sees && supposed.principal.tenant != asker.tenant) {
    co_return needsApply("principal.tenant", "to ask for another tenant without a document");
  }
  const auto listed = sees ? policy::Listed::kAll : policy::Listed::kMatching;
  const policy::Question question = supposed.question();
  json::object answer;
  json::value decision_id = nullptr;
  if (own || body.contains("version")) {
    answer = policy::explain(chosen, question, listed);
    answer["engine"] = kEmbedded;
  } else {
    const Ruling ruling = co_await parts_.engine.rule(question);
    answer = policy::explain(*ruling.policy, question, listed);
    answer["engine"] = json::string(parts_.engine.name());
    if (const auto* id = ruling.trace.if_contains("decision_id")) decision_id = *id;
  }
  answer["decision_id"] = std::move(decision_id);
  co_return answer;
}

Result<json::object> PolicyService::test(const model::Principal& asker, const json::object& body) {
  if (!bringsDocument(body) && !seesDocuments(asker)) {
    return needsApply("document", "to test another document than one of your own");
  }
  base::ObjectReader reader(body, "");
  const policy::Policy policy = TRY(choose(reader, "version"));
  const auto cases = TRY(reader.text("cases"));
  TRY(reader.finish());
  if (!cases) return fail(Code::kInvalid, "cases: is required", "cases");
  auto results = policy::runCases(policy, *cases, readerParts());
  if (!results) results.error().field = "cases";
  return results;
}

Task<Result<json::object>> PolicyService::diff(model::Principal asker, json::object body) {
  base::ObjectReader reader(body, "");
  policy::Policy to = CO_TRY(choose(reader, "version"));
  policy::Policy from = CO_TRY(choose(reader, "against"));
  const auto recent = CO_TRY(reader.integer("recent", 0, config_.replay));
  CO_TRY(reader.finish());
  json::object answer = policy::differences(from, to);
  answer["replay"] = nullptr;
  if (recent.value_or(0) == 0) co_return answer;
  answer["replay"] = CO_TRY(co_await replay(std::move(asker), std::move(from), std::move(to),
                                            static_cast<uint32_t>(*recent)));
  co_return answer;
}

Task<Result<json::object>> PolicyService::replay(model::Principal asker, policy::Policy from,
                                                 policy::Policy to, uint32_t count) {
  // The work owns its data: the node may come or go meanwhile.
  const auto work = [control = control_, with = parts_, scope = store::Scope::of(asker),
                     from = std::move(from), to = std::move(to), count,
                     offer = control_->nodes.offer()]() -> Result<json::object> {
    const policy::ReaderParts parts{.languages = control->languages,
                                    .levels = with.levels,
                                    .bounds = with.bounds,
                                    .runtimes = &offer.runtimes,
                                    .images = &offer.images};
    return compare(TRY(control->store.requests(scope, count)), from, to, parts);
  };
  co_return co_await async::inBackground<Result<json::object>>(control_->background, work);
}

}  // namespace cloister::orchestrator
