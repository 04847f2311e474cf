// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/interpreter.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/asio/this_coro.hpp>

#include "api/compat/e2b/cell_stream.h"
#include "api/compat/e2b/paths.h"
#include "api/rest/requests.h"
#include "async/spawn.h"
#include "base/crypto.h"
#include "base/id.h"
#include "model/writable.h"

namespace cloister::api::compat::e2b {
namespace {

namespace json = base::json;

// A language of the client's: our name, and code by which a kernel changes its directory (%s).
struct LanguageRow {
  std::string_view theirs;
  std::string_view ours;
};
constexpr auto kLanguages = std::to_array<LanguageRow>({{"python", "python"},
                                                        {"py", "python"},
                                                        {"javascript", "node"},
                                                        {"js", "node"},
                                                        {"typescript", "typescript"},
                                                        {"ts", "typescript"},
                                                        {"bash", "bash"},
                                                        {"sh", "bash"},
                                                        {"r", "r"},
                                                        {"java", "java"}});

struct Call {
  RestParts& parts;
  Contexts& contexts;
};

Result<std::string> ourLanguage(const RestParts& parts, std::string_view theirs) {
  const auto* const row = std::ranges::find(kLanguages, theirs, &LanguageRow::theirs);
  const std::string_view name = row == kLanguages.end() ? theirs : row->ours;
  const model::Language* language = parts.languages.find(name);
  if (language != nullptr) return language->name;
  return fail(Code::kInvalid, "language: '" + std::string(theirs) + "' is not one of this service",
              "language");
}

bool hasKernel(const RestParts& parts, const std::string& language) {
  const model::Language* known = parts.languages.find(language);
  return known != nullptr && !known->kernel.empty();
}

// The context of a language that names none: for both default contexts, or the language's own.
Contexts::Context contextOf(const std::string& language) {
  const std::string id = language == "node" ? "javascript" : language;
  return {.id = id, .language = language, .shown = id, .cwd = std::string(model::kHome)};
}

json::object toJson(const Contexts::Context& context) {
  return {{"id", context.id}, {"language", context.shown}, {"cwd", context.cwd}};
}

// --- cells

struct Cell {
  std::string language;  // our name
  std::string kernel;    // "none": a program of its own
  std::string code;
};

Task<Result<model::Execution>> startCell(RestParts& parts, const model::Principal& who,
                                         const model::Session& session, Cell cell) {
  const json::object body{{"language", cell.language},
                          {"code", cell.code},
                          {"kernel", cell.kernel},
                          {"max_output_bytes", parts.bounds.max.output_bytes},
                          {"timeout_seconds", parts.bounds.max.wall.count() / 1000}};
  model::ExecRequest wanted = CO_TRY(model::parseExecRequest(body, parts.bounds, session));
  co_return co_await parts.sessions.exec(who, session.id, std::move(wanted), "");
}

// Runs code that prepares a kernel, and waits for its end; kInvalid if the code fails.
Task<Result<>> prepare(RestParts& parts, const model::Principal& who, const model::Session& session,
                       Cell cell, const std::string& field) {
  const model::Execution begun = CO_TRY(co_await startCell(parts, who, session, std::move(cell)));
  const model::Execution done =
      CO_TRY(co_await parts.service.wait(who, begun.id, parts.bounds.max.wall));
  if (done.exit_code == 0) co_return Result<>{};
  if (done.error) co_return fail(Code::kUnavailable, field + ": " + done.error->message, field);
  co_return fail(Code::kInvalid,
                 field + ": the interpreter refused it: " + done.err.bytes.substr(0, 500), field);
}

// A text as a literal that Python, JavaScript and bash read alike: base64 has no quotes.
std::string base64Literal(const std::string& text) {
  return "'" + base::toBase64(text) + "'";
}

// Code that changes the directory of a kernel; "" for a language without kernels.
std::string chdirCode(const std::string& language, const std::string& path) {
  const std::string literal = base64Literal(path);
  if (language == "python") {
    return "__import__('os').chdir(__import__('base64').b64decode(" + literal + ").decode());";
  }
  if (language == "node") {
    return "process.chdir(Buffer.from(" + literal + ", 'base64').toString()); undefined";
  }
  if (language == "bash") return "cd \"$(echo " + literal + " | base64 -d)\"";
  return "";
}

// Code that sets the variables of a kernel.
std::string environmentCode(const std::string& language, const json::object& variables) {
  const std::string literal = base64Literal(base::toJson(variables));
  if (language == "python") {
    return "__import__('os').environ.update(__import__('json').loads(__import__('base64')"
           ".b64decode(" +
           literal + ")));";
  }
  if (language == "node") {
    return "Object.assign(process.env, JSON.parse(Buffer.from(" + literal +
           ", 'base64').toString())); undefined";
  }
  std::string code;
  for (const auto& [name, value] : variables) {
    code += "export " + std::string(name) + "=\"$(echo " +
            base64Literal(std::string(value.as_string())) + " | base64 -d)\"\n";
  }
  return code;
}

Result<json::object> readVariables(base::ObjectReader& reader) {
  const json::object* variables = TRY(reader.object("env_vars"));
  if (variables == nullptr) return json::object();
  for (const auto& [name, value] : *variables) {
    const std::string field = "env_vars." + std::string(name);
    if (!model::isEnvironmentName(name)) {
      return fail(Code::kInvalid, field + ": not a name of a variable", field);
    }
    if (!value.is_string()) return fail(Code::kInvalid, field + ": must be text", field);
  }
  return *variables;
}

Result<Contexts::Context> chosenContext(Call call, const model::Session& session,
                                        base::ObjectReader& reader) {
  const auto id = TRY(reader.text("context_id"));
  const auto language = TRY(reader.text("language"));
  if (id && language) {
    return fail(Code::kInvalid, "context_id: not together with language", "context_id");
  }
  if (id) return call.contexts.find(session.id, *id);
  return contextOf(TRY(ourLanguage(call.parts, language.value_or("python"))));
}

Task<void> endCell(Call call, model::Principal who, std::string id) {
  static_cast<void>(co_await call.parts.service.cancel(std::move(who), std::move(id)));
}

Task<Result<Response>> execute(Call call, Request& request, const model::Session& session) {
  const json::object body = CO_TRY(bodyOf(call.parts, request));
  base::ObjectReader reader(body, "");
  const auto code = CO_TRY(reader.text("code"));
  if (!code) co_return fail(Code::kInvalid, "code: required", "code");
  const Contexts::Context context = CO_TRY(chosenContext(call, session, reader));
  const json::object variables = CO_TRY(readVariables(reader));
  Cell cell{.language = context.language, .kernel = context.id, .code = *code};
  if (!hasKernel(call.parts, cell.language)) cell.kernel = std::string(model::kNoKernel);
  if (!variables.empty() && cell.kernel != model::kNoKernel) {
    Cell setting = cell;
    setting.code = environmentCode(cell.language, variables);
    CO_TRY(
        co_await prepare(call.parts, request.principal, session, std::move(setting), "env_vars"));
  }
  const model::Execution begun =
      CO_TRY(co_await startCell(call.parts, request.principal, session, std::move(cell)));
  auto log = CO_TRY(call.parts.service.log(request.principal, begun.id));
  const auto stream = std::make_shared<CellStream>(std::move(log));
  Response response;
  response.with("Content-Type", "application/x-ndjson").with("X-Accel-Buffering", "no");
  response.stream = [stream](BodyWriter& out) -> Task<void> {
    static_cast<void>(co_await stream->send(out));
  };
  // A client that goes away interrupts its cell.
  request.when_closed([executor = co_await boost::asio::this_coro::executor, call,
                       who = request.principal,
                       id = begun.id] { async::spawn(executor, endCell(call, who, id)); });
  request.watch_peer();
  co_return response;
}

// --- contexts

Task<Result<Response>> createContext(Call call, Request& request, const model::Session& session) {
  const json::object body = CO_TRY(bodyOf(call.parts, request));
  base::ObjectReader reader(body, "");
  const std::string theirs = CO_TRY(reader.text("language")).value_or("python");
  const std::string language = CO_TRY(ourLanguage(call.parts, theirs));
  if (!hasKernel(call.parts, language)) {
    co_return fail(Code::kInvalid,
                   "language: '" + theirs +
                       "' has no interpreter that keeps its state; run its "
                       "code without a context",
                   "language");
  }
  Contexts::Context context = contextOf(language);
  context.id = "ctx-" + base::randomHex(10);
  context.shown = theirs;
  const auto cwd = CO_TRY(reader.text("cwd"));
  if (cwd) context.cwd = resolvedPath(*cwd);
  const auto lives = [&](const std::string& id) {
    return call.parts.sessions.ownerOf(id).has_value();
  };
  CO_TRY(call.contexts.add(session.id, context, lives));
  if (cwd) {
    auto there = co_await prepare(
        call.parts, request.principal, session,
        {.language = language, .kernel = context.id, .code = chdirCode(language, context.cwd)},
        "cwd");
    if (!there) {
      call.contexts.remove(session.id, context.id);
      static_cast<void>(
          co_await call.parts.sessions.endKernel(request.principal, session.id, context.id));
      co_return std::unexpected(std::move(there).error());
    }
  }
  co_return jsonResponse(200, toJson(context));
}

Task<Result<Response>> listContexts(Call call, Request& /*request*/,
                                    const model::Session& session) {
  json::array items;
  for (const Contexts::Context& context : call.contexts.all(session.id))
    items.push_back(toJson(context));
  co_return jsonResponse(200, items);
}

// The state of a kernel that no cell has used is fresh already.
Result<> unlessUnused(Result<> done) {
  if (done || done.error().code == Code::kNotFound) return {};
  return done;
}

Task<Result<Response>> restartContext(Call call, Request& request, const model::Session& session) {
  const Contexts::Context context = CO_TRY(call.contexts.find(session.id, request.params[0]));
  auto restarted =
      co_await call.parts.sessions.restartKernel(request.principal, session.id, context.id);
  CO_TRY(unlessUnused(restarted ? Result<>() : std::unexpected(restarted.error())));
  if (context.cwd != model::kHome) {
    CO_TRY(co_await prepare(call.parts, request.principal, session,
                            {.language = context.language,
                             .kernel = context.id,
                             .code = chdirCode(context.language, context.cwd)},
                            "cwd"));
  }
  co_return jsonResponse(200, json::object());
}

Task<Result<Response>> removeContext(Call call, Request& request, const model::Session& session) {
  const Contexts::Context context = CO_TRY(call.contexts.find(session.id, request.params[0]));
  CO_TRY(unlessUnused(
      co_await call.parts.sessions.endKernel(request.principal, session.id, context.id)));
  call.contexts.remove(session.id, context.id);
  co_return jsonResponse(200, json::object());
}

}  // namespace

Result<> Contexts::add(const std::string& session, Context context,
                       const std::function<bool(const std::string&)>& lives) {
  std::erase_if(contexts_, [&](const auto& each) { return !lives(each.first); });
  auto& of_session = contexts_[session];
  if (of_session.size() >= kMost) {
    return fail(Code::kQuota, "a sandbox has at most 64 contexts; remove one");
  }
  of_session[context.id] = std::move(context);
  return {};
}

std::vector<Contexts::Context> Contexts::all(const std::string& session) const {
  std::vector<Context> all = {contextOf("python"), contextOf("node")};
  const auto made = contexts_.find(session);
  if (made == contexts_.end()) return all;
  for (const auto& [id, context] : made->second)
    all.push_back(context);
  return all;
}

Result<Contexts::Context> Contexts::find(const std::string& session, const std::string& id) const {
  for (Context& context : all(session)) {
    if (context.id == id) return std::move(context);
  }
  return fail(Code::kNotFound, "context " + id + " not found");
}

void Contexts::remove(const std::string& session, const std::string& id) {
  const auto made = contexts_.find(session);
  if (made != contexts_.end()) made->second.erase(id);
}

std::vector<Route> interpreterRoutes(RestParts& parts, Contexts& contexts) {
  const auto route = [&](std::string_view method, std::string_view pattern, Permission permission,
                         auto handler) {
    const auto handle = [call = Call{parts, contexts}, handler](Request& request,
                                                                const model::Session& session) {
      return handler(call, request, session);
    };
    return Route{.method = method,
                 .pattern = pattern,
                 .access = needs(permission),
                 .query = {},
                 .handle = inSandbox(parts, handle),
                 .json_body = method == "POST"};
  };
  const auto use = Permission::kSessionUse;
  return {
      route("POST", "/e2b/execute", use, execute),
      route("POST", "/e2b/contexts", use, createContext),
      route("GET", "/e2b/contexts", Permission::kSessionRead, listContexts),
      route("POST", "/e2b/contexts/{id}/restart", use, restartContext),
      route("DELETE", "/e2b/contexts/{id}", use, removeContext),
  };
}

}  // namespace cloister::api::compat::e2b
