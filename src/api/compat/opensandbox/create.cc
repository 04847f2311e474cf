// SPDX-License-Identifier: Apache-2.0
// POST /opensandbox/v1/sandboxes: a request of OpenSandbox becomes one for a session.
#include <algorithm>
#include <utility>

#include "api/compat/opensandbox/desk.h"
#include "api/compat/opensandbox/egress.h"
#include "api/compat/opensandbox/lifecycle_json.h"
#include "api/compat/opensandbox/network_wish.h"
#include "api/rest/requests.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;
using model::SessionStatus;

// Joins sentences about what was asked for and not given.
void addCut(json::object& metadata, const std::string& sentence) {
  const json::value* before = metadata.if_contains(kCut);
  const json::string* text = before == nullptr ? nullptr : before->if_string();
  metadata[kCut] = (text == nullptr ? std::string() : std::string(*text) + " ") + sentence;
}

// The processor and memory of a request, at most what the service may give.
void addLimits(const Desk& desk, const CreateRequest& wanted, json::object& body,
               json::object& metadata) {
  const model::Limits& max = desk.parts.bounds.max;
  if (wanted.cpu_millis) {
    constexpr uint32_t kLeast = 10;
    const uint32_t given = std::clamp(*wanted.cpu_millis, kLeast, max.cpu_millis);
    body["cpu_millis"] = given;
    if (given < *wanted.cpu_millis) {
      addCut(metadata, "The processors are " + std::to_string(given) +
                           " thousandths, the most that this service gives (limits.cpu_millis).");
    }
  }
  if (!wanted.memory_mb) return;
  constexpr uint64_t kLeast = 16;
  const uint64_t most = max.memory_bytes >> 20;
  const uint64_t given = std::clamp(*wanted.memory_mb, kLeast, most);
  body["memory_mb"] = given;
  if (given < *wanted.memory_mb) {
    addCut(metadata, "The memory is " + std::to_string(given) +
                         " MiB, the most that this service gives (limits.memory_mb).");
  }
}

void addTimes(const Desk& desk, const CreateRequest& wanted, json::object& body) {
  const int64_t most =
      std::chrono::duration_cast<std::chrono::seconds>(desk.parts.session_bounds.max_ttl).count();
  const int64_t seconds = wanted.timeout_seconds.value_or(most);
  body["ttl_seconds"] = seconds;
  body["idle_ttl_seconds"] = seconds;  // their sandboxes have no such time of their own
}

Result<> addImage(const Desk& desk, const CreateRequest& wanted, json::object& body) {
  if (!wanted.snapshot.empty()) {
    body["from_snapshot"] = wanted.snapshot;
    return {};
  }
  if (!wanted.image.empty()) {
    auto image = imageOf(desk.parts, wanted.image);
    if (!image) {
      return fail(Code::kInvalid, "image.uri: " + image.error().message, "image.uri");
    }
    if (!image->empty()) body["image"] = *image;
  }
  if (wanted.pool.empty()) return {};
  if (wanted.pool == model::PoolStats::kAny) return {};
  if (desk.parts.languages.find(wanted.pool) != nullptr) {
    body["language"] = wanted.pool;
    return {};
  }
  return fail(Code::kNotFound,
              "extensions.poolRef: there is no pool " + wanted.pool + "; see GET /v1/pools",
              "extensions.poolRef");
}

// Without room for the asked memory, a sandbox with the usual memory is better than none, and says
// so. Clients ask for 2 GiB by default.
Task<Result<model::Session>> make(Desk& desk, Request& request, model::SessionRequest wanted) {
  model::Principal principal = request.principal;
  const auto attempt = [&](model::SessionRequest as) {
    return as.from_snapshot.empty() ? desk.parts.sessions.create(principal, std::move(as), "")
                                    : desk.parts.snapshots.restore(principal, std::move(as), "");
  };
  auto made = co_await attempt(wanted);
  const uint64_t usual = model::Limits().memory_bytes;
  if (made || made.error().code != Code::kQuota || wanted.settings.limits.memory_bytes <= usual) {
    co_return made;
  }
  const std::string asked = std::to_string(wanted.settings.limits.memory_bytes >> 20);
  wanted.settings.limits.memory_bytes = usual;
  wanted.settings.metadata[std::string(kCut)] += "The memory is " + std::to_string(usual >> 20) +
                                                 " MiB: of the asked " + asked +
                                                 " MiB not so much is free.";
  auto smaller = co_await attempt(std::move(wanted));
  if (!smaller && smaller.error().code == Code::kQuota) co_return made;
  co_return smaller;
}

// The client's own process, beside its commands. Its end is not the end of the sandbox.
Task<Result<>> startEntrypoint(Desk& desk, Request& request, const model::Session& sandbox,
                               const std::vector<std::string>& entrypoint) {
  if (onlyKeepsAlive(entrypoint) || sandbox.status != SessionStatus::kRunning) {
    co_return Result<>{};
  }
  json::object body{{"command", json::array(entrypoint.begin(), entrypoint.end())},
                    {"metadata", {{kEntrypoint, "true"}}}};
  auto started = co_await start(desk, request, sandbox, std::move(body));
  Error error{Code::kDenied, "", ""};
  if (started && started->status != model::Status::kDenied) co_return Result<>{};
  if (!started) error = std::move(started).error();
  if (started && started->error) error.message = started->error->message;
  (void)co_await desk.parts.sessions.end(request.principal, sandbox.id);
  error.field = "entrypoint";
  co_return std::unexpected(std::move(error).within("starting the entrypoint"));
}

Task<Result<Response>> create(Desk& desk, Request& request) {
  const json::object asked = CO_TRY(bodyObject(desk, request));
  const CreateRequest wanted = CO_TRY(parseCreate(asked));
  const EgressPolicy wish = wanted.network.value_or(EgressPolicy{});
  GrantedNetwork network = CO_TRY(co_await grantedPart(desk.parts, request.principal, wish));
  json::object metadata = metadataOf(wanted);
  noteNetwork(wish, network.cut, metadata);
  json::object body{{"network_policy", model::toJsonObject(network.network)}};
  addLimits(desk, wanted, body, metadata);
  addTimes(desk, wanted, body);
  CO_TRY(addImage(desk, wanted, body));
  json::object env;
  for (const auto& [name, value] : wanted.env)
    env[name] = value;
  body["env"] = std::move(env);
  body["metadata"] = std::move(metadata);
  model::SessionRequest settings =
      CO_TRY(model::parseSessionRequest(body, desk.parts.bounds, desk.parts.session_bounds));
  // The clients' defaults are sent as if asked for: policy may lower them.
  settings.settings.named_limits.reset();
  const model::Session sandbox = CO_TRY(co_await make(desk, request, std::move(settings)));
  const auto lives = [&](const std::string& id) {
    return desk.parts.sessions.ownerOf(id).has_value();
  };
  desk.interpreters.sweep(lives);
  desk.isolated.sweep(lives);
  CO_TRY(co_await startEntrypoint(desk, request, sandbox, wanted.entrypoint));
  co_return jsonResponse(202, createdObject(sandbox))
      .with("Location", "/opensandbox/v1/sandboxes/" + sandbox.id);
}

}  // namespace

std::vector<Route> createRoutes(const DeskPtr& desk) {
  return {
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, create),
       .json_body = true},
  };
}

}  // namespace cloister::api::compat::opensandbox
