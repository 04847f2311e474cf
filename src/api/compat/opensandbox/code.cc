// SPDX-License-Identifier: Apache-2.0
// …/proxy/44772/code: code in contexts that keep their state, as of OpenSandbox's code interpreter.
// A context is a kernel; in a language without kernels each code is a program of its own.
#include <algorithm>
#include <utility>

#include "api/compat/opensandbox/desk.h"
#include "api/compat/opensandbox/exec_events.h"
#include "api/rest/requests.h"
#include "base/id.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

constexpr std::string_view kUnasked = "python";

// The languages by OpenSandbox's names are ours, and a few more.
Result<const model::Language*> languageOf(const Desk& desk, std::string_view name) {
  const bool typescript = name == "ts" || name == "typescript";
  const std::string_view own = name == "javascript" || name == "js" ? "node"
                               : typescript                         ? "typescript"
                                                                    : name;
  if (const model::Language* language = desk.parts.languages.find(own)) return language;
  return fail(Code::kInvalid,
              "language: " + std::string(name) + " is not one of this service; see cloister doctor",
              "language");
}

json::object contextObject(const Interpreter& context) {
  return {{"id", context.id}, {"language", context.language}};
}

// Code that makes `cwd` the directory of an interpreter; "" where that is not possible.
std::string enterCode(const model::Language& language, const std::string& cwd) {
  if (language.kernel.empty()) return "";
  const std::string literal = base::toJson(json::string(cwd));
  if (language.name == "python") return "__import__('os').chdir(" + literal + ")";
  if (language.name == "node") return "process.chdir(" + literal + ")";
  return language.name == "bash" ? "cd -- " + shellWord(cwd) : "";
}

struct Fresh {
  std::string id;
  const model::Language& language;
};

