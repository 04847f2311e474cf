// SPDX-License-Identifier: Apache-2.0
// …/proxy/44772/v1/isolated: programs apart from those of the sandbox.
#include "api/compat/opensandbox/isolated.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "api/compat/opensandbox/desk.h"
#include "api/compat/opensandbox/file_json.h"
#include "base/clock.h"
#include "base/id.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

constexpr int64_t kMicros = 1'000'000;
constexpr int64_t kMostSeconds = 86'400;

std::unexpected<Error> notOfIsolated(const std::string& field, const std::string& why) {
  return fail(Code::kUnsupported, field + ": " + why, field);
}

Result<> readWorkspace(base::ObjectReader& reader, IsolatedSession& session) {
  const json::object* workspace = TRY(reader.object("workspace"));
  if (workspace == nullptr) return fail(Code::kInvalid, "workspace: is required", "workspace");
  base::ObjectReader inner(*workspace, "workspace");
  const std::string path = TRY(inner.text("path")).value_or("");
  session.path = TRY(plainPath(path, "workspace.path"));
  const std::string mode = TRY(inner.text("mode")).value_or("rw");
  TRY(inner.finish());
  if (session.path != "/workspace" && !session.path.starts_with("/workspace/")) {
    return notOfIsolated("workspace.path", "must be /workspace or a directory in it");
  }
  if (mode == "rw") return {};
  return notOfIsolated("workspace.mode", "must be rw: the workspace is the sandbox's own");
}

Result<> readVariables(base::ObjectReader& reader, IsolatedSession& session) {
  const json::object* variables = TRY(reader.object("env_passthrough"));
  if (variables == nullptr) return {};
  base::ObjectReader inner(*variables, "env_passthrough");
  const std::string mode = TRY(inner.text("mode")).value_or("deny");
  if (mode != "allow" && mode != "deny") {
    return fail(Code::kInvalid, "env_passthrough.mode: must be allow or deny",
                "env_passthrough.mode");
  }
  session.passes_all = mode == "deny";
  if (const json::array* keys = TRY(inner.array("keys"))) {
    for (const json::value& key : *keys) {
      if (!key.is_string()) {
        return fail(Code::kInvalid, "env_passthrough.keys: must be strings",
                    "env_passthrough.keys");
      }
      session.keys.emplace_back(key.get_string());
    }
  }
  return inner.finish();
}

Result<> refuseMore(base::ObjectReader& reader) {
  for (const std::string_view list : {"binds", "extra_writable"}) {
    const json::array* items = TRY(reader.array(list));
    if (items != nullptr && !items->empty()) {
      return notOfIsolated(std::string(list),
                           "a program apart has the workspace and a /tmp of its "
                           "own; leave it out");
    }
  }
  for (const std::string_view name : {"uid", "gid", "uid_mode"}) {
    if (reader.any(name) != nullptr) {
      return notOfIsolated(std::string(name), "each program apart has a user of its own already");
    }
  }
  if (TRY(reader.boolean("share_net")).value_or(false)) {
    return notOfIsolated("share_net", "a program apart has no network");
  }
  return {};
}

json::object shownState(const IsolatedSession& session) {
  json::object state = session.asked;
  state["session_id"] = session.id;
  state["status"] = "active";
  state["created_at"] = base::formatTime(session.created_at);
  if (session.last_run_at != 0) state["last_run_at"] = base::formatTime(session.last_run_at);
  if (session.idle_us == 0) return state;
  const int64_t since = std::max(session.created_at, session.last_run_at);
  state["idle_remaining_seconds"] =
      std::max<int64_t>(0, (since + session.idle_us - base::wallMicros()) / kMicros);
  return state;
}

Task<Result<Response>> capabilities(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(co_await reach(desk, request));
  const bool guest =
      sandbox.provenance.runtime == "gvisor" || sandbox.provenance.runtime == "microvm";
  json::object said{{"available", !guest},           {"isolator", "cloister"},
                    {"version", desk.parts.version}, {"setpriv_available", false},
                    {"userns_available", false},     {"commit_supported", false},
                    {"diff_supported", false}};
  if (guest) said["message"] = "sandboxes of this runtime have no programs apart";
  co_return jsonResponse(200, said);
}

