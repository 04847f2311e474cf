// SPDX-License-Identifier: Apache-2.0
// Sessions: long-lived sandboxes for short programs; from each session's creation to its single
// end, by the first cause.
//
// Order of a creation: policy.decide → admission → ledger.createSession (only now visible) → a
// place on the node → policy.decide again → runtime.provision → ledger (running; only now
// acknowledged). Order of an end: no more admissions → the programs are ended → the sandbox is torn
// down → the ledger records the end → waiting clients are answered. Programs run by Programs::ask
// (runs/programs.h). All methods run on the executor of Control (one thread).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/execution.h"
#include "model/principal.h"
#include "model/session.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/task.h"
#include "orchestrator/sessions/file_call.h"
#include "orchestrator/sessions/file_watch.h"
#include "orchestrator/sessions/kernel.h"
#include "orchestrator/sessions/session_log.h"

namespace cloister::orchestrator {

// Maximum wait for each step of a session's end; then the end continues without the step.
struct SessionPatience {
  Millis place{10'000};      // for runs in its place
  Millis begin{5'000};       // for a sandbox under construction
  Millis programs{500};      // for its programs to end as cancelled, before the sandbox goes
  Millis tear_down{10'000};  // for the sandbox to be gone
  Millis late{5'000};        // for programs without a reported end by then
};

class AgentGuard;
class Approvals;
class Programs;

struct SessionConfig {
  uint32_t max = 240;             // at once, including sessions under creation
  uint32_t max_per_tenant = 200;  // as `max`, of a tenant
  uint32_t max_execs = 24;        // programs at once in a session
  uint32_t max_connections = 16;  // to ports of a session, at once; each counts as a program
  uint32_t calls_per_minute = 0;  // programs and tool calls in a session; 0: no bound
  uint32_t max_call_depth = 8;    // of an execution in a session, see model::Execution
  double memory_share = 0.6;      // part of the node's memory, for the limits of all sessions
  size_t ended_in_memory = 256;   // event logs kept for late readers
  SessionPatience patience;
  // Time for started programs to begin, before the workspace is held for an approved program.
  Millis quiet{10'000};
  Millis usage_lag{2000};  // delay of programs' reported use behind their sandbox's
  KernelBounds kernels;
  WatchBounds watches;
  model::RequestBounds requests = model::defaultBounds();  // of tool calls from within
};

// The initial content of a session.
struct SessionFill {
  std::function<Task<Result<>>(FileCall&)> write = {};
  bool memory = false;  // an archive by Sessions::save() with `memory`
};

// A change of a live session. Absent members stay.
struct SessionAmendment {
  std::optional<base::json::object> metadata = {};
  // What its programs may reach from now on: policy grants this or less. kUnsupported if the
  // sandbox was made without a network, and this wants one.
  std::optional<model::NetworkRequest> network = {};
};

class Sessions {
 public:
  // Joins `programs` and watches the nodes of `control`; both and `approvals` are a RunService's.
  // `agents`: restrictions of agents, outlives the Sessions; null: none.
  Sessions(std::shared_ptr<Control> control, std::shared_ptr<Programs> programs,
           std::shared_ptr<Approvals> approvals, const AgentGuard* agents, SessionConfig config);
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // Ends sessions left by a crash (SERVER_RESTART); blocked sessions continue to wait. Call before
  // the first create().
  Result<> recover();
  // Sets the source of a blocked session's content, by the snapshot that its request names.
  void onFill(std::function<Task<Result<SessionFill>>(model::Principal, std::string)> fill);

  // Returns once the sandbox is ready and recorded, or kBlocked for a session that waits for an
  // approval; the session is made after the approval. A failed creation leaves an ended record; a
  // request without admission (kQuota, kUnavailable without a node, kInvalid) leaves none. `fill`
  // writes the archive of the initial workspace, or of a restored session, before any client sees
  // the session; after a failure there is no session.
  Task<Result<model::Session>> create(model::Principal principal, model::SessionRequest request,
                                      std::string idempotency_key, SessionFill fill = {});

  // Whether policy and the agent's rules would let create() make this session now, without an
  // approval. Nothing is recorded. Errors as create() for a malformed request.
  Task<Result<bool>> wouldGrant(model::Principal principal, model::SessionRequest request);

  // The earlier session of create() with the same request and key, once begun; nullopt for none.
  // kConflict: another request had the key.
  Task<Result<std::optional<model::Session>>> earlier(model::Principal principal,
                                                      model::SessionRequest request,
                                                      std::string idempotency_key);

  // The id of the session with this name that `principal` sees: its own agent's before others'.
  // Any other text as it is. kConflict if the name is of several other agents' sessions.
  [[nodiscard]] Result<std::string> idOf(const model::Principal& principal,
                                         const std::string& name) const;

  // The present state; kNotFound for an unknown session, or another tenant's.
  Result<model::Session> get(const model::Principal& principal, const std::string& id);
  Result<std::vector<model::Session>> list(const model::Principal& principal,
                                           const store::SessionQuery& query);
  Result<std::shared_ptr<SessionLog>> log(const model::Principal& principal, const std::string& id);

  // kConflict after the end or the deadline. An acknowledged renewal holds.
  Task<Result<model::Session>> renew(model::Principal principal, std::string id,
                                     model::Renewal renewal);
  // Changes the record; an acknowledged change holds. kConflict after the end.
  Task<Result<model::Session>> amend(model::Principal principal, std::string id,
                                     SessionAmendment amendment);
  // Stops all programs of the session where they are, and admits none (kConflict), until resume();
  // their times and the session's continue. Its memory stays taken. kConflict if it is paused, or
  // if its programs cannot be stopped in this runtime.
  Task<Result<model::Session>> pause(model::Principal principal, std::string id);
  // kConflict if it is not paused.
  Task<Result<model::Session>> resume(model::Principal principal, std::string id);
  // Since when a live session is paused, in wall-clock microseconds; 0: it is not.
  [[nodiscard]] int64_t pausedSince(const std::string& id) const;
  // Moves the session with its workspace into another sandbox with stronger isolation; its time
  // continues. Returns once the move is durable; before, the session stays unchanged. Kernels end,
  // and programs on request; kConflict if programs run otherwise, or if the new isolation would be
  // no stronger; kDenied by policy. Meanwhile nothing is started here (kUnavailable).
  Task<Result<model::Session>> move(model::Principal principal, std::string id,
                                    model::SessionMove to);
  // Returns the ended session once its end is durable; again: unchanged.
  Task<Result<model::Session>> end(model::Principal principal, std::string id);

  // Starts a program in the session, as RunService::run(); kConflict after the session's end,
  // kQuota beyond `max_execs`, kDenied for another tenant's.
  Task<Result<model::Execution>> exec(model::Principal principal, std::string id,
                                      model::ExecRequest request, std::string idempotency_key);

  // Asks the session's file server; errors as exec().
  Task<Result<std::shared_ptr<FileCall>>> files(model::Principal principal, std::string id,
                                                FileRequest request);

  // The kernels of cells so far, by name.
  Result<std::vector<KernelState>> kernels(const model::Principal& principal,
                                           const std::string& id);
  // Ends a kernel and its cells; the next cell gets a fresh kernel. kNotFound for an unused name.
  // Returns after the kernel's end.
  Task<Result<KernelState>> restartKernel(model::Principal principal, std::string id,
                                          std::string name);

  // Ends a kernel and its cells, and forgets the kernel: its place is free. Otherwise as
  // restartKernel().
  Task<Result<>> endKernel(model::Principal principal, std::string id, std::string name);

  // A connection to a server in the session, on its loopback: once FileCall::next() has given the
  // end of entries it is there, and is bytes both ways; kNotFound there: nothing listens. Errors as
  // exec(), kQuota also beyond `max_connections`, kDenied also in another agent's session for who
  // is held to rules.
  Task<Result<std::shared_ptr<FileCall>>> connect(model::Principal principal, std::string id,
                                                  uint16_t port);
  // The session, if `principal` may have a link to a port. Errors as connect().
  Result<model::Session> mayConnect(const model::Principal& principal, const std::string& id,
                                    const std::string& doing);
  // Changes in a directory from now on, with `all` including subdirectories; readers of the same
  // directory share a request. Errors as exec(), kNotFound and kConflict if the path is no
  // directory, kQuota also beyond `watches.per_session`.
  Task<Result<std::shared_ptr<FileWatch::Reader>>> watch(model::Principal principal, std::string id,
                                                         std::string path, bool all);
  // The ids of the running sessions, of all tenants.
  [[nodiscard]] std::vector<std::string> running() const;
  // The owner of a live session, for a client with a link; kNotFound otherwise.
  [[nodiscard]] Result<model::Principal> ownerOf(const std::string& id) const;

  // The workspace as an archive, read while the session's programs are stopped; with `memory`, the
  // whole content of the sandbox at one moment. During the call nothing is started here
  // (kUnavailable). Errors as exec(); kConflict during another save, and with `memory` if another
  // agent may have left something behind; kUnsupported in the call, if the runtime cannot keep
  // memory.
  Task<Result<std::shared_ptr<FileCall>>> save(model::Principal principal, std::string id,
                                               bool memory);

  // Makes a directory of the workspace a dependency layer of the node, called `name`. The answer is
  // the layer as JSON (sandbox/image/layer_source.h). For the service's own sessions alone: no
  // capability or rule of an agent is asked for. Errors as exec().
  Task<Result<std::shared_ptr<FileCall>>> keepLayer(model::Principal principal, std::string id,
                                                    std::string name, std::string path);

  // Ends admission and every session with a sandbox (SERVER_RESTART), and waits for the records, 20
  // s at most.
  Task<void> drain();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with the coroutines of the sessions
};

}  // namespace cloister::orchestrator
