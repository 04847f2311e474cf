// SPDX-License-Identifier: Apache-2.0
// /letta/v1/sandbox-config: configurations of sandboxes and their variables. A variable's value is
// never read back.
#include <algorithm>
#include <utility>

#include "api/compat/letta/documents.h"
#include "api/compat/letta/letta.h"
#include "api/compat/letta/sandbox_config.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "orchestrator/core/ledger.h"
#include "store/rows/documents.h"

namespace cloister::api::compat::letta {
namespace {

using store::Document;
using store::DocumentReader;

constexpr std::string_view kConfigOf = "sandbox_config_id";
constexpr std::string_view kTypes[] = {"local", "e2b", "modal"};
constexpr uint32_t kMostVariables = 256;  // of a configuration

json::object shownConfig(const Document& document) {
  json::object stored = membersOf(document);
  return {{"id", document.id},
          {"type", document.name},
          {"organization_id", document.tenant},
          {"created_by_id", document.created_by},
          {"last_updated_by_id", document.updated_by},
          {"created_at", base::formatTime(document.created_at)},
          {"updated_at", base::formatTime(document.updated_at)},
          {"config", std::move(stored["config"])}};
}

json::object shownVariable(const Document& document) {
  const json::object stored = membersOf(document);
  return {{"id", document.id},
          {"key", stored.at("key")},
          {"value", ""},
          {"description", stored.at("description")},
          {"organization_id", document.tenant},
          {kConfigOf, stored.at(kConfigOf)},
          {"created_at", base::formatTime(document.created_at)},
          {"updated_at", base::formatTime(document.updated_at)}};
}

Result<Document> find(RestParts& parts, const Request& request, std::string_view kind,
                      const std::string& id) {
  return store::documents(parts.store)
      .get(DocumentReader::of(request.principal), std::string(kind), id);
}

// The members of a configuration with an effect here.
Result<json::object> readConfig(const RestParts& parts, const json::object& body) {
  json::object config = TRY(objectOf(body, "config"));
  json::object requirements;
  for (const std::string_view name : {"pip_requirements", "npm_requirements"}) {
    if (const json::value* given = config.if_contains(name)) requirements[name] = *given;
  }
  TRY(readTool(requirements, parts.bounds));
  return json::object{{"config", std::move(config)}};
}

Result<std::string> typeIn(const json::object& body) {
  const json::object config = TRY(objectOf(body, "config"));
  std::string type = TRY(textOf(body, "type"));
  if (type.empty())
    type = config.contains("template") || config.contains("timeout") ? "e2b" : "local";
  if (std::ranges::find(kTypes, type) != std::end(kTypes)) return type;
  return fail(Code::kInvalid, "type: must be local, e2b or modal", "type");
}

Task<Result<Response>> keepConfig(RestParts& parts, Request& request, std::string type,
                                  json::object stored) {
  store::NewDocument config{.id = newId("sandbox"),
                            .tenant = request.principal.tenant,
                            .agent = request.principal.agent,
                            .kind = std::string(kConfigKind),
                            .name = std::move(type),
                            .json = base::toJson(stored),
                            .at = base::wallMicros()};
  auto kept =
      co_await orchestrator::Ledger(parts.store)
          .write(store::putDocument, std::move(config), parts.compat.letta.variables_per_tenant,
                 eventOf("sandbox_config.changed", request));
  if (!kept) co_return std::unexpected(std::move(kept).error());
  co_return answer(shownConfig(*kept));
}

Task<Result<Response>> createConfig(RestParts& parts, Request& request) {
  const json::object body = CO_TRY(bodyIn(parts, request));
  json::object stored = CO_TRY(readConfig(parts, body));
  std::string type = CO_TRY(typeIn(body));
  co_return co_await keepConfig(parts, request, std::move(type), std::move(stored));
}

// The configuration of the type, made with nothing in it where there is none.
Task<Result<Response>> defaultConfig(RestParts& parts, Request& request, std::string type) {
  const auto found =
      store::documents(parts.store)
          .named(DocumentReader::of(request.principal), std::string(kConfigKind), type);
  if (found) co_return answer(shownConfig(*found));
  if (found.error().code != Code::kNotFound) co_return std::unexpected(found.error());
  co_return co_await keepConfig(parts, request, std::move(type),
                                json::object{{"config", json::object()}});
}

Task<Result<Response>> defaultLocal(RestParts& parts, Request& request) {
  return defaultConfig(parts, request, "local");
}

Task<Result<Response>> defaultE2b(RestParts& parts, Request& request) {
  return defaultConfig(parts, request, "e2b");
}

Task<Result<Response>> putLocal(RestParts& parts, Request& request) {
  const json::object body = CO_TRY(bodyIn(parts, request));
  json::object stored = CO_TRY(readConfig(parts, json::object{{"config", body}}));
  co_return co_await keepConfig(parts, request, "local", std::move(stored));
}

// Dependencies are layers made for each request: there is no environment to make again.
Task<Result<Response>> recreate(RestParts& parts, Request& request) {
  (void)CO_TRY(bodyIn(parts, request));
  co_return co_await defaultConfig(parts, request, "local");
}

Task<Result<Response>> listConfigs(RestParts& parts, Request& request) {
  store::DocumentQuery query = CO_TRY(readQuery(request, kConfigKind));
  query.name = queryText(request, "sandbox_type").value_or("");
  json::array configs;
  for (const Document& each :
       CO_TRY(store::documents(parts.store).list(DocumentReader::of(request.principal), query)))
    configs.push_back(shownConfig(each));
  co_return answer(std::move(configs));
}

Task<Result<Response>> changeConfig(RestParts& parts, Request& request) {
  const Document before = CO_TRY(find(parts, request, kConfigKind, request.params[0]));
  const json::object body = CO_TRY(bodyIn(parts, request));
  const json::object stored = CO_TRY(readConfig(parts, body));
  store::DocumentChange wanted{.by = DocumentReader::of(request.principal),
                               .kind = before.kind,
                               .id = before.id,
                               .name = before.name,
                               .json = base::toJson(stored),
                               .at = base::wallMicros()};
  auto kept = co_await orchestrator::Ledger(parts.store)
                  .write(store::changeDocument, std::move(wanted),
                         eventOf("sandbox_config.changed", request));
  if (!kept) co_return std::unexpected(std::move(kept).error());
  co_return answer(shownConfig(*kept));
}

Task<Result<Response>> removeDocument(RestParts& parts, Request& request, std::string_view kind,
                                      const char* action) {
  auto removed = co_await orchestrator::Ledger(parts.store)
                     .write(store::removeDocument,
                            store::DocumentKey{.by = DocumentReader::of(request.principal),
                                               .kind = std::string(kind),
                                               .id = request.params[0]},
                            eventOf(action, request));
  if (!removed) co_return std::unexpected(std::move(removed).error());
  co_return noContent();
}

Task<Result<Response>> removeConfig(RestParts& parts, Request& request) {
  return removeDocument(parts, request, kConfigKind, "sandbox_config.deleted");
}

Task<Result<Response>> removeVariable(RestParts& parts, Request& request) {
  return removeDocument(parts, request, kVariableKind, "sandbox_variable.deleted");
}

Result<json::object> readVariable(const RestParts& parts, const json::object& body,
                                  json::object variable) {
  for (const std::string_view name : {"key", "value", "description"}) {
    if (body.contains(name)) variable[name] = TRY(textOf(body, name));
  }
  const std::string key = TRY(textOf(variable, "key"));
  if (!model::isEnvironmentName(key)) {
    return fail(Code::kInvalid, "key: must be the name of a variable: letters, digits and _",
                "key");
  }
  if (TRY(textOf(variable, "value")).size() > parts.bounds.text_bytes) {
    return fail(Code::kTooLarge,
                "value: must have at most " + std::to_string(parts.bounds.text_bytes) + " bytes",
                "value");
  }
  return variable;
}

Task<Result<Response>> createVariable(RestParts& parts, Request& request) {
  const Document config = CO_TRY(find(parts, request, kConfigKind, request.params[0]));
  const json::object body = CO_TRY(bodyIn(parts, request));
  const json::object stored = CO_TRY(readVariable(
      parts, body, {{kConfigOf, config.id}, {"key", ""}, {"value", ""}, {"description", ""}}));
  store::NewDocument variable{.id = newId("sandbox-env"),
                              .tenant = request.principal.tenant,
                              .agent = request.principal.agent,
                              .kind = std::string(kVariableKind),
                              .name = config.id + "/" + std::string(stored.at("key").as_string()),
                              .json = base::toJson(stored),
                              .at = base::wallMicros()};
  auto kept = co_await orchestrator::Ledger(parts.store)
                  .write(store::createDocument, std::move(variable),
                         parts.compat.letta.variables_per_tenant,
                         eventOf("sandbox_variable.created", request));
  if (!kept) co_return std::unexpected(std::move(kept).error());
  co_return answer(shownVariable(*kept));
}

Task<Result<Response>> changeVariable(RestParts& parts, Request& request) {
  const Document before = CO_TRY(find(parts, request, kVariableKind, request.params[0]));
  const json::object body = CO_TRY(bodyIn(parts, request));
  const json::object stored = CO_TRY(readVariable(parts, body, membersOf(before)));
  store::DocumentChange wanted{.by = DocumentReader::of(request.principal),
                               .kind = before.kind,
                               .id = before.id,
                               .name = std::string(stored.at(kConfigOf).as_string()) + "/" +
                                       std::string(stored.at("key").as_string()),
                               .json = base::toJson(stored),
                               .at = base::wallMicros()};
  auto kept = co_await orchestrator::Ledger(parts.store)
                  .write(store::changeDocument, std::move(wanted),
                         eventOf("sandbox_variable.changed", request));
  if (!kept) co_return std::unexpected(std::move(kept).error());
  co_return answer(shownVariable(*kept));
}

// The variables of a configuration, in order of creation; at most kMostVariables.
Result<std::vector<Document>> variablesOf(RestParts& parts, const model::Principal& principal,
                                          const std::string& config) {
  constexpr uint32_t kPage = 100;
  store::DocumentQuery query{.kind = std::string(kVariableKind), .limit = kPage};
  std::vector<Document> found;
  while (found.size() < kMostVariables) {
    const auto some = TRY(store::documents(parts.store).list(DocumentReader::of(principal), query));
    for (const Document& each : some) {
      if (each.name.starts_with(config + "/")) found.push_back(each);
    }
    if (some.size() < kPage) break;
    query.after = some.back().id;
  }
  return found;
}

Task<Result<Response>> listVariables(RestParts& parts, Request& request) {
  const Document config = CO_TRY(find(parts, request, kConfigKind, request.params[0]));
  const store::DocumentQuery query = CO_TRY(readQuery(request, kVariableKind));
  auto variables = CO_TRY(variablesOf(parts, request.principal, config.id));
  if (query.newest_first) std::ranges::reverse(variables);
  const std::string& from = query.newest_first ? query.before : query.after;
  json::array shown;
  bool behind = from.empty();
  for (const Document& each : variables) {
    if (behind && shown.size() < query.limit) shown.push_back(shownVariable(each));
    behind = behind || each.id == from;
  }
  co_return answer(std::move(shown));
}

template <class Handler>
Task<Result<Response>> ownOnly(const RunTokens& tokens, Request& request, RestParts& parts,
                               Handler handler) {
  CO_TRY(tokens.mayChange(request));
  co_return co_await handler(parts, request);
}

}  // namespace

Result<SandboxConfig> sandboxConfigFor(RestParts& parts, const model::Principal& principal) {
  const auto newest =
      TRY(store::documents(parts.store)
              .list(DocumentReader::of(principal),
                    {.kind = std::string(kConfigKind), .limit = 1, .newest_first = true}));
  SandboxConfig config;
  std::string all;
  if (!newest.empty()) {
    config.id = newest.front().id;
    json::object stored = membersOf(newest.front());
    if (const json::object* members = stored["config"].if_object()) config.config = *members;
    all = newest.front().json;
    for (const Document& each : TRY(variablesOf(parts, principal, config.id))) {
      const json::object variable = membersOf(each);
      config.env[std::string(variable.at("key").as_string())] =
          std::string(variable.at("value").as_string());
      all += "\n" + each.id + " " + std::to_string(each.version);
    }
  }
  config.fingerprint = base::sha256Hex(all);
  return config;
}

void apply(const SandboxConfig& config, ToolCall& call) {
  for (const auto& [name, value] : config.env)
    call.env.try_emplace(name, value);
  const bool npm = sourceTypeOf(call.tool) == SourceType::kTypescript;
  const std::string_view name = npm ? "npm_requirements" : "pip_requirements";
  const json::value* further = config.config.if_contains(name);
  if (further == nullptr || !further->is_array()) return;
  json::value& own = call.tool[name];
  if (!own.is_array()) own = json::array();
  for (const json::value& each : further->get_array())
    own.get_array().push_back(each);
}

std::vector<Route> lettaConfigRoutes(RestParts& parts, std::shared_ptr<RunTokens> tokens) {
  // A tool sees its variables in its environment, and nothing of these routes.
  const auto with = [&parts, tokens](auto handler) {
    return [&parts, tokens, handler](Request& request) {
      return ownOnly(*tokens, request, parts, handler);
    };
  };
  const auto route = [&](std::string_view method, std::string_view pattern, auto handler) {
    const bool reads = method == "GET";
    return Route{.method = method,
                 .pattern = pattern,
                 .access = needs(reads ? Permission::kExecutionRead : Permission::kExecutionRun),
                 .query = {},
                 .handle = with(handler),
                 .json_body = !reads && method != "DELETE"};
  };
  return {route("GET", "/letta/v1/sandbox-config/", listConfigs),
          route("GET", "/letta/v1/sandbox-config", listConfigs),
          route("POST", "/letta/v1/sandbox-config/", createConfig),
          route("POST", "/letta/v1/sandbox-config", createConfig),
          route("POST", "/letta/v1/sandbox-config/e2b/default", defaultE2b),
          route("POST", "/letta/v1/sandbox-config/local/default", defaultLocal),
          route("POST", "/letta/v1/sandbox-config/local/recreate-venv", recreate),
          route("POST", "/letta/v1/sandbox-config/local", putLocal),
          route("PATCH", "/letta/v1/sandbox-config/environment-variable/{id}", changeVariable),
          route("DELETE", "/letta/v1/sandbox-config/environment-variable/{id}", removeVariable),
          route("PATCH", "/letta/v1/sandbox-config/{id}", changeConfig),
          route("DELETE", "/letta/v1/sandbox-config/{id}", removeConfig),
          route("POST", "/letta/v1/sandbox-config/{id}/environment-variable", createVariable),
          route("GET", "/letta/v1/sandbox-config/{id}/environment-variable", listVariables)};
}

}  // namespace cloister::api::compat::letta
