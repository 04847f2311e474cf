// SPDX-License-Identifier: Apache-2.0
// Questions about policies: PolicyService::check, explain, test and diff. Nothing is recorded.
#include <algorithm>
#include <optional>
#include <utility>

#include "orchestrator/awaiting.h"
#include "orchestrator/policy_service.h"

namespace cloister::orchestrator {
namespace {

namespace json = base::json;

constexpr std::string_view kEmbedded = "embedded";  // reads documents, whichever engine decides

// A supposed run, from what an execution asked for; nothing where it cannot be read any more.
std::optional<policy::Supposed> supposedFrom(store::RecordedRequest& recorded,
                                             const policy::ReaderParts& parts) {
  const auto value = base::parseJson(recorded.request_json, {.max_bytes = size_t{256} << 20});
  if (!value || !value->is_object()) return std::nullopt;
  base::ObjectReader reader(value->get_object(), "");
  model::RunRequest request;
  // A program of a session has members besides; they are not the policy's.
  model::RequestBounds bounds = parts.bounds;
  bounds.own_metadata = true;
  if (!model::readRunRequest(reader, bounds, request)) return std::nullopt;
  auto made = policy::suppose(std::move(request), std::move(recorded.principal), parts);
  made.in_session = !recorded.session_id.empty();
  if (made.in_session) made.operation = "exec";
  return made;
}

json::object compare(std::vector<store::RecordedRequest> requests, const policy::Policy& from,
                     const policy::Policy& to, const policy::ReaderParts& parts) {
  json::array changes;
  int64_t unreadable = 0;
  const size_t count = requests.size();
  for (store::RecordedRequest& recorded : requests) {
    const auto supposed = supposedFrom(recorded, parts);
    if (!supposed) {
      ++unreadable;
      continue;
    }
    json::object before = policy::briefly(from, supposed->question());
    json::object after = policy::briefly(to, supposed->question());
    if (before == after) continue;
    const bool other = before.at("decision") != after.at("decision");
    changes.push_back(json::object{{"execution_id", recorded.execution},
                                   {"tenant", supposed->principal.tenant},
                                   {"agent", supposed->principal.agent},
                                   {"language", supposed->language},
                                   {"decision_changes", other},
                                   {"from", std::move(before)},
                                   {"to", std::move(after)}});
  }
  return {{"requests", count}, {"unreadable", unreadable}, {"changes", std::move(changes)}};
}

json::array texts(const std::vector<std::string>& values) {
  return json::array(values.begin(), values.end());
}

}  // namespace

// A document, a version, or what is in force.
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
  return {.languages = parts_.languages,
          .levels = parts_.levels,
          .bounds = parts_.bounds,
          .runtimes = &parts_.service.node().offer.runtimes,
          .images = &parts_.service.node().offer.images};
}

Result<json::object> PolicyService::check(const json::object& body) {
  base::ObjectReader reader(body, "");
  const auto document = TRY(reader.text("document"));
  TRY(reader.finish());
  if (!document) return fail(Code::kInvalid, "document: is required", "document");
  const auto policy = parse("document", *document);
  if (!policy) {
    return json::object{{"valid", false},
                        {"error", policy.error().message},
                        {"warnings", json::array()},
                        {"rules", json::array()},
                        {"sha256", nullptr}};
  }
  json::array rules;
  for (const policy::Rule& rule : policy->rules) {
    rules.push_back(json::object{
        {"name", rule.name}, {"effect", policy::effectName(rule.effect)}, {"why", rule.why}});
  }
  return json::object{{"valid", true},
                      {"error", nullptr},
                      {"warnings", texts(policy::warningsOf(*policy))},
                      {"rules", std::move(rules)},
                      {"sha256", policy->sha256}};
}

Task<Result<json::object>> PolicyService::explain(model::Principal asker, json::object body) {
  base::ObjectReader reader(body, "");
  const policy::Policy chosen = CO_TRY(choose(reader, "version"));
  const policy::Supposed supposed = CO_TRY(policy::readSupposed(reader, readerParts(), asker));
  CO_TRY(reader.finish());
  const policy::Question question = supposed.question();
  json::object answer;
  json::value decision_id = nullptr;
  if (body.contains("document") || body.contains("version")) {
    answer = policy::explain(chosen, question);
    answer["engine"] = kEmbedded;
  } else {
    const Ruling ruling = co_await parts_.engine.rule(question);
    answer = policy::explain(*ruling.policy, question);
    answer["engine"] = json::string(parts_.engine.name());
    if (const auto* id = ruling.trace.if_contains("decision_id")) decision_id = *id;
  }
  answer["decision_id"] = std::move(decision_id);
  co_return answer;
}

Result<json::object> PolicyService::test(const json::object& body) {
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
  // What it works with is its own: the node may come or go meanwhile.
  const auto work = [with = parts_, scope = store::Scope::of(asker), from = std::move(from),
                     to = std::move(to), count,
                     offer = parts_.service.node().offer]() -> Result<json::object> {
    const policy::ReaderParts parts{.languages = with.languages,
                                    .levels = with.levels,
                                    .bounds = with.bounds,
                                    .runtimes = &offer.runtimes,
                                    .images = &offer.images};
    return compare(TRY(with.store.requests(scope, count)), from, to, parts);
  };
  co_return co_await inBackground<Result<json::object>>(parts_.background, work);
}

}  // namespace cloister::orchestrator
