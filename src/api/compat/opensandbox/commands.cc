// SPDX-License-Identifier: Apache-2.0
// …/proxy/44772/command and /session: commands, and shells that keep their state. The paths and the
// events are those of OpenSandbox's execd. A command is an execution; a shell is a kernel.
#include <algorithm>
#include <utility>

#include "api/compat/opensandbox/desk.h"
#include "api/compat/opensandbox/exec_events.h"
#include "api/rest/requests.h"
#include "base/clock.h"
#include "base/id.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

constexpr std::string_view kCommand = "opensandbox.io/command";  // the text, for its status
constexpr size_t kMostShown = 4096;                              // of the text
constexpr int64_t kMostId = INT32_MAX;
constexpr double kMillis = 1000;
constexpr std::string_view kShell = "bash";

std::unexpected<Error> invalid(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

// A directory below the workspace if it is not absolute.
std::string absolute(std::string path) {
  return path.starts_with('/') ? path : "/workspace/" + path;
}

// The members `cwd` and `timeout` (milliseconds; 0: none) of a request.
Result<> readTerms(const Desk& desk, base::ObjectReader& reader, json::object& body) {
  const int64_t most = desk.parts.bounds.max.wall.count();
  const auto timeout = TRY(reader.integer("timeout", 0, INT64_MAX / 2));
  if (timeout && *timeout > most) {
    return invalid("timeout", "at most " + std::to_string(most) +
                                  " milliseconds are allowed (limits.timeout_seconds); leave it "
                                  "out for a command without a time limit");
  }
  if (timeout && *timeout > 0) {
    body["timeout_seconds"] = static_cast<double>(*timeout) / kMillis;
  }
  return {};
}

struct Asked {
  json::object body;  // as for POST /v1/sessions/{id}/exec
  bool background = false;
  std::string note;  // what the service does otherwise than asked
};

// Every program of a sandbox has the sandbox's own user.
Result<std::string> readUser(base::ObjectReader& reader) {
  const auto uid = TRY(reader.integer("uid", 0, kMostId));
  const auto gid = TRY(reader.integer("gid", 0, kMostId));
  if (gid && !uid) return invalid("gid", "needs uid");
  if (!uid) return "";
  return "uid " + std::to_string(*uid) +
         " is not offered: programs of a sandbox run as the sandbox's own user";
}

Result<Asked> readCommand(Desk& desk, const json::object& given) {
  base::ObjectReader reader(given, "");
  Asked asked;
  const std::string command = TRY(reader.text("command")).value_or("");
  if (command.empty()) return invalid("command", "is required");
  asked.background = TRY(reader.boolean("background")).value_or(false);
  if (auto cwd = TRY(reader.text("cwd")); cwd && !cwd->empty()) {
    asked.body["cwd"] = absolute(*std::move(cwd));
  }
  TRY(readTerms(desk, reader, asked.body));
  asked.note = TRY(readUser(reader));
  if (const json::object* envs = TRY(reader.object("envs"))) asked.body["env"] = *envs;
  TRY(reader.finish());
  // The kept output of a background command has both streams in their order.
  asked.body["command"] = asked.background ? "exec 2>&1\n" + command : command;
  asked.body["metadata"] = json::object{
      {kCommand, base::withoutCutCharacter(std::string_view(command).substr(0, kMostShown))}};
  return asked;
}

// A background command is told at once, and goes on without the client.
Response begun(const model::Execution& execution, const std::string& note) {
  Response response;
  response.with("Content-Type", "text/event-stream").with("Cache-Control", "no-cache");
  response.body = toBlob(textEvent("init", execution.id));
  if (!note.empty()) response.body += toBlob(textEvent("status", note));
  if (execution.status == model::Status::kDenied) {
    for (const json::object& each : endEvents(execution, Program::kCommand))
      response.body += toBlob(each);
    return response;
  }
  json::object complete = event("execution_complete");
  complete["execution_time"] = 0;
  response.body += toBlob(complete);
  return response;
}

Task<Result<Response>> run(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(co_await reach(desk, request));
  const json::object given = CO_TRY(bodyObject(desk, request));
  Asked asked = CO_TRY(readCommand(desk, given));
  const model::Execution execution =
      CO_TRY(co_await start(desk, request, sandbox, std::move(asked.body)));
  if (asked.background) co_return begun(execution, asked.note);
  co_return eventStream(desk, request, execution,
                        {.id = execution.id, .note = std::move(asked.note)}, Program::kCommand,
                        Gone::kEnds);
}

Task<Result<Response>> interrupt(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const std::string id = queryText(request, "id").value_or("");
  if (id.empty()) co_return fail(Code::kInvalid, "query parameter id: is required", "query.id");
  const model::Execution execution = CO_TRY(executionIn(desk, request, sandbox, id));
  auto ended = co_await desk.parts.service.cancel(request.principal, execution.id);
  if (!ended) co_return std::unexpected(std::move(ended).error());
  co_return empty(200);
}

Task<Result<Response>> status(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const model::Execution execution = CO_TRY(executionIn(desk, request, sandbox, request.params[1]));
  const bool ended = model::isTerminal(execution.status);
  const json::value* content = execution.metadata.if_contains(kCommand);
  json::object object{{"id", execution.id},
                      {"content", content == nullptr ? json::value("") : *content},
                      {"running", !ended},
                      {"exit_code", nullptr},
                      {"finished_at", nullptr}};
  const int64_t began = execution.started_at != 0 ? execution.started_at : execution.created_at;
  object["started_at"] = base::formatTime(began);
  if (ended) {
    object["exit_code"] = execution.exit_code ? json::value(*execution.exit_code) : json::value(-1);
    object["finished_at"] = base::formatTime(execution.finished_at);
  }
  if (execution.error) object["error"] = execution.error->message;
  co_return jsonResponse(200, object);
}

// The lines from `cursor` on, of a background command with both streams in one.
Task<Result<Response>> logs(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const auto cursor = CO_TRY(queryInteger(request, "cursor", 0, INT64_MAX));
  const model::Execution execution = CO_TRY(executionIn(desk, request, sandbox, request.params[1]));
  const std::string text = execution.out.bytes + execution.err.bytes;
  size_t at = 0;
  for (int64_t line = 0; line < cursor.value_or(0) && at < text.size(); ++line) {
    const size_t newline = text.find('\n', at);
    // A line that is not complete comes again with its rest.
    at = newline == std::string::npos ? text.size() : newline + 1;
  }
  size_t end = text.size();
  if (!model::isTerminal(execution.status)) {
    const size_t newline = text.rfind('\n');
    end = std::max(at, newline == std::string::npos ? at : newline + 1);
  }
  const auto lines = std::ranges::count(std::string_view(text).substr(0, end), '\n');
  const bool open = end > 0 && text[end - 1] != '\n';
  Response response;
  response.with("Content-Type", "text/plain; charset=utf-8")
      .with("EXECD-COMMANDS-TAIL-CURSOR", std::to_string(lines + (open ? 1 : 0)));
  response.body = readable(std::string_view(text).substr(at, end - at));
  co_return response;
}

Task<Result<Response>> openShell(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(co_await reach(desk, request));
  const json::object given = request.has_body && !request.body.empty()
                                 ? CO_TRY(bodyObject(desk, request))
                                 : json::object();
  base::ObjectReader reader(given, "");
  std::string cwd = CO_TRY(reader.text("cwd")).value_or("");
  CO_TRY(reader.finish());
  if (!cwd.empty()) cwd = absolute(std::move(cwd));
  Interpreter fresh{
      .id = base::newId("shell"), .language = std::string(kShell), .shell = true, .cwd = cwd};
  const Interpreter* shell = CO_TRY(desk.interpreters.make(sandbox.id, std::move(fresh)));
  co_return jsonResponse(200, json::object{{"session_id", shell->id}});
}

Result<Interpreter*> shellOf(Desk& desk, const model::Session& sandbox, const std::string& id) {
  if (Interpreter* shell = desk.interpreters.find(sandbox.id, id, true)) return shell;
  return fail(Code::kNotFound, "there is no session " + id + " in the sandbox " + sandbox.id);
}

Task<Result<Response>> runInShell(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(co_await reach(desk, request));
  const Interpreter* shell = CO_TRY(shellOf(desk, sandbox, request.params[1]));
  const json::object given = CO_TRY(bodyObject(desk, request));
  base::ObjectReader reader(given, "");
  json::object body;
  const std::string command = CO_TRY(reader.text("command")).value_or("");
  if (command.empty()) co_return invalid("command", "is required");
  std::string cwd = CO_TRY(reader.text("cwd")).value_or("");
  CO_TRY(readTerms(desk, reader, body));
  CO_TRY(reader.finish());
  if (!cwd.empty()) cwd = absolute(std::move(cwd));
  if (cwd.empty() && !shell->begun) cwd = shell->cwd;
  body["language"] = kShell;
  body["kernel"] = shell->id;
  body["code"] = cwd.empty() ? command : "cd -- " + shellWord(cwd) + " || return 1\n" + command;
  const std::string id = shell->id;
  const model::Execution execution =
      CO_TRY(co_await start(desk, request, sandbox, std::move(body)));
  if (Interpreter* now = desk.interpreters.find(sandbox.id, id, true)) {
    now->begun = true;
    now->current = execution.id;
  }
  co_return eventStream(desk, request, execution, {.id = execution.id}, Program::kCommand,
                        Gone::kEnds);
}

Task<Result<Response>> closeShell(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const std::string id = CO_TRY(shellOf(desk, sandbox, request.params[1]))->id;
  auto ended = co_await desk.parts.sessions.endKernel(request.principal, sandbox.id, id);
  // A shell without a command was never started.
  if (!ended && ended.error().code != Code::kNotFound) {
    co_return std::unexpected(std::move(ended).error());
  }
  desk.interpreters.drop(sandbox.id, id);
  co_return empty(200);
}

}  // namespace

std::vector<Route> commandRoutes(const DeskPtr& desk) {
  return {
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/command",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, run),
       .json_body = true},
      {.method = "DELETE",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/command",
       .access = needs(Permission::kSessionUse),
       .query = {"id"},
       .handle = with(desk, interrupt)},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/command/status/{command}",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, status)},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/command/{command}/logs",
       .access = needs(Permission::kSessionRead),
       .query = {"cursor"},
       .handle = with(desk, logs)},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/session",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, openShell),
       .json_body = true},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/session/{shell}/run",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, runInShell),
       .json_body = true},
      {.method = "DELETE",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/session/{shell}",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, closeShell)},
  };
}

}  // namespace cloister::api::compat::opensandbox
