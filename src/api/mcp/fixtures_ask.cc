// SPDX-License-Identifier: Apache-2.0
// Fixtures that ask the client: the suite's are the only callers besides approvals, so they go the
// same way.
#include "api/mcp/ask.h"
#include "api/mcp/fixtures.h"

namespace cloister::api::mcp::fixtures {
namespace {

json::object parsed(std::string_view text) {
  return base::parseJson(text).value().as_object();
}

Question form(std::string key, std::string_view message, std::string_view property,
              std::string_view type) {
  json::object schema{{"type", "object"},
                      {"properties", json::object{{property, json::object{{"type", type}}}}},
                      {"required", json::array{property}}};
  return elicitation(std::move(key), message, std::move(schema));
}

Question sample(std::string key, std::string_view text, int tokens) {
  json::object content{{"type", "text"}, {"text", text}};
  json::array messages{json::object{{"role", "user"}, {"content", std::move(content)}}};
  return {.key = std::move(key),
          .method = "sampling/createMessage",
          .params = {{"messages", std::move(messages)}, {"maxTokens", tokens}}};
}

Question roots(std::string key) {
  return {.key = std::move(key), .method = "roots/list", .params = {}};
}

std::string nameOf(const json::object& params) {
  return textIn(params, "name");
}

// Asks, and answers with what was said.
Task<Reply> echo(Server& server, Call& call, const json::object& params, Asking asking,
                 std::string_view prefix) {
  const std::string said(prefix);
  Rpc<json::object> state = openState(server, call, asking.subject, params);
  if (!state) co_return std::unexpected(std::move(state).error());
  Rpc<Answers> answers = co_await ask(server, call, params, std::move(asking));
  if (!answers) co_return std::unexpected(std::move(answers).error());
  if (!answers->complete) co_return std::move(answers->reply);
  co_return textResult(said + base::toJson(answers->by_key));
}

Task<Reply> askOne(Server& server, Call& call, const json::object& params, Question question,
                   std::string_view prefix) {
  Asking asking{.subject = nameOf(params), .questions = {}};
  asking.questions.push_back(std::move(question));
  asking.sealed = false;
  return echo(server, call, params, std::move(asking), prefix);
}

}  // namespace

Task<Reply> sampling(Server& server, Call& call, const json::object& params) {
  constexpr int kTokens = 100;
  const std::string prompt = textIn(objectIn(params, "arguments"), "prompt");
  return askOne(server, call, params, sample("response", prompt, kTokens), "LLM response: ");
}

Task<Reply> elicit(Server& server, Call& call, const json::object& params) {
  const std::string message = textIn(objectIn(params, "arguments"), "message");
  json::object schema = parsed(R"({"type": "object", "properties": {
      "username": {"type": "string", "description": "User's response"},
      "email": {"type": "string", "description": "User's email address"}},
      "required": ["username", "email"]})");
  return askOne(server, call, params, elicitation("response", message, std::move(schema)),
                "User response: ");
}

Task<Reply> elicitDefaults(Server& server, Call& call, const json::object& params) {
  json::object schema = parsed(R"({"type": "object", "properties": {
      "name": {"type": "string", "description": "User name", "default": "John Doe"},
      "age": {"type": "integer", "description": "User age", "default": 30},
      "score": {"type": "number", "description": "User score", "default": 95.5},
      "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
      "verified": {"type": "boolean", "description": "Verified", "default": true}},
      "required": []})");
  return askOne(server, call, params,
                elicitation("response", "Please review the values", std::move(schema)),
                "Elicitation completed: ");
}

Task<Reply> elicitEnums(Server& server, Call& call, const json::object& params) {
  json::object schema = parsed(R"({"type": "object", "properties": {
      "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
      "titledSingle": {"type": "string", "oneOf": [
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"}]},
      "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"]},
      "untitledMulti": {"type": "array", "items":
        {"type": "string", "enum": ["option1", "option2", "option3"]}},
      "titledMulti": {"type": "array", "items": {"anyOf": [
        {"const": "value1", "title": "First Choice"},
        {"const": "value2", "title": "Second Choice"},
        {"const": "value3", "title": "Third Choice"}]}}},
      "required": []})");
  return askOne(server, call, params, elicitation("response", "Please choose", std::move(schema)),
                "Elicitation completed: ");
}