Task<Result<Response>> createIsolated(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(co_await reach(desk, request));
  const json::object body = CO_TRY(bodyObject(desk, request));
  IsolatedSession fresh = CO_TRY(parseIsolated(body));
  const IsolatedSession* session = CO_TRY(desk.isolated.add(sandbox.id, std::move(fresh)));
  json::object shown = shownState(*session);
  shown.erase("status");
  co_return jsonResponse(201, shown);
}

Task<Result<Response>> listIsolated(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  json::array sessions;
  for (const IsolatedSession& each : desk.isolated.list(sandbox.id, base::wallMicros()))
    sessions.push_back(shownState(each));
  co_return jsonResponse(200, json::object{{"sessions", std::move(sessions)}});
}

Result<IsolatedSession*> isolatedOf(Desk& desk, const Request& request,
                                    const model::Session& sandbox) {
  const std::string& id = request.params[1];
  if (auto* session = desk.isolated.find(sandbox.id, id, base::wallMicros())) return session;
  return fail(Code::kNotFound,
              "there is no isolated session " + id + " in the sandbox " + sandbox.id);
}

Task<Result<Response>> showIsolated(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  co_return jsonResponse(200, shownState(*CO_TRY(isolatedOf(desk, request, sandbox))));
}

Task<Result<Response>> removeIsolated(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const std::string id = CO_TRY(isolatedOf(desk, request, sandbox))->id;
  desk.isolated.drop(sandbox.id, id);
  co_return empty(200);
}

Task<Result<Response>> runIsolated(Desk& desk, Request& request) {
  model::Session sandbox = CO_TRY(co_await reach(desk, request));
  IsolatedSession* session = CO_TRY(isolatedOf(desk, request, sandbox));
  const json::object given = CO_TRY(bodyObject(desk, request));
  base::ObjectReader reader(given, "");
  const std::string code = CO_TRY(reader.text("code")).value_or("");
  const json::object* envs = CO_TRY(reader.object("envs"));
  const double most = std::chrono::duration<double>(desk.parts.bounds.max.wall).count();
  const auto timeout = CO_TRY(reader.number("timeout_seconds", 0, most));
  CO_TRY(reader.finish());
  if (code.empty()) co_return fail(Code::kInvalid, "code: is required", "code");
  std::erase_if(sandbox.env, [&](const auto& variable) {
    const bool named = std::ranges::find(session->keys, variable.first) != session->keys.end();
    return named == session->passes_all;
  });
  json::object body{{"command", code}, {"cwd", session->path}, {"sandbox", "fresh"}};
  body["timeout_seconds"] = timeout.value_or(0) > 0 ? *timeout : most;
  if (envs != nullptr) body["env"] = *envs;
  session->last_run_at = base::wallMicros();
  const model::Execution execution =
      CO_TRY(co_await start(desk, request, std::move(sandbox), std::move(body)));
  co_return eventStream(desk, request, execution, {.id = execution.id}, Program::kCommand,
                        Gone::kEnds);
}

Task<Result<Response>> notIsolated(Desk& desk, Request& request) {
  CO_TRY(liveSandbox(desk, request));
  co_return fail(Code::kUnsupported,
                 "this part of isolated sessions is not offered: the workspace is the sandbox's "
                 "own, so its files are those of /files, and there is nothing to commit");
}

// A program apart shares the workspace: its files are the sandbox's.
Task<Result<Response>> withFiles(Desk& desk, Request& request,
                                 std::function<Task<Result<Response>>(Request&)> handle) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  CO_TRY(isolatedOf(desk, request, sandbox));
  co_return co_await handle(request);
}

