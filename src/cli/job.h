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

// A POST that makes an object. The key makes a retry safe: the same key and body give the same
// object.
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
  const supervisor::Signals& signals;  // interrupts the waits of `client`
  Submission submission;
  FollowOptions output;
  net::BlockingClient client{endpoint, signals.fd()};
};

// The present execution, or this command's exit status without an end to wait for.
using Outcome = std::variant<base::json::object, int>;

// True for a refusal by policy: there is nothing to follow.
bool isDenied(const base::json::object& execution);

// The accepted execution. A signal meanwhile cancels the execution.
Result<Outcome> start(Job& job);
// Follows an accepted execution over `client` to its end, or until blocked (FollowOptions). A
// failure cancels the execution.
Result<Outcome> follow(Job& job, net::BlockingClient& client, const std::string& id);

// Shows the ended execution: the whole in JSON, otherwise the reason of its end, if noteworthy and
// not quiet.
void report(const base::json::object& execution, const Globals& globals);

}  // namespace cloister::cli
