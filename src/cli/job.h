// SPDX-License-Identifier: Apache-2.0
// A program on a server, followed by this command to its end. `run` and `exec` share the code.
#pragma once

#include <string>
#include <variant>

#include "base/id.h"
#include "base/json.h"
#include "base/result.h"
#include "cli/follow.h"
#include "cli/server.h"
#include "net/blocking_client.h"
#include "supervisor/signals.h"

namespace cloister::cli {

// A POST that makes something. The key makes asking again safe: the same key and body are the same
// thing.
struct Submission {
  std::string target;
  base::json::object body;
  std::string idempotency_key = base::randomHex(16);
};
Result<base::json::object> submitOnce(net::BlockingClient& client, const Submission& submission,
                                      Millis timeout);
// Asks once more if the server was not there: the control plane may have been restarting.
Result<base::json::object> submit(net::BlockingClient& client, const Submission& submission);

struct Job {
  net::Endpoint endpoint;
  const supervisor::Signals& signals;  // what ends the waiting of `client`
  Submission submission;
  FollowOptions output;
  net::BlockingClient client{endpoint, signals.fd()};
};

// The present execution, or the exit status of this command if there is no end to wait for.
using Outcome = std::variant<base::json::object, int>;

// True if policy refused it: there is nothing to follow.
bool isDenied(const base::json::object& execution);

// The accepted execution. A signal meanwhile cancels it.
Result<Outcome> start(Job& job);
// Follows an accepted execution over `client` to its end, or until it is blocked (FollowOptions).
// It is cancelled if that fails.
Result<Outcome> follow(Job& job, net::BlockingClient& client, const std::string& id);

// The ended execution for the user: all of it in JSON, else why it ended if there is more to say.
void report(const base::json::object& execution, bool json);

}  // namespace cloister::cli