std::vector<Route> isolatedOwnRoutes(const DeskPtr& desk) {
  return {
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/v1/isolated/capabilities",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, capabilities)},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/v1/isolated/session",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, createIsolated),
       .json_body = true},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/v1/isolated/sessions",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, listIsolated)},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/v1/isolated/session/{session}",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, showIsolated)},
      {.method = "DELETE",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/v1/isolated/session/{session}",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, removeIsolated)},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/v1/isolated/session/{session}/run",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, runIsolated),
       .json_body = true},
      {.method = "*",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/v1/isolated/{rest}",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, notIsolated),
       .json_body = true,
       .passes_on = true},
  };
}

// The routes of files, below an isolated session, too.
std::vector<Route> fileRoutesBelow(const DeskPtr& desk) {
  constexpr std::string_view kExecd = "/proxy/44772/";
  std::vector<Route> routes;
  for (auto of : {fileRoutes, transferRoutes, directoryRoutes})
    std::ranges::move(of(desk), std::back_inserter(routes));
  for (Route& route : routes) {
    std::string pattern(route.pattern);
    pattern.insert(pattern.find(kExecd) + kExecd.size(), "v1/isolated/session/{session}/");
    route.pattern = desk->patterns.emplace_back(std::move(pattern));
    route.handle = [desk, handle = std::move(route.handle)](Request& request) {
      return withFiles(*desk, request, handle);
    };
  }
  return routes;
}

}  // namespace

Result<IsolatedSession> parseIsolated(const json::object& body) {
  base::ObjectReader reader(body, "");
  IsolatedSession session{.id = base::newId("iso"), .asked = body, .path = {}};
  session.created_at = base::wallMicros();
  TRY(readWorkspace(reader, session));
  TRY(readVariables(reader, session));
  const std::string profile = TRY(reader.text("profile")).value_or("strict");
  if (profile != "strict" && profile != "balanced") {
    return fail(Code::kInvalid, "profile: must be strict or balanced", "profile");
  }
  const auto idle = TRY(reader.integer("idle_timeout_seconds", 0, kMostSeconds));
  session.idle_us = idle.value_or(0) * kMicros;
  TRY(refuseMore(reader));
  TRY(reader.finish());
  return session;
}

void IsolatedSessions::sweep(const std::function<bool(const std::string&)>& lives) {
  std::erase_if(by_sandbox_, [&](const auto& each) { return !lives(each.first); });
}

Result<IsolatedSession*> IsolatedSessions::add(const std::string& sandbox, IsolatedSession fresh) {
  auto& here = by_sandbox_[sandbox];
  if (here.size() >= kMostPerSandbox) {
    return fail(Code::kQuota, "a sandbox has at most " + std::to_string(kMostPerSandbox) +
                                  " isolated sessions; delete one of them");
  }
  const std::string id = fresh.id;
  return &here.emplace(id, std::move(fresh)).first->second;
}

IsolatedSession* IsolatedSessions::find(const std::string& sandbox, std::string_view id,
                                        int64_t now) {
  const auto here = by_sandbox_.find(sandbox);
  if (here == by_sandbox_.end()) return nullptr;
  std::erase_if(here->second, [now](const auto& each) {
    const IsolatedSession& session = each.second;
    const int64_t since = std::max(session.created_at, session.last_run_at);
    return session.idle_us != 0 && since + session.idle_us < now;
  });
  const auto found = here->second.find(id);
  return found == here->second.end() ? nullptr : &found->second;
}

std::vector<IsolatedSession> IsolatedSessions::list(const std::string& sandbox, int64_t now) {
  (void)find(sandbox, "", now);
  std::vector<IsolatedSession> all;
  if (const auto here = by_sandbox_.find(sandbox); here != by_sandbox_.end()) {
    for (const auto& [id, each] : here->second)
      all.push_back(each);
  }
  return all;
}

void IsolatedSessions::drop(const std::string& sandbox, const std::string& id) {
  const auto here = by_sandbox_.find(sandbox);
  if (here != by_sandbox_.end()) here->second.erase(id);
}

std::vector<Route> isolatedRoutes(const DeskPtr& desk) {
  std::vector<Route> routes = fileRoutesBelow(desk);
  std::ranges::move(isolatedOwnRoutes(desk), std::back_inserter(routes));
  return routes;
}

}  // namespace cloister::api::compat::opensandbox