Task<Reply> missingCapability(Server& server, Call& call, const json::object& params) {
  constexpr int kTokens = 10;
  return askOne(server, call, params, sample("response", "hello", kTokens), "");
}

Task<Reply> streamingElicitation(Server& server, Call& call, const json::object& params) {
  call.progress(1, std::nullopt, "asking");
  return askOne(server, call, params, form("user_name", "What is your name?", "name", "string"),
                "");
}

Task<Reply> inputElicitation(Server& server, Call& call, const json::object& params) {
  return askOne(server, call, params, form("user_name", "What is your name?", "name", "string"),
                "Hello: ");
}

Task<Reply> inputSampling(Server& server, Call& call, const json::object& params) {
  constexpr int kTokens = 100;
  return askOne(server, call, params,
                sample("capital_question", "What is the capital of France?", kTokens), "");
}

Task<Reply> inputRoots(Server& server, Call& call, const json::object& params) {
  return askOne(server, call, params, roots("client_roots"), "");
}

Task<Reply> inputState(Server& server, Call& call, const json::object& params) {
  Asking asking{.subject = nameOf(params),
                .questions = {form("confirm", "Please confirm", "ok", "boolean")}};
  return echo(server, call, params, std::move(asking), "state-ok ");
}

Task<Reply> inputMultiple(Server& server, Call& call, const json::object& params) {
  constexpr int kTokens = 50;
  Asking asking{
      .subject = nameOf(params),
      .questions = {form("user_name", "What is your name?", "name", "string"),
                    sample("greeting", "Generate a greeting", kTokens), roots("client_roots")}};
  return echo(server, call, params, std::move(asking), "");
}

Task<Reply> inputRounds(Server& server, Call& call, const json::object& params) {
  const std::string name = nameOf(params);
  Rpc<json::object> state = openState(server, call, name, params);
  if (!state) co_return std::unexpected(std::move(state).error());
  const bool second = state->contains("second");
  Asking asking{
      .subject = name,
      .questions = {second
                        ? form("step2", "Step 2: What is your favorite color?", "color", "string")
                        : form("step1", "Step 1: What is your name?", "name", "string")},
      .payload = *state};
  Rpc<Answers> answers = co_await ask(server, call, params, asking);
  if (!answers) co_return std::unexpected(std::move(answers).error());
  if (!answers->complete) co_return std::move(answers->reply);
  if (second) co_return textResult("done " + base::toJson(answers->by_key));
  // The next round begins without answers.
  json::object again{{"name", name}, {"arguments", objectIn(params, "arguments")}};
  asking.questions = {form("step2", "Step 2: What is your favorite color?", "color", "string")};
  asking.payload = {{"second", true}};
  answers = co_await ask(server, call, again, std::move(asking));
  if (!answers) co_return std::unexpected(std::move(answers).error());
  co_return std::move(answers->reply);
}

Task<Reply> inputCapabilities(Server& server, Call& call, const json::object& params) {
  constexpr int kTokens = 10;
  Asking asking{.subject = nameOf(params), .questions = {}};
  if (mayAsk(call, "elicitation/create")) {
    asking.questions.push_back(form("user_name", "What is your name?", "name", "string"));
  }
  if (mayAsk(call, "sampling/createMessage")) {
    asking.questions.push_back(sample("greeting", "Generate a greeting", kTokens));
  }
  if (mayAsk(call, "roots/list")) asking.questions.push_back(roots("client_roots"));
  asking.sealed = false;
  return echo(server, call, params, std::move(asking), "");
}

Task<Reply> inputPrompt(Server& server, Call& call, const json::object& params) {
  Asking asking{.subject = nameOf(params),
                .questions = {form("user_context", "What context should the prompt use?", "context",
                                   "string")}};
  asking.sealed = false;
  Rpc<Answers> answers = co_await ask(server, call, params, std::move(asking));
  if (!answers) co_return std::unexpected(std::move(answers).error());
  if (!answers->complete) co_return std::move(answers->reply);
  json::object content{{"type", "text"}, {"text", base::toJson(answers->by_key)}};
  json::array messages{json::object{{"role", "user"}, {"content", std::move(content)}}};
  co_return json::object{{"messages", std::move(messages)}};
}

}  // namespace cloister::api::mcp::fixtures
