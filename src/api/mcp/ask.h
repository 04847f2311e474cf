// SPDX-License-Identifier: Apache-2.0
// Asking the client in the middle of a request: its user (elicitation), its model (sampling) or its
// open folders (roots). A modern request ends with the questions and is made again with the
// answers; a legacy request waits while the client is asked on its stream. Only kinds of questions
// declared by the client are asked. All callers share this code; approval.h has the state between
// two requests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/mcp/server.h"

namespace cloister::api::mcp {

struct Question {
  std::string key;
  std::string method;  // elicitation/create, sampling/createMessage or roots/list
  json::object params;
};

struct Asking {
  std::string subject;  // the tool's, prompt's or resource's name
  std::vector<Question> questions;
  json::object payload = {};  // kept in the state, for the next round
  bool sealed = true;         // an answer is valid only with the question's state
};

struct Answers {
  bool complete = false;
  json::object by_key;  // the client's answer to each question
  json::object reply;   // while not complete: the result of the request
};

// Whether the client has declared the capability for `method`.
bool mayAsk(const Call& call, std::string_view method);
// The payload of an earlier round, if `params` has a good state; -32602 for a bad state. The call
// uses the state up: pass the result to ask().
Rpc<json::object> openState(Server& server, const Call& call, const std::string& subject,
                            const json::object& params);
// -32021 for a capability that the client has not declared.
Task<Rpc<Answers>> ask(Server& server, Call& call, const json::object& params, Asking asking);

// A question for the user, with the schema of a form.
Question elicitation(std::string key, std::string_view message, json::object schema);

}  // namespace cloister::api::mcp
