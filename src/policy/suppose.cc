// SPDX-License-Identifier: Apache-2.0
// Hypothetical requests: read for an explanation, or as the cases of a document.
#include <algorithm>

#include "model/yaml.h"
#include "policy/explain.h"

namespace cloister::policy {
namespace {

namespace json = base::json;

constexpr size_t kMaxCases = 500;

std::unexpected<Error> wrong(const std::string& field, std::string_view why) {
  return fail(Code::kInvalid, field + ": " + std::string(why), field);
}

Result<std::vector<std::string>> optionalTexts(base::ObjectReader& reader, std::string_view name,
                                               std::vector<std::string> otherwise) {
  if (reader.any(name) == nullptr) return otherwise;
  return model::textList(reader, name);
}

Result<model::Principal> readPrincipal(const json::object& object, const std::string& path,
                                       const model::Principal& asker) {
  base::ObjectReader reader(object, path);
  model::Principal who;
  who.tenant = TRY(reader.text("tenant")).value_or(asker.tenant);
  who.app = TRY(reader.text("app")).value_or("");
  who.agent = TRY(reader.text("agent")).value_or("");
  who.user = TRY(reader.text("user")).value_or("");
  const std::vector<std::string> roles = TRY(optionalTexts(reader, "roles", {"agent"}));
  who.roles = TRY(model::rolesFromNames(roles));
  TRY(reader.finish());
  return who;
}

// A request's errors name its members as if the request were the whole document.
Result<model::RunRequest> readRequest(const json::object& object, const std::string& path,
                                      const model::RequestBounds& bounds) {
  auto request = model::parseRunRequest(object, bounds);
  if (request) return request;
  Error error = std::move(request).error();
  const bool named = !error.field.empty() && error.message.starts_with(error.field);
  error.message.insert(0, path + (named ? "." : ": "));
  error.field = path + (error.field.empty() ? "" : "." + error.field);
  return std::unexpected(std::move(error));
}

// Compares a case's expectations with the result.
json::array problemsOf(const json::object& wanted, const json::object& came) {
  json::array problems;
  for (const auto& [name, value] : wanted) {
    const json::value* there = came.if_contains(name);
    if (there != nullptr && *there == value) continue;
    problems.push_back(json::string(std::string(name) + ": wanted " + base::toJson(value) +
                                    ", came " +
                                    (there == nullptr ? "nothing" : base::toJson(*there))));
  }
  return problems;
}

Result<json::object> readExpected(base::ObjectReader& reader, const std::string& path) {
  const json::object* expect = TRY(reader.object("expect"));
  if (expect == nullptr || expect->empty()) return wrong(reader.pathOf("expect"), "is required");
  base::ObjectReader inner(*expect, path + ".expect");
  const auto decision = TRY(inner.text("decision"));
  TRY(inner.array("network"));
  for (const std::string_view name : {"rule", "tier", "runtime", "reason"})
    TRY(inner.text(name));
  TRY(inner.finish());
  if (decision && decision != "allow" && decision != "deny" && decision != "approve") {
    return wrong(path + ".expect.decision", "must be allow, deny or approve");
  }
  return *expect;
}

Result<json::object> runCase(const Policy& policy, const json::object& object,
                             const std::string& path, const ReaderParts& parts) {
  base::ObjectReader reader(object, path);
  const std::string name = TRY(model::requiredText(reader, "name"));
  model::Principal nobody;
  nobody.tenant = "default";
  const Supposed supposed = TRY(readSupposed(reader, parts, nobody));
  const json::object wanted = TRY(readExpected(reader, path));
  TRY(reader.finish());
  const json::object came = briefly(policy, supposed.question());
  json::array problems = problemsOf(wanted, came);
  return json::object{{"name", name},
                      {"passed", problems.empty()},
                      {"problems", std::move(problems)},
                      {"came", came}};
}

Result<json::object> runAll(const Policy& policy, const json::object& document,
                            const ReaderParts& parts) {
  base::ObjectReader reader(document, "");
  if (!TRY(reader.integer("version", 1, 1))) return wrong("version", "is required; it is 1");
  const json::array* items = TRY(reader.array("cases"));
  if (items == nullptr || items->empty()) return wrong("cases", "must be a list of cases");
  if (items->size() > kMaxCases) return wrong("cases", "more than 500 cases");
  TRY(reader.finish());
  json::array results;
  int64_t failed = 0;
  for (const json::value& item : *items) {
    const std::string path = "cases[" + std::to_string(results.size()) + "]";
    if (!item.is_object()) return wrong(path, "must be a map");
    results.push_back(TRY(runCase(policy, item.get_object(), path, parts)));
    failed += results.back().at("passed").as_bool() ? 0 : 1;
  }
  const auto count = static_cast<int64_t>(results.size());
  return json::object{{"policy_id", policy.id},
                      {"passed", count - failed},
                      {"failed", failed},
                      {"cases", std::move(results)}};
}

}  // namespace

Question Supposed::question() const {
  return {.request = request,
          .principal = principal,
          .execution_id = {},
          .permit_id = {},
          .spec_sha256 = {},
          .prestart = {},
          .language = language,
          .session_id = in_session ? "ses_supposed" : "",
          .runtimes = &runtimes,
          .images = &images,
          .approved = approved,
          .operation = operation,
          .risk_facts = &facts,
          .agent_network = agent_network ? &*agent_network : nullptr,
          .internal = &internal,
          .packages = &packages};
}

Supposed suppose(model::RunRequest request, model::Principal principal, const ReaderParts& parts) {
  Supposed made;
  model::settle(request.limits);
  made.language = ruleLanguage(request, parts.languages);
  made.facts = riskFactsOf(request, parts.languages, &parts.levels);
  made.request = std::move(request);
  made.principal = std::move(principal);
  if (parts.runtimes != nullptr) made.runtimes = *parts.runtimes;
  if (parts.images != nullptr) made.images = *parts.images;
  if (parts.internal != nullptr) made.internal = *parts.internal;
  if (parts.packages != nullptr) made.packages = *parts.packages;
  return made;
}

Result<Supposed> readSupposed(base::ObjectReader& reader, const ReaderParts& parts,
                              const model::Principal& asker) {
  const json::object* asked = TRY(reader.object("request"));
  if (asked == nullptr) return wrong(reader.pathOf("request"), "is required");
  model::RunRequest request = TRY(readRequest(*asked, reader.pathOf("request"), parts.bounds));
  model::Principal principal = asker;
  if (const json::object* who = TRY(reader.object("principal"))) {
    principal = TRY(readPrincipal(*who, reader.pathOf("principal"), asker));
  }
  Supposed made = suppose(std::move(request), std::move(principal), parts);
  made.in_session = TRY(reader.boolean("session")).value_or(false);
  made.approved = TRY(reader.boolean("approved")).value_or(false);
  made.runtimes = TRY(optionalTexts(reader, "runtimes", std::move(made.runtimes)));
  if (reader.any("images") != nullptr) made.images.clear();
  for (std::string& name : TRY(optionalTexts(reader, "images", {}))) {
    if (!model::isImageName(name)) return wrong(reader.pathOf("images"), "has no name of an image");
    model::OfferedImage& image = made.images.emplace_back();
    image.name = std::move(name);
    image.machines = true;
  }
  const std::string operation =
      TRY(reader.text("operation")).value_or(made.in_session ? "exec" : "run");
  const auto* known = std::ranges::find(kOperations, operation);
  if (known == kOperations.end()) {
    return wrong(reader.pathOf("operation"), "must be run, session, exec, files or kernel");
  }
  made.operation = *known;
  return made;
}

Result<json::object> runCases(const Policy& policy, std::string_view yaml,
                              const ReaderParts& parts) {
  model::YamlLines lines;
  const json::object document = TRY(model::parseYaml(yaml, "cases", &lines));
  auto results = runAll(policy, document, parts);
  if (results) return results;
  Error error = std::move(results).error();
  const int line = model::lineOf(lines, error.field);
  return std::unexpected(
      std::move(error).within(line == 0 ? "cases" : "cases: line " + std::to_string(line)));
}

}  // namespace cloister::policy
