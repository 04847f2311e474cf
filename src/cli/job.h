// SPDX-License-Identifier: Apache-2.0
// One program that this command starts on a server and stays with to its end: what `run` and `exec`
// share.
#pragma once

#include <string>
#include <variant>

#include "base/id.h"
#include "base/json.h"
#include "base/result.h"
#include "cli/follow.h"
#include "cli/http_client.h"
#include "cli/server.h"
#include "supervisor/signals.h"

namespace cloister::cli {

// A POST that makes something. The key makes asking again safe: the same key and body are the same
// thing.
struct Submission {
  std::string target;
  base::json::object body;
  std::string idempotency_key = base::randomHex(16);
};
Result<base::json::object> submitOnce(HttpClient& client, const Submission& submission,
                                      Millis timeout);
// Asks once more if the server was not there: the control plane may have been restarting.
Result<base::json::object> submit(HttpClient& client, const Submission& submission);

struct Job {
  Endpoint endpoint;
  const supervisor::Signals& signals;  // what ends the waiting of `client`
  Submission submission;
  FollowOptions output;
  HttpClient client{endpoint.url, endpoint.key, signals.fd()};
};

// The execution as it is now, or this command's own exit status when it need not wait for the end.
using Outcome = std::variant<base::json::object, int>;

// True if policy refused it: there is nothing to follow.
bool isDenied(const base::json::object& execution);

// The accepted execution. A signal meanwhile cancels it.
Result<Outcome> start(Job& job);
// Follows an accepted execution over `client` to its end, or until it is blocked (FollowOptions).
// It is cancelled if that fails.
Result<Outcome> follow(Job& job, HttpClient& client, const std::string& id);

// The ended execution for the user: all of it in JSON, else why it ended if there is more to say.
void report(const base::json::object& execution, bool json);

}  // namespace cloister::cli
