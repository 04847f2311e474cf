// SPDX-License-Identifier: Apache-2.0
#include "api/compat/opensandbox/desk.h"

#include <charconv>
#include <chrono>
#include <utility>

#include "api/compat/opensandbox/lifecycle_json.h"
#include "api/rest/requests.h"
#include "async/spawn.h"
#include "base/clock.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

constexpr Millis kPing{3'000};  // between events of a silent program

std::unexpected<Error> noSandbox(const std::string& id) {
  return fail(Code::kNotFound, "there is no sandbox " + id);
}

int64_t extendSeconds(const model::Session& sandbox) {
  const json::value* value = sandbox.metadata.if_contains(kExtend);
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  int64_t seconds = 0;
  if (text != nullptr) std::from_chars(text->data(), text->data() + text->size(), seconds);
  return seconds;
}

// Renews when a tenth of the time has passed: not with each request.
Task<Result<>> extend(Desk& desk, const Request& request, const model::Session& sandbox) {
  const int64_t most =
      std::chrono::floor<std::chrono::seconds>(desk.parts.session_bounds.max_ttl).count();
  const int64_t seconds = std::min(extendSeconds(sandbox), most);
  const int64_t wanted = base::wallMicros() + seconds * kMicrosPerSecond;
  const int64_t worth = std::max<int64_t>(1, seconds / 10) * kMicrosPerSecond;
  if (seconds == 0 || sandbox.expires_at + worth > wanted) co_return Result<>{};
  const model::Renewal renewal{.ttl = std::chrono::seconds(seconds),
                               .idle_ttl = std::chrono::seconds(seconds)};
  auto renewed = co_await desk.parts.sessions.renew(request.principal, sandbox.id, renewal);
  if (!renewed) co_return std::unexpected(std::move(renewed).error());
  co_return Result<>{};
}

struct Followed {
  orchestrator::RunService& service;
  model::Principal principal;
  std::string execution;
  Opening opening;
  Program program;
  Gone gone;
};

Task<void> follow(Followed by, BodyWriter& out) {
  auto log = by.service.log(by.principal, by.execution);
  if (!log) co_return out.cutShort();
  const bool whole = co_await sendExecution(*log, by.opening, by.program, kPing, out);
  if (!whole && by.gone == Gone::kEnds) {
    (void)co_await by.service.cancel(by.principal, by.execution);
  }
}

}  // namespace

void Interpreters::sweep(const std::function<bool(const std::string&)>& lives) {
  std::erase_if(by_sandbox_, [&](const auto& each) { return !lives(each.first); });
}

Result<Interpreter*> Interpreters::make(const std::string& sandbox, Interpreter fresh) {
  auto& here = by_sandbox_[sandbox];
  if (const auto found = here.find(fresh.id); found != here.end()) return &found->second;
  if (here.size() >= kMostPerSandbox) {
    return fail(Code::kQuota, "a sandbox has at most " + std::to_string(kMostPerSandbox) +
                                  " contexts and shells; delete one of them");
  }
  const std::string id = fresh.id;
  return &here.emplace(id, std::move(fresh)).first->second;
}

Interpreter* Interpreters::find(const std::string& sandbox, std::string_view id, bool shell) {
  const auto here = by_sandbox_.find(sandbox);
  if (here == by_sandbox_.end()) return nullptr;
  const auto found = here->second.find(id);
  return found == here->second.end() || found->second.shell != shell ? nullptr : &found->second;
}

std::vector<Interpreter> Interpreters::list(const std::string& sandbox) const {
  std::vector<Interpreter> all;
  const auto here = by_sandbox_.find(sandbox);
  if (here == by_sandbox_.end()) return all;
  for (const auto& [id, each] : here->second)
    all.push_back(each);
  return all;
}

void Interpreters::drop(const std::string& sandbox, const std::string& id) {
  const auto here = by_sandbox_.find(sandbox);
  if (here == by_sandbox_.end()) return;
  here->second.erase(id);
  if (here->second.empty()) by_sandbox_.erase(here);
}

Result<model::Session> liveSandbox(Desk& desk, const Request& request) {
  const std::string& id = request.params[0];
  auto session = desk.parts.sessions.get(request.principal, id);
  if (!session && session.error().code == Code::kNotFound) return noSandbox(id);
  if (!session) return std::unexpected(std::move(session).error());
  if (session->status == model::SessionStatus::kEnded) return noSandbox(id);
  return session;
}

Task<Result<model::Session>> reach(Desk& desk, Request& request) {
  model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  if (desk.parts.sessions.pausedSince(sandbox.id) != 0) {
    co_return fail(Code::kConflict, "the sandbox " + sandbox.id + " is paused; resume it first");
  }
  CO_TRY(co_await extend(desk, request, sandbox));
  co_return sandbox;
}

Task<Result<model::Execution>> start(Desk& desk, Request& request, model::Session sandbox,
                                     json::object body) {
  body["background"] = true;  // the answer follows the program, and does not bound its time
  auto wanted = model::parseExecRequest(body, desk.parts.bounds, sandbox);
  if (!wanted) co_return std::unexpected(std::move(wanted).error());
  co_return co_await desk.parts.sessions.exec(request.principal, sandbox.id, *std::move(wanted),
                                              "");
}

Response eventStream(Desk& desk, Request& request, const model::Execution& execution,
                     Opening opening, Program program, Gone gone) {
  Response response;
  response.with("Content-Type", "text/event-stream")
      .with("Cache-Control", "no-cache")
      .with("X-Accel-Buffering", "no");
  request.watch_peer();
  response.stream = [followed = Followed{desk.parts.service, request.principal, execution.id,
                                         std::move(opening), program, gone}](BodyWriter& out) {
    return follow(followed, out);
  };
  return response;
}

Result<model::Execution> executionIn(Desk& desk, const Request& request,
                                     const model::Session& sandbox, const std::string& id) {
  auto execution = desk.parts.service.get(request.principal, id);
  const bool here = execution && execution->session_id == sandbox.id;
  if (here) return execution;
  if (!execution && execution.error().code != Code::kNotFound) return execution;
  return fail(Code::kNotFound, "there is no command " + id + " in the sandbox " + sandbox.id);
}

Response empty(int status) {
  Response response;
  response.status = status;
  return response;
}

Result<json::object> bodyObject(Desk& desk, Request& request) {
  if (!request.has_body) return fail(Code::kInvalid, "request body: is required");
  auto object = parseObject(request.body, desk.parts.bounds);
  request.body.clear();
  request.body_read();
  return object;
}

std::vector<std::string> queryTexts(const Request& request, std::string_view name) {
  std::vector<std::string> values;
  for (const auto& [key, value] : request.query) {
    if (key == name) values.push_back(value);
  }
  return values;
}

std::string shellWord(std::string_view text) {
  std::string word = "'";
  for (const char c : text)
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::function<Task<Result<Response>>(Request&)> with(const DeskPtr& desk, Handler handler) {
  return [desk, handler](Request& request) { return handler(*desk, request); };
}

}  // namespace cloister::api::compat::opensandbox