// Starts the interpreter in a directory.
Task<Result<>> enter(Desk& desk, Request& request, const model::Session& sandbox, Fresh fresh,
                     std::string cwd) {
  constexpr Millis kPatience{30'000};
  const std::string code = enterCode(fresh.language, cwd);
  if (code.empty()) {
    co_return fail(Code::kUnsupported, "cwd: contexts of this language have none; leave it out",
                   "cwd");
  }
  const model::Execution begun = CO_TRY(
      co_await start(desk, request, sandbox,
                     {{"language", fresh.language.name}, {"kernel", fresh.id}, {"code", code}}));
  const model::Execution ended =
      CO_TRY(co_await desk.parts.service.wait(request.principal, begun.id, kPatience));
  if (ended.status == model::Status::kCompleted) co_return Result<>{};
  (void)co_await desk.parts.sessions.endKernel(request.principal, sandbox.id, fresh.id);
  co_return fail(Code::kInvalid, "cwd: " + readable(ended.err.bytes), "cwd");
}

Task<Result<Response>> open(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(co_await reach(desk, request));
  const json::object given = CO_TRY(bodyObject(desk, request));
  base::ObjectReader reader(given, "");
  const std::string asked = CO_TRY(reader.text("language")).value_or("");
  std::string cwd = CO_TRY(reader.text("cwd")).value_or("");
  CO_TRY(reader.finish());
  const model::Language* language =
      CO_TRY(languageOf(desk, asked.empty() ? kUnasked : std::string_view(asked)));
  const std::string id = base::newId("ctx");
  if (!cwd.empty()) CO_TRY(co_await enter(desk, request, sandbox, {id, *language}, std::move(cwd)));
  const Interpreter* context =
      CO_TRY(desk.interpreters.make(sandbox.id, {.id = id, .language = language->name}));
  co_return jsonResponse(200, contextObject(*context));
}

Result<Interpreter*> contextOf(Desk& desk, const model::Session& sandbox, std::string_view id) {
  if (Interpreter* context = desk.interpreters.find(sandbox.id, id, false)) return context;
  return fail(Code::kNotFound,
              "there is no context " + std::string(id) + " in the sandbox " + sandbox.id);
}

// `language` in the query, as the language's own name; "" for all.
Result<std::string> languageFilter(const Desk& desk, const Request& request) {
  const auto asked = queryText(request, "language");
  if (!asked || asked->empty()) return "";
  return TRY(languageOf(desk, *asked))->name;
}

Task<Result<Response>> list(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const std::string language = CO_TRY(languageFilter(desk, request));
  json::array contexts;
  for (const Interpreter& each : desk.interpreters.list(sandbox.id)) {
    if (!each.shell && (language.empty() || each.language == language)) {
      contexts.push_back(contextObject(each));
    }
  }
  co_return jsonResponse(200, contexts);
}

Task<Result<Response>> show(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  co_return jsonResponse(200, contextObject(*CO_TRY(contextOf(desk, sandbox, request.params[1]))));
}

Task<Result<>> close(Desk& desk, Request& request, const model::Session& sandbox, std::string id) {
  auto ended = co_await desk.parts.sessions.endKernel(request.principal, sandbox.id, id);
  // A context without code was never started.
  if (!ended && ended.error().code != Code::kNotFound) co_return ended;
  desk.interpreters.drop(sandbox.id, id);
  co_return Result<>{};
}

Task<Result<Response>> remove(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const std::string id = CO_TRY(contextOf(desk, sandbox, request.params[1]))->id;
  CO_TRY(co_await close(desk, request, sandbox, id));
  co_return empty(200);
}

Task<Result<Response>> removeAll(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const std::string language = CO_TRY(languageFilter(desk, request));
  if (language.empty()) {
    co_return fail(Code::kInvalid, "query parameter language: is required", "query.language");
  }
  for (const Interpreter& each : desk.interpreters.list(sandbox.id)) {
    if (!each.shell && each.language == language) {
      CO_TRY(co_await close(desk, request, sandbox, each.id));
    }
  }
  co_return empty(200);
}

struct Asked {
  std::string code;
  std::string context;  // its id; "" for the language's own
  std::string language;
};

Result<Asked> readAsked(const json::object& given) {
  base::ObjectReader reader(given, "");
  Asked asked;
  asked.code = TRY(reader.text("code")).value_or("");
  if (asked.code.empty()) return fail(Code::kInvalid, "code: is required", "code");
  if (const json::object* context = TRY(reader.object("context"))) {
    base::ObjectReader inner(*context, "context");
    asked.context = TRY(inner.text("id")).value_or("");
    asked.language = TRY(inner.text("language")).value_or("");
    TRY(inner.text("cwd"));
    TRY(inner.finish());
  }
  TRY(reader.finish());
  return asked;
}

// Code without a context goes to the language's own context, which has the language's name.
Result<Interpreter*> contextFor(Desk& desk, const model::Session& sandbox, const Asked& asked) {
  if (!asked.context.empty()) return contextOf(desk, sandbox, asked.context);
  const model::Language* language =
      TRY(languageOf(desk, asked.language.empty() ? kUnasked : std::string_view(asked.language)));
  return desk.interpreters.make(sandbox.id, {.id = language->name, .language = language->name});
}

Task<Result<Response>> run(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(co_await reach(desk, request));
  const json::object given = CO_TRY(bodyObject(desk, request));
  const Asked asked = CO_TRY(readAsked(given));
  const Interpreter* context = CO_TRY(contextFor(desk, sandbox, asked));
  const std::string id = context->id;
  json::object body{{"language", context->language}, {"code", asked.code}};
  const model::Language* language = desk.parts.languages.find(context->language);
  if (language != nullptr && !language->kernel.empty()) body["kernel"] = id;
  const model::Execution execution =
      CO_TRY(co_await start(desk, request, sandbox, std::move(body)));
  if (Interpreter* now = desk.interpreters.find(sandbox.id, id, false)) {
    now->begun = true;
    now->current = execution.id;
  }
  co_return eventStream(desk, request, execution, {.id = id}, Program::kCode, Gone::kEnds);
}

// The code that runs in the context; the context keeps its state.
Task<Result<Response>> interrupt(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const std::string id = queryText(request, "id").value_or("");
  if (id.empty()) co_return fail(Code::kInvalid, "query parameter id: is required", "query.id");
  const Interpreter* context = CO_TRY(contextOf(desk, sandbox, id));
  if (context->current.empty()) co_return empty(200);
  auto ended = co_await desk.parts.service.cancel(request.principal, context->current);
  if (!ended) co_return std::unexpected(std::move(ended).error());
  co_return empty(200);
}

}  // namespace

std::vector<Route> codeRoutes(const DeskPtr& desk) {
  return {
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/code/context",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, open),
       .json_body = true},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/code/contexts",
       .access = needs(Permission::kSessionRead),
       .query = {"language"},
       .handle = with(desk, list)},
      {.method = "DELETE",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/code/contexts",
       .access = needs(Permission::kSessionUse),
       .query = {"language"},
       .handle = with(desk, removeAll)},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/code/contexts/{context}",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, show)},
      {.method = "DELETE",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/code/contexts/{context}",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, remove)},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/code",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, run),
       .json_body = true},
      {.method = "DELETE",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/code",
       .access = needs(Permission::kSessionUse),
       .query = {"id"},
       .handle = with(desk, interrupt)},
  };
}

}  // namespace cloister::api::compat::opensandbox
