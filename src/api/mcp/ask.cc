// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/ask.h"

#include <algorithm>
#include <utility>

namespace cloister::api::mcp {
namespace {

std::string_view capabilityOf(std::string_view method) {
  if (method == "sampling/createMessage") return "sampling";
  if (method == "roots/list") return "roots";
  return "elicitation";
}

std::unexpected<RpcError> undeclared(const Call& call, std::string_view method) {
  const std::string_view capability = capabilityOf(method);
  const std::string message = "this needs the client capability " + std::string(capability);
  if (!call.modern()) return rpcError(code::kInvalidParams, message);
  return rpcError(
      code::kMissingCapability, message, 400,
      json::object{{"requiredCapabilities", json::object{{capability, json::object()}}}});
}

Subject subjectOf(const Call& call, const std::string& name, const json::object& params) {
  return {.principal = call.principal,
          .tool = name,
          .arguments = digestOf(objectIn(params, "arguments"))};
}

// The end of a modern request: the questions, and the state to come back with.
json::object inputRequired(Server& server, const Call& call, const json::object& params,
                           const Asking& asking) {
  json::object requests;
  for (const Question& question : asking.questions)
    requests[question.key] = json::object{{"method", question.method}, {"params", question.params}};
  json::object reply{{"resultType", "input_required"}, {"inputRequests", std::move(requests)}};
  if (asking.sealed || !asking.payload.empty()) {
    reply["requestState"] =
        server.approvals().seal(subjectOf(call, asking.subject, params), asking.payload);
  }
  return reply;
}

// A legacy client answers on another connection; Server puts the answer into the session.
Task<json::object> askNow(Server& server, Call& call, const Question& question) {
  const std::string id = "ask-" + std::to_string(call.session->next_question++);
  const std::string key = base::toJson(json::string(id));
  call.session->answered[key] = json::object();
  json::object request{{"jsonrpc", "2.0"}, {"id", id}, {"method", question.method}};
  if (!question.params.empty()) request["params"] = question.params;
  call.exchange->say(request);
  const auto until = base::monotonicNow() + server.settings().approval_life;
  const auto waiting = [&] {
    return call.session->answered[key].empty() && !call.exchange->cancelled() &&
           base::monotonicNow() < until;
  };
  while (waiting())
    co_await call.exchange->changed(until);
  json::object answer = std::move(call.session->answered[key]);
  call.session->answered.erase(key);
  if (!answer.contains("result")) co_return json::object{{"action", "cancel"}};
  co_return objectIn(answer, "result");
}

}  // namespace

bool mayAsk(const Call& call, std::string_view method) {
  const json::value* declared = call.capabilities.if_contains(capabilityOf(method));
  return declared != nullptr && declared->is_object();
}

Rpc<json::object> openState(Server& server, const Call& call, const std::string& subject,
                            const json::object& params) {
  const json::value* state = params.if_contains("requestState");
  if (state == nullptr) return json::object();
  return server.approvals().open(subjectOf(call, subject, params), textIn(params, "requestState"));
}

Task<Rpc<Answers>> ask(Server& server, Call& call, const json::object& params, Asking asking) {
  for (const Question& question : asking.questions) {
    if (!mayAsk(call, question.method)) co_return undeclared(call, question.method);
  }
  Answers answers;
  if (!call.modern()) {
    for (const Question& question : asking.questions)
      answers.by_key[question.key] = co_await askNow(server, call, question);
    answers.complete = true;
    co_return answers;
  }
  const json::object& given = objectIn(params, "inputResponses");
  answers.complete = !asking.sealed || params.contains("requestState");
  for (const Question& question : asking.questions) {
    const json::value* answer = given.if_contains(question.key);
    answers.complete &= answer != nullptr && answer->is_object() && !answer->get_object().empty();
    if (answers.complete) answers.by_key[question.key] = *answer;
  }
  if (!answers.complete) answers.reply = inputRequired(server, call, params, asking);
  co_return answers;
}

Question elicitation(std::string key, std::string_view message, json::object schema) {
  return {
      .key = std::move(key),
      .method = "elicitation/create",
      .params = {{"mode", "form"}, {"message", message}, {"requestedSchema", std::move(schema)}}};
}

}  // namespace cloister::api::mcp
