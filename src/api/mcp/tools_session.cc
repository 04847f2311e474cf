// SPDX-License-Identifier: Apache-2.0
// create_session, list_sessions, terminate.
#include "api/mcp/tool.h"
#include "api/rest/requests.h"
#include "base/clock.h"

namespace cloister::api::mcp {
namespace {

double inSeconds(Millis time) {
  return static_cast<double>(time.count()) / 1000;
}

json::object sessionFacts(const model::Session& session) {
  json::object facts{{"session_id", session.id},
                     {"status", model::statusName(session.status)},
                     {"executions_running", session.running}};
  if (!session.name.empty()) facts["name"] = session.name;
  if (!session.language.empty()) facts["language"] = session.language;
  if (session.expires_at != 0) facts["expires_at"] = base::formatTime(session.expires_at);
  if (session.error) facts["escalation_id"] = textIn(session.error->details, "escalation_id");
  if (session.end) facts["ended_because"] = session.end->type + ": " + session.end->message;
  return facts;
}

std::string lineOf(const model::Session& session) {
  std::string line = session.id + " " + std::string(model::statusName(session.status));
  if (!session.name.empty()) line += ", " + session.name;
  if (!session.language.empty()) line += ", " + session.language;
  if (session.expires_at != 0) line += ", until " + base::formatTime(session.expires_at);
  if (session.running > 0) line += ", " + std::to_string(session.running) + " programs running";
  if (session.error) line += ": " + session.error->message;
  if (session.end) line += ": " + session.end->message;
  return line;
}

Result<> toBody(json::object& arguments) {
  TRY(listedEnv(arguments));
  if (const json::value* image = arguments.if_contains("base_image")) {
    if (arguments.contains("image")) {
      return fail(Code::kInvalid, "base_image: not together with image", "base_image");
    }
    json::value moved = *image;
    arguments.erase("base_image");
    arguments["image"] = std::move(moved);
  }
  return namedNetwork(arguments);
}

}  // namespace

Task<Outcome> createSessionTool(Server& server, Call& call, json::object arguments) {
  CO_TRY(toBody(arguments));
  std::string key = CO_TRY(takeKey(arguments));
  RestParts& rest = server.rest();
  model::SessionRequest wanted =
      CO_TRY(model::parseSessionRequest(arguments, rest.bounds, rest.session_bounds));
  const model::Session session =
      CO_TRY(co_await rest.sessions.create(call.principal, std::move(wanted), std::move(key)));
  // No client would learn of the session.
  if (call.exchange->cancelled()) {
    (void)co_await rest.sessions.end(call.principal, session.id);
  }
  Answer answer;
  answer.structured = sessionFacts(session);
  answer.structured.erase("executions_running");
  answer.structured["ttl_seconds"] = inSeconds(session.ttl);
  answer.structured["idle_ttl_seconds"] = inSeconds(session.idle_ttl);
  answer.structured["limits"] = model::limitsObject(session.limits);
  if (session.error) {
    answer.text =
        "session_id: " + session.id + "\nstatus: blocked: " + session.error->message +
        "\nNext: a person has to approve " + textIn(session.error->details, "escalation_id") +
        "; the session is then made by itself: look again with list_sessions, or terminate "
        "it.";
    co_return answer;
  }
  answer.text =
      "session_id: " + session.id +
      "\nstatus: running\nexpires_at: " + base::formatTime(session.expires_at) +
      " (later, while it is used; at the latest " + std::to_string(session.ttl.count() / 1000) +
      " s after it was made)\nNext: exec or run with this session_id; terminate when done.";
  co_return answer;
}

Task<Outcome> listSessionsTool(Server& server, Call& call, json::object arguments) {
  constexpr int64_t kUnasked = 20;
  base::ObjectReader reader(arguments, "");
  store::SessionQuery query;
  query.limit =
      static_cast<uint32_t>(CO_TRY(reader.integer("limit", 1, kMaxList)).value_or(kUnasked));
  const ListCursor cursors = cursorOf(server.rest(), call.principal, "sessions");
  if (const auto cursor = CO_TRY(reader.text("cursor"))) {
    query.before_seq = CO_TRY(cursors.read(*cursor));
  }
  if (const auto state = CO_TRY(reader.text("state"))) {
    query.status = model::sessionStatusFromName(*state);
    if (!query.status) {
      co_return fail(Code::kInvalid, "state: must be creating, blocked, running or ended", "state");
    }
  }
  CO_TRY(reader.finish());
  Answer answer;
  Page page = CO_TRY(readPages(
      query, [&](const auto& some) { return server.rest().sessions.list(call.principal, some); },
      [&](const model::Session& session) {
        answer.text += lineOf(session) + "\n";
        return sessionFacts(session);
      },
      cursors));
  if (page.items.empty()) answer.text = "no sessions; create_session makes one\n";
  answer.structured = {{"status", "ok"}, {"sessions", std::move(page.items)}};
  if (!page.next.is_null()) {
    answer.structured["next_cursor"] = std::move(page.next);
    answer.text += "there may be more: call again with the cursor " +
                   std::string(answer.structured.at("next_cursor").as_string()) + "\n";
  }
  co_return answer;
}

Task<Outcome> terminateTool(Server& server, Call& call, json::object arguments) {
  base::ObjectReader reader(arguments, "");
  const auto session = CO_TRY(reader.text("session_id"));
  const auto execution = CO_TRY(reader.text("execution_id"));
  CO_TRY(reader.finish());
  if (session.has_value() == execution.has_value()) {
    co_return fail(Code::kInvalid, "session_id: give it or execution_id, one of them",
                   "session_id");
  }
  if (execution) {
    json::object only{{"execution_id", *execution}};
    co_return co_await cancelTool(server, call, std::move(only));
  }
  const model::Session ended =
      CO_TRY(co_await server.rest().sessions.end(call.principal, *session));
  Answer answer;
  answer.structured = {{"status", model::statusName(ended.status)}, {"session_id", ended.id}};
  answer.text = "session " + ended.id + " has ended; its programs and files are gone";
  co_return answer;
}

}  // namespace cloister::api::mcp
