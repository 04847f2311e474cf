// SPDX-License-Identifier: Apache-2.0
// Shared by Executions and Sessions: a run that its call waits for or follows, and an execution's
// events.
//
// A call that is cancelled cancels its execution. The service tells an execution's id with the
// answer, which a waiting request gets at the end, so each such request has a key of idempotency,
// the caller's or one of ours: the same request with the same key, without waiting, gives the id.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <cloister/v1/executions.pb.h>

#include "net/sse.h"
#include "rpc/reactors.h"
#include "rpc/upstream.h"

namespace cloister::rpc {

struct Run {
  std::string target;  // "/v1/executions", or ".../exec" of a session
  std::string body;    // the run request
  bool background = false;
};

// Runs and waits. Sets the finished execution, or the running one if the time is over.
Task<Reply<>> runAndWait(Upstream& upstream, Call& call, Run run, std::optional<uint32_t> wait,
                         v1::Execution& out);
// Runs and sends its events.
Task<Reply<>> runAndFollow(Upstream& upstream, Call& call, Run run, Sender<v1::RunEvent>& sender);

// Calls `take` with each event behind `position` until the end of the execution, or until `take`
// answers false. Goes on by itself where the service's stream breaks off.
using TakeEvent = std::function<Task<Reply<bool>>(v1::Event& event)>;
Task<Reply<>> follow(Upstream& upstream, Call& call, std::string id, std::string position,
                     TakeEvent take);

}  // namespace cloister::rpc
