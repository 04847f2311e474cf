// SPDX-License-Identifier: Apache-2.0
// /letta/v1/tools and /letta/v1/agents/{agent}/tools: tools, and their runs.
#include <algorithm>
#include <utility>

#include "api/compat/letta/documents.h"
#include "api/compat/letta/letta.h"
#include "api/compat/letta/sandbox_config.h"
#include "api/compat/letta/tool_run.h"
#include "base/clock.h"
#include "orchestrator/core/ledger.h"
#include "store/rows/documents.h"

namespace cloister::api::compat::letta {
namespace {

using store::Document;
using store::DocumentReader;

constexpr uint32_t kPage = 50;

json::object shownOf(const Document& document) {
  return shownTool(document, membersOf(document));
}

std::string projectOf(const Request& request) {
  constexpr size_t kMost = 256;
  return std::string(request.header("x-project-id").substr(0, kMost));
}

// The schema of the tool in `members`: the given one, or one derived from the source.
Task<Result<json::object>> schemaFor(RestParts& parts, const Request& request,
                                     const json::object& members) {
  if (const json::value* schema = members.if_contains("json_schema")) {
    co_return schema->as_object();
  }
  if (sourceTypeOf(members) == SourceType::kTypescript) {
    co_return fail(Code::kInvalid,
                   "json_schema: is required for a tool in TypeScript; only Python has signatures "
                   "from which a schema can be derived",
                   "json_schema");
  }
  co_return co_await deriveSchema(parts, request.principal, sourceOf(members));
}

// Completes the members of a tool with its schema and description. The result is the tool's name.
Task<Result<std::string>> complete(RestParts& parts, const Request& request,
                                   json::object& members) {
  json::object schema = CO_TRY(co_await schemaFor(parts, request, members));
  std::string name = CO_TRY(nameIn(schema));
  if (!members.contains("description")) {
    const json::value* description = schema.if_contains("description");
    if (description != nullptr && description->is_string()) members["description"] = *description;
  }
  members["json_schema"] = std::move(schema);
  CO_TRY(depsOf(members, sourceTypeOf(members)));
  co_return name;
}

// Calls the handler of a change, unless a tool asks.
template <class Handler>
Task<Result<Response>> onlyChange(const RunTokens& tokens, Request& request, RestParts& parts,
                                  Handler handler) {
  CO_TRY(tokens.mayChange(request));
  co_return co_await handler(parts, request);
}

using Row = Result<Document> (*)(store::Transaction, const store::NewDocument&, uint64_t,
                                 const model::AuditEvent&);

Task<Result<Response>> keep(RestParts& parts, Request& request, Row row, const char* action) {
  const json::object given = CO_TRY(bodyIn(parts, request));
  ToolBody body = CO_TRY(readTool(given, parts.bounds));
  if (!body.has_source) {
    co_return fail(Code::kInvalid, "source_code: is required", "source_code");
  }
  if (const std::string project = projectOf(request); !project.empty()) {
    body.members["project_id"] = project;
  }
  std::string name = CO_TRY(co_await complete(parts, request, body.members));
  store::NewDocument tool{.id = newId("tool"),
                          .tenant = request.principal.tenant,
                          .agent = request.principal.agent,
                          .kind = std::string(kToolKind),
                          .name = std::move(name),
                          .json = base::toJson(body.members),
                          .at = base::wallMicros()};
  auto stored = co_await orchestrator::Ledger(parts.store)
                    .write(row, std::move(tool), parts.compat.letta.tools_per_tenant,
                           eventOf(action, request));
  if (!stored) co_return std::unexpected(std::move(stored).error());
  co_return answer(shownOf(*stored));
}

Task<Result<Response>> create(RestParts& parts, Request& request) {
  return keep(parts, request, store::createDocument, "tool.created");
}

Task<Result<Response>> upsert(RestParts& parts, Request& request) {
  return keep(parts, request, store::putDocument, "tool.changed");
}

Result<Document> toolOf(RestParts& parts, const Request& request, const std::string& id) {
  return store::documents(parts.store)
      .get(DocumentReader::of(request.principal), std::string(kToolKind), id);
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  co_return answer(shownOf(CO_TRY(toolOf(parts, request, request.params[0]))));
}

Task<Result<Response>> change(RestParts& parts, Request& request) {
  const Document before = CO_TRY(toolOf(parts, request, request.params[0]));
  const json::object given = CO_TRY(bodyIn(parts, request));
  ToolBody body = CO_TRY(readTool(given, parts.bounds));
  json::object members = membersOf(before);
  const bool derives = body.has_source && !body.members.contains("json_schema");
  if (derives && sourceTypeOf(members) == SourceType::kPython) members.erase("json_schema");
  if (derives && !body.members.contains("description")) members.erase("description");
  for (const auto& member : body.members)
    members[member.key()] = member.value();
  std::string name = CO_TRY(co_await complete(parts, request, members));
  store::DocumentChange wanted{.by = DocumentReader::of(request.principal),
                               .kind = std::string(kToolKind),
                               .id = before.id,
                               .name = std::move(name),
                               .json = base::toJson(members),
                               .at = base::wallMicros()};
  auto stored =
      co_await orchestrator::Ledger(parts.store)
          .write(store::changeDocument, std::move(wanted), eventOf("tool.changed", request));
  if (!stored) co_return std::unexpected(std::move(stored).error());
  co_return answer(shownOf(*stored));
}

Task<Result<Response>> remove(RestParts& parts, Request& request) {
  auto removed = co_await orchestrator::Ledger(parts.store)
                     .write(store::removeDocument,
                            store::DocumentKey{.by = DocumentReader::of(request.principal),
                                               .kind = std::string(kToolKind),
                                               .id = request.params[0]},
                            eventOf("tool.deleted", request));
  if (!removed) co_return std::unexpected(std::move(removed).error());
  co_return answer(nullptr);
}

// ---- lists -------------------------------------------------------------------------------------

std::string lower(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(),
                         [](char each) { return each >= 'A' && each <= 'Z' ? each + 32 : each; });
  return small;
}

std::vector<std::string> wordsOf(std::string_view text, bool (*between)(char)) {
  std::vector<std::string> words;
  std::string word;
  for (const char each : text) {
    if (!between(each)) {
      word += each;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// A parameter that is given several times, or with commas.
std::vector<std::string> listIn(const Request& request, std::string_view name) {
  std::vector<std::string> all;
  for (const auto& [key, value] : request.query) {
    if (key != name && key != std::string(name) + "[]") continue;
    std::ranges::move(wordsOf(value, [](char each) { return each == ','; }),
                      std::back_inserter(all));
  }
  return all;
}

bool has(const std::vector<std::string>& all, std::string_view one) {
  return std::ranges::find(all, one) != all.end();
}

// The filters of a list. Every tool here is of the type `custom`.
struct Filter {
  std::vector<std::string> names;
  std::vector<std::string> ids;
  std::string search;  // a part of the name, in lower case
  bool none = false;   // the types exclude every tool

  [[nodiscard]] bool passes(const Document& tool) const {
    return !none && (names.empty() || has(names, tool.name)) &&
           (ids.empty() || has(ids, tool.id)) && lower(tool.name).contains(search);
  }
};

Filter filterOf(const Request& request) {
  Filter filter{.names = listIn(request, "names"),
                .ids = listIn(request, "tool_ids"),
                .search = lower(queryText(request, "search").value_or(""))};
  if (const auto name = queryText(request, "name")) filter.names.push_back(*name);
  const auto types = listIn(request, "tool_types");
  filter.none = (!types.empty() && !has(types, "custom")) ||
                has(listIn(request, "exclude_tool_types"), "custom") ||
                queryText(request, "return_only_letta_tools") == "true";
  return filter;
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  store::DocumentQuery query = CO_TRY(readQuery(request, kToolKind));
  const Filter filter = filterOf(request);
  const uint32_t wanted = std::exchange(query.limit, kPage);
  const DocumentReader reader = DocumentReader::of(request.principal);
  json::array tools;
  while (tools.size() < wanted) {
    const auto some = CO_TRY(store::documents(parts.store).list(reader, query));
    for (const Document& tool : some) {
      if (tools.size() < wanted && filter.passes(tool)) tools.push_back(shownOf(tool));
    }
    if (some.size() < kPage) break;
    (query.newest_first ? query.before : query.after) = some.back().id;
  }
  co_return answer(std::move(tools));
}

Task<Result<Response>> count(RestParts& parts, Request& request) {
  const Filter filter = filterOf(request);
  store::DocumentQuery query{.kind = std::string(kToolKind), .limit = kPage};
  const DocumentReader reader = DocumentReader::of(request.principal);
  uint64_t found = 0;
  while (true) {
    const auto some = CO_TRY(store::documents(parts.store).list(reader, query));
    found += static_cast<uint64_t>(
        std::ranges::count_if(some, [&](const Document& each) { return filter.passes(each); }));
    if (some.size() < kPage) break;
    query.after = some.back().id;
  }
  co_return answer(found);
}

// ---- search ------------------------------------------------------------------------------------

struct Found {
  double score = 0;
  uint64_t seq = 0;  // of the tool, for an order among equals
  json::object tool;
  std::string text;
};

std::string searchedText(const json::object& tool) {
  std::string text(tool.at("name").as_string());
  if (const json::value& description = tool.at("description"); description.is_string()) {
    text += " " + std::string(description.get_string());
  }
  for (const json::value& tag : tool.at("tags").as_array())
    text += " " + std::string(tag.as_string());
  return text;
}

// The share of the query's words in the text; a word in the name counts twice.
double scoreOf(const std::vector<std::string>& words, const json::object& tool,
               const std::string& text) {
  if (words.empty()) return 1;
  const std::string name = lower(std::string_view(tool.at("name").as_string()));
  double score = 0;
  for (const std::string& word : words)
    score += (text.contains(word) ? 1 : 0) + (name.contains(word) ? 1 : 0);
  return score / static_cast<double>(2 * words.size());
}

struct Search {
  std::vector<std::string> words;
  std::vector<std::string> tags;  // a tool has one of these; empty: any
  size_t limit = 50;
  bool none = false;
};

std::vector<std::string> textsIn(const json::object& body, std::string_view name) {
  std::vector<std::string> all;
  const json::value* value = body.if_contains(name);
  const json::array* items = value == nullptr ? nullptr : value->if_array();
  if (items == nullptr) return all;
  for (const json::value& item : *items) {
    if (item.is_string()) all.emplace_back(item.get_string());
  }
  return all;
}

Result<Search> readSearch(const json::object& body) {
  constexpr int64_t kMost = 100;
  base::ObjectReader reader(body, "");
  Search search;
  const auto isBetween = [](char each) {
    return std::string_view(" \t\r\n.,;:!?()[]{}\"'`/\\").contains(each);
  };
  search.words = wordsOf(lower(TRY(reader.text("query")).value_or("")), isBetween);
  search.limit = static_cast<size_t>(TRY(reader.integer("limit", 1, kMost)).value_or(50));
  search.tags = textsIn(body, "tags");
  const auto types = textsIn(body, "tool_types");
  search.none = !types.empty() && !has(types, "custom");
  return search;
}

bool hasTag(const json::object& tool, const std::vector<std::string>& tags) {
  return tags.empty() || std::ranges::any_of(tool.at("tags").as_array(), [&](const auto& tag) {
           return has(tags, std::string_view(tag.as_string()));
         });
}

Task<Result<Response>> search(RestParts& parts, Request& request) {
  const json::object body = CO_TRY(bodyIn(parts, request));
  const Search wanted = CO_TRY(readSearch(body));
  store::DocumentQuery query{.kind = std::string(kToolKind), .limit = kPage};
  const DocumentReader reader = DocumentReader::of(request.principal);
  std::vector<Found> found;
  while (!wanted.none) {
    const auto some = CO_TRY(store::documents(parts.store).list(reader, query));
    for (const Document& each : some) {
      json::object tool = shownOf(each);
      if (!hasTag(tool, wanted.tags)) continue;
      std::string text = searchedText(tool);
      const double score = scoreOf(wanted.words, tool, lower(text));
      if (score > 0) found.push_back({score, each.seq, std::move(tool), std::move(text)});
    }
    std::ranges::sort(found, [](const Found& one, const Found& other) {
      return one.score != other.score ? one.score > other.score : one.seq < other.seq;
    });
    if (found.size() > wanted.limit) found.resize(wanted.limit);
    if (some.size() < kPage) break;
    query.after = some.back().id;
  }
  json::array results;
  for (Found& each : found) {
    results.push_back(json::object{{"tool", std::move(each.tool)},
                                   {"embedded_text", std::move(each.text)},
                                   {"fts_rank", results.size() + 1},
                                   {"vector_rank", nullptr},
                                   {"combined_score", each.score}});
  }
  co_return answer(std::move(results));
}

// ---- runs --------------------------------------------------------------------------------------

Result<std::map<std::string, std::string>> variablesIn(const json::object& body) {
  std::map<std::string, std::string> env;
  for (const auto& member : TRY(objectOf(body, "env_vars"))) {
    if (!member.value().is_string()) {
      const std::string field = "env_vars." + std::string(member.key());
      return fail(Code::kInvalid, field + ": must be a text", field);
    }
    env[std::string(member.key())] = std::string(member.value().get_string());
  }
  return env;
}

json::array linesOf(const std::string& text) {
  return text.empty() ? json::array() : json::array{json::string(text)};
}

// At most so many characters of a text for a model.
std::string shortened(std::string text, const json::object& tool) {
  const json::value* limit = tool.if_contains("return_char_limit");
  const size_t most =
      limit != nullptr && limit->is_int64() ? static_cast<size_t>(limit->get_int64()) : 50'000;
  if (text.size() <= most) return text;
  const std::string note =
      "... [NOTE: function output was truncated since it exceeded the "
      "character limit (" +
      std::to_string(text.size()) + " > " + std::to_string(most) + ")]";
  return std::string(base::withoutCutCharacter(std::string_view(text).substr(0, most))) + note;
}

Task<Result<Response>> runSource(RestParts& parts, RunTokens& tokens, Request& request) {
  const json::object body = CO_TRY(bodyIn(parts, request));
  ToolBody tool = CO_TRY(readTool(body, parts.bounds));
  if (!tool.has_source) {
    co_return fail(Code::kInvalid, "source_code: is required", "source_code");
  }
  ToolCall call{.name = CO_TRY(textOf(body, "name")),
                .tool = std::move(tool.members),
                .args = CO_TRY(objectOf(body, "args")),
                .env = CO_TRY(variablesIn(body)),
                .tool_id = {},
                .agent_id = {},
                .project_id = projectOf(request),
                .key = {}};
  if (call.name.empty() || !call.tool.contains("json_schema")) {
    const std::string derived = CO_TRY(co_await complete(parts, request, call.tool));
    if (call.name.empty()) call.name = derived;
  }
  const json::object limits = call.tool;
  const SandboxConfig config = CO_TRY(sandboxConfigFor(parts, request.principal));
  apply(config, call);
  const std::string name = call.name;
  const auto token = CO_TRY(tokens.issue(request));
  call.key = token->text();
  const ToolResult result = CO_TRY(co_await runTool(parts, request.principal, std::move(call)));
  const char* status = result.success ? "success" : "error";
  co_return answer(json::object{{"id", "null"},
                                {"date", base::formatTime(base::wallMicros())},
                                {"name", name},
                                {"message_type", "tool_return_message"},
                                {"tool_return", shortened(result.text, limits)},
                                {"status", status},
                                {"tool_call_id", "null"},
                                {"is_err", !result.success},
                                {"run_id", result.execution},
                                {"stdout", linesOf(result.out)},
                                {"stderr", linesOf(result.err)}});
}

Task<Result<Response>> runForAgent(RestParts& parts, RunTokens& tokens, Request& request) {
  constexpr size_t kMostAgent = 256;
  const std::string& agent = request.params[0];
  if (agent.size() > kMostAgent) {
    co_return fail(Code::kInvalid, "url.agent_id: must have at most 256 bytes", "url.agent_id");
  }
  const Document tool = CO_TRY(
      store::documents(parts.store)
          .named(DocumentReader::of(request.principal), std::string(kToolKind), request.params[1]));
  const json::object body = CO_TRY(bodyIn(parts, request));
  ToolCall call{.name = tool.name,
                .tool = membersOf(tool),
                .args = CO_TRY(objectOf(body, "args")),
                .env = {},
                .tool_id = tool.id,
                .agent_id = agent,
                .project_id = projectOf(request),
                .key = {}};
  const json::object limits = call.tool;
  const SandboxConfig config = CO_TRY(sandboxConfigFor(parts, request.principal));
  apply(config, call);
  const auto token = CO_TRY(tokens.issue(request));
  call.key = token->text();
  const ToolResult result = CO_TRY(co_await runTool(parts, request.principal, std::move(call)));
  json::value value = result.value;
  if (value.is_string() || !result.success) value = json::string(shortened(result.text, limits));
  co_return answer(json::object{{"status", result.success ? "success" : "error"},
                                {"func_return", std::move(value)},
                                {"agent_state", nullptr},
                                {"stdout", linesOf(result.out)},
                                {"stderr", linesOf(result.err)},
                                {"run_id", result.execution},
                                {"sandbox_config_fingerprint", config.fingerprint}});
}

}  // namespace

std::vector<Route> lettaToolRoutes(RestParts& parts, std::shared_ptr<RunTokens> tokens) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  // For runs, which get a key of their own.
  const auto running = [&parts, tokens](auto handler) {
    return [&parts, tokens, handler](Request& request) { return handler(parts, *tokens, request); };
  };
  const auto changing = [&parts, tokens](auto handler) {
    return [&parts, tokens, handler](Request& request) {
      return onlyChange(*tokens, request, parts, handler);
    };
  };
  const auto route = [](std::string_view method, std::string_view pattern, auto handle) {
    const bool reads = method == "GET" || pattern.ends_with("/search");
    return Route{.method = method,
                 .pattern = pattern,
                 .access = needs(reads ? Permission::kExecutionRead : Permission::kExecutionRun),
                 .query = {},
                 .handle = handle,
                 .json_body = method != "GET" && method != "DELETE"};
  };
  constexpr std::string_view kTool = "/letta/v1/tools/{tool_id}";
  std::vector<Route> routes;
  // Clients end the path of the collection with a slash.
  for (const std::string_view path : {"/letta/v1/tools/", "/letta/v1/tools"}) {
    routes.push_back(route("GET", path, with(list)));
    routes.push_back(route("POST", path, changing(create)));
    routes.push_back(route("PUT", path, changing(upsert)));
  }
  const Route others[] = {
      route("GET", "/letta/v1/tools/count", with(count)),
      route("POST", "/letta/v1/tools/search", with(search)),
      route("POST", "/letta/v1/tools/run", running(runSource)),
      route("GET", kTool, with(show)),
      route("PATCH", kTool, changing(change)),
      route("DELETE", kTool, changing(remove)),
      route("POST", "/letta/v1/agents/{agent_id}/tools/{name}/run", running(runForAgent))};
  routes.insert(routes.end(), std::begin(others), std::end(others));
  return routes;
}

}  // namespace cloister::api::compat::letta
