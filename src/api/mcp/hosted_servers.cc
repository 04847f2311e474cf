// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/hosted_servers.h"

#include <algorithm>
#include <utility>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "orchestrator/core/ledger.h"
#include "store/rows/documents.h"

namespace cloister::api::mcp {
namespace {

using store::Document;
using store::DocumentReader;

constexpr std::string_view kBetween = "__";

std::string keyOf(const model::Principal& who, const Document& document) {
  std::string key = document.id;
  for (const std::string& part : {who.tenant, who.app, who.agent, who.user})
    key += '\n' + part;
  return key;
}

bool isSame(const model::Principal& one, const model::Principal& other) {
  return one.sameAgent(other) && one.app == other.app && one.user == other.user;
}

std::string_view stateName(HostedServer::State state) {
  switch (state) {
    case HostedServer::State::kStopped:
      return "stopped";
    case HostedServer::State::kStarting:
      return "starting";
    case HostedServer::State::kRunning:
      return "running";
  }
  return "";
}

Result<json::object> storedIn(const Document& document) {
  json::value value = TRY(base::parseJson(document.json, {.max_bytes = SIZE_MAX}));
  if (value.is_object()) return std::move(value.get_object());
  return fail(Code::kInternal, "the document " + document.id + " is not an object");
}

model::AuditEvent eventOf(const char* action, const model::Principal& who) {
  return {.action = action, .subject = {}, .principal = who, .details = {}};
}

json::array namesOf(const json::array& tools) {
  json::array names;
  for (const json::value& tool : tools)
    names.push_back(tool.at("name"));
  return names;
}

}  // namespace

Result<std::vector<Document>> HostedServers::documents(const model::Principal& who) {
  constexpr uint32_t kMost = 1000;
  return store::documents(parts_.store)
      .list(DocumentReader::of(who), {.kind = std::string(kServerKind), .limit = kMost});
}

Result<HostedServers::ServerPtr> HostedServers::instance(const model::Principal& who,
                                                         const Document& document) {
  // Stopped instances are only a count of starts.
  constexpr size_t kMostKept = 4096;
  if (instances_.size() >= kMostKept) {
    std::erase_if(instances_, [](const auto& each) {
      return each.second.use_count() == 1 && each.second->state() == HostedServer::State::kStopped;
    });
  }
  ServerPtr& server = instances_[keyOf(who, document)];
  if (!server || server->definition().version != document.version) {
    const json::object stored = TRY(storedIn(document));
    ServerDefinition definition = TRY(parseDefinition(stored, parts_));
    definition.id = document.id;
    definition.version = document.version;
    server =
        std::make_shared<HostedServer>(executor_, parts_, settings_, std::move(definition), who);
  }
  return server;
}

HostedServers::ServerPtr HostedServers::existing(const model::Principal& who,
                                                 const Document& document) const {
  const auto found = instances_.find(keyOf(who, document));
  return found == instances_.end() ? nullptr : found->second;
}

const json::array* HostedServers::knownTools(const model::Principal& who,
                                             const Document& document) const {
  const ServerPtr server = existing(who, document);
  return server ? server->tools() : nullptr;
}

Task<Result<>> HostedServers::makeRoom(const model::Principal& who, ServerPtr wanted) {
  while (true) {
    std::vector<ServerPtr> running;
    for (const auto& [key, each] : instances_) {
      if (each != wanted && each->state() != HostedServer::State::kStopped) running.push_back(each);
    }
    const auto own = std::ranges::count_if(
        running, [&](const ServerPtr& each) { return isSame(each->principal(), who); });
    const bool full = running.size() >= settings_.running;
    if (!full && static_cast<size_t>(own) < settings_.running_per_agent) co_return Result<>{};
    // Only the caller's own give way: agents do not end each other's servers.
    std::erase_if(running, [&](const ServerPtr& each) {
      return each->isBusy() || !isSame(each->principal(), who);
    });
    if (running.empty()) {
      co_return fail(Code::kQuota, "too many MCP servers run (" +
                                       std::string(full ? "mcp.servers.running"
                                                        : "mcp.servers.running_per_agent") +
                                       "); wait for a call to end");
    }
    const auto oldest = std::ranges::min_element(running, {}, &HostedServer::used);
    co_await (*oldest)->stop("another server of the agent needed its place");
  }
}

Task<Result<>> HostedServers::ensure(model::Principal who, ServerPtr server) {
  if (server->state() == HostedServer::State::kStopped) CO_TRY(co_await makeRoom(who, server));
  auto started = co_await server->ensure();
  changed_.notify();
  co_return started;
}

json::object HostedServers::shown(const model::Principal& who, const Document& document) const {
  json::object object = storedIn(document).value_or(json::object());
  if (json::value* env = object.if_contains("env"); env != nullptr && env->is_object()) {
    for (auto& variable : env->get_object())
      variable.value() = nullptr;  // values may be secrets
  }
  const ServerPtr server = existing(who, document);
  const json::array* tools = knownTools(who, document);
  object["id"] = document.id;
  object["agent"] = document.agent;
  object["created_at"] = base::formatTime(document.created_at);
  object["status"] = stateName(server ? server->state() : HostedServer::State::kStopped);
  object["session_id"] =
      server && !server->session().empty() ? json::value(server->session()) : json::value(nullptr);
  object["starts"] = server ? server->starts() : 0;
  object["error"] =
      server && !server->error().empty() ? json::value(server->error()) : json::value(nullptr);
  object["tools"] = tools == nullptr ? json::array() : namesOf(*tools);
  return object;
}

Task<Result<json::object>> HostedServers::add(model::Principal who, json::object body) {
  const ServerDefinition definition = CO_TRY(parseDefinition(body, parts_));
  store::NewDocument wanted{.id = base::newId("mcp"),
                            .tenant = who.tenant,
                            .agent = who.agent,
                            .kind = std::string(kServerKind),
                            .name = definition.name,
                            .json = base::toJson(toJsonObject(definition)),
                            .at = base::wallMicros()};
  auto stored = co_await orchestrator::Ledger(parts_.store)
                    .write(store::createDocument, std::move(wanted), settings_.per_tenant,
                           eventOf("mcp_server.added", who));
  if (!stored) co_return std::unexpected(std::move(stored).error());
  const ServerPtr server = CO_TRY(instance(who, *stored));
  const auto started = co_await ensure(who, server);
  json::object object = shown(who, *stored);
  if (!started) object["error"] = started.error().message;
  co_return object;
}

Result<json::array> HostedServers::list(const model::Principal& who) {
  json::array servers;
  for (const Document& each : TRY(documents(who)))
    servers.push_back(shown(who, each));
  return servers;
}

Task<Result<>> HostedServers::remove(model::Principal who, std::string name) {
  const DocumentReader reader = DocumentReader::of(who);
  const Document document =
      CO_TRY(store::documents(parts_.store).named(reader, std::string(kServerKind), name));
  auto removed = co_await orchestrator::Ledger(parts_.store)
                     .write(store::removeDocument,
                            store::DocumentKey{
                                .by = reader, .kind = std::string(kServerKind), .id = document.id},
                            eventOf("mcp_server.removed", who));
  if (!removed) co_return std::unexpected(std::move(removed).error());
  std::vector<ServerPtr> ended;
  for (auto at = instances_.begin(); at != instances_.end();) {
    const bool is = at->second->definition().id == document.id;
    if (is) ended.push_back(at->second);
    at = is ? instances_.erase(at) : std::next(at);
  }
  for (const ServerPtr& each : ended)
    co_await each->stop("it was removed");
  co_return Result<>{};
}

Task<void> HostedServers::listTools(model::Principal who, json::array& into) {
  const auto known = documents(who);
  if (!known || known->empty()) co_return;
  auto starting = std::make_shared<size_t>(0);
  for (const Document& each : *known) {
    const ServerPtr own = existing(who, each);
    if (knownTools(who, each) != nullptr && !(own && own->isStale())) continue;
    const auto server = instance(who, each);
    if (!server) continue;
    ++*starting;
    async::spawn(executor_,
                 [](HostedServers& all, model::Principal principal, ServerPtr one,
                    std::shared_ptr<size_t> left) -> Task<void> {
                   const auto started = co_await all.ensure(std::move(principal), one);
                   if (!started) {
                     base::log(
                         base::Level::kInfo, "an MCP server did not start",
                         {{"server", one->definition().name}, {"error", started.error().message}});
                   }
                   --*left;
                   all.changed_.notify();
                 }(*this, who, *server, starting));
  }
  const base::Monotonic until = base::monotonicNow() + settings_.start;
  while (*starting > 0 && base::monotonicNow() < until)
    co_await changed_.wait(until);
  for (const Document& each : *known) {
    const json::array* tools = knownTools(who, each);
    if (tools == nullptr) continue;
    for (const json::value& tool : *tools) {
      json::object named = tool.as_object();
      named["name"] = each.name + std::string(kBetween) + std::string(tool.at("name").as_string());
      into.push_back(std::move(named));
    }
  }
}

Task<Result<json::object>> HostedServers::call(model::Principal who, std::string name,
                                               json::object arguments, ExchangePtr exchange) {
  const size_t between = name.find(kBetween);
  const std::string tool = name.substr(between + kBetween.size());
  const Document document = CO_TRY(
      store::documents(parts_.store)
          .named(DocumentReader::of(who), std::string(kServerKind), name.substr(0, between)));
  const ServerPtr server = CO_TRY(instance(who, document));
  CO_TRY(co_await ensure(who, server));
  const auto is = [&](const json::value& each) { return each.at("name").as_string() == tool; };
  const json::array* tools = server->tools();
  if (tools == nullptr || std::ranges::none_of(*tools, is)) {
    co_return fail(Code::kNotFound,
                   "there is no tool " + tool + " of the MCP server " + document.name);
  }
  model::AuditEvent event = eventOf("mcp_server.called", who);
  event.subject = document.id;
  event.details = {{"name", document.name}, {"tool", tool}, {"session_id", server->session()}};
  CO_TRY(
      co_await orchestrator::Ledger(parts_.store).write(store::noteDocumentUse, std::move(event)));
  co_return co_await server->call(tool, std::move(arguments), std::move(exchange));
}

}  // namespace cloister::api::mcp
