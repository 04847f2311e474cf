// SPDX-License-Identifier: Apache-2.0
// Sessions: sandboxes that stay, for programs that come and go; each from its creation to its one
// end, in which the first cause wins.
//
// Order of a creation: policy.decide → admission → ledger.createSession (only now there) → a place
// on the node → policy.decide again → runtime.provision → ledger (running; only now acknowledged).
// Order of an end: nothing more is let in → its programs are ended → the sandbox is torn down → the
// ledger has it → whoever waits is told. Programs run by Programs::ask (runs/programs.h). All
// methods run on the executor of Control (one thread).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

// How long the end of a session waits, for each of these at most; it goes on without.
struct SessionPatience {
  Millis place{10'000};      // for runs to end that are in its place
  Millis begin{5'000};       // for a sandbox that is under way
  Millis programs{500};      // for its programs to end as cancelled, before the sandbox goes
  Millis tear_down{10'000};  // for the sandbox to be gone
  Millis late{5'000};        // for programs that have not said how they ended by then
};

class AgentGuard;
class Approvals;
class Programs;

struct SessionConfig {
  uint32_t max = 240;             // at once, those being created too
  uint32_t max_per_tenant = 200;  // the same, of one tenant
  uint32_t max_execs = 24;        // programs at once in one
  uint32_t max_connections = 16;  // to the ports of one, at once; each is one of its programs too
  uint32_t calls_per_minute = 0;  // programs and tool calls in one; 0: no bound
  uint32_t max_call_depth = 8;    // of an execution in one, see model::Execution
  double memory_share = 0.6;      // of the node's memory, for the limits of all of them
  size_t ended_in_memory = 256;   // event logs kept for late readers
  SessionPatience patience;
  // For what was told to start to do so, before the workspace is held for an approved program.
  Millis quiet{10'000};
  Millis usage_lag{2000};  // of what programs are reported to use, behind their sandbox
  KernelBounds kernels;
  WatchBounds watches;
  model::RequestBounds requests = model::defaultBounds();  // of tool calls from within
};

// What a session begins with.
struct SessionFill {
  std::function<Task<Result<>>(FileCall&)> write = {};
  bool memory = false;  // an archive as Sessions::save() gives it with that
};

class Sessions {
 public:
  // Joins `programs` and watches the nodes of `control`; both and `approvals` are a RunService's.
  // `agents`: what agents are held to, outlives it; null: nothing.
  Sessions(std::shared_ptr<Control> control, std::shared_ptr<Programs> programs,
           std::shared_ptr<Approvals> approvals, const AgentGuard* agents, SessionConfig config);
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // Ends what a crash left (SERVER_RESTART); what waits for an approval goes on waiting. Before the
  // first create().
  Result<> recover();
  // How one that waited for its approval is filled from the snapshot that it names.
  void onFill(std::function<Task<Result<SessionFill>>(model::Principal, std::string)> fill);

  // Returns once its sandbox is there and its record says so, or kBlocked where it waits for an
  // approval: it is made once it has that. What cannot be had leaves an ended
  // record; what is not admitted (kQuota, kUnavailable without a node, kInvalid) leaves none.
  // `fill`, if there is one, writes the archive that its workspace begins with, or goes on from,
  // before anyone has the session; when it fails there is none.
  Task<Result<model::Session>> create(model::Principal principal, model::SessionRequest request,
                                      std::string idempotency_key, SessionFill fill = {});

  // What create() made before for the same request under this key, once it has begun; nullopt if
  // there is none. kConflict: the key was another request's.
  Task<Result<std::optional<model::Session>>> earlier(model::Principal principal,
                                                      model::SessionRequest request,
                                                      std::string idempotency_key);

  // As it is now; kNotFound for what does not exist or is another tenant's.
  Result<model::Session> get(const model::Principal& principal, const std::string& id);
  Result<std::vector<model::Session>> list(const model::Principal& principal,
                                           const store::SessionQuery& query);
  Result<std::shared_ptr<SessionLog>> log(const model::Principal& principal, const std::string& id);

  // kConflict once it has ended, or its time is over. A renewal that is acknowledged holds.
  Task<Result<model::Session>> renew(model::Principal principal, std::string id,
                                     model::Renewal renewal);
  // Into another sandbox, behind stronger walls, with its workspace; its time goes on. Returns once
  // that is durable, and until then it is what it was. Kernels end, and programs if that is asked
  // for; kConflict where some run otherwise, or where what it gets would be no stronger; kDenied by
  // policy. Meanwhile nothing is started in it (kUnavailable).
  Task<Result<model::Session>> move(model::Principal principal, std::string id,
                                    model::SessionMove to);
  // Returns the ended session once its end is durable; again: unchanged.
  Task<Result<model::Session>> end(model::Principal principal, std::string id);

  // Starts a program in it, as RunService::run(); kConflict once it has ended, kQuota beyond
  // `max_execs`, kDenied for another tenant's.
  Task<Result<model::Execution>> exec(model::Principal principal, std::string id,
                                      model::ExecRequest request, std::string idempotency_key);

  // Asks the session's file server; errors as exec().
  Task<Result<std::shared_ptr<FileCall>>> files(model::Principal principal, std::string id,
                                                FileRequest request);

  // The kernels that cells have been run in, by name.
  Result<std::vector<KernelState>> kernels(const model::Principal& principal,
                                           const std::string& id);
  // Ends a kernel, and what it was about; its next cell gets a fresh one. kNotFound for a name that
  // no cell has had. Returns once it is gone.
  Task<Result<KernelState>> restartKernel(model::Principal principal, std::string id,
                                          std::string name);

  // A connection to a server in the session, on its loopback: once FileCall::next() has given the
  // end of entries it is there, and is bytes both ways; kNotFound there: nothing listens. Errors as
  // exec(), kQuota also beyond `max_connections`, kDenied also in another agent's session for who
  // is held to rules.
  Task<Result<std::shared_ptr<FileCall>>> connect(model::Principal principal, std::string id,
                                                  uint16_t port);
  // The session, if `principal` may be given a link to a port of it. Errors as connect().
  Result<model::Session> mayConnect(const model::Principal& principal, const std::string& id,
                                    const std::string& doing);
  // What changes in a directory of it, with `all` in those beneath it too, from now on; one request
  // for all who ask for the same. Errors as exec(), kNotFound and kConflict for what is no
  // directory, kQuota also beyond `watches.per_session`.
  Task<Result<std::shared_ptr<FileWatch::Reader>>> watch(model::Principal principal, std::string id,
                                                         std::string path, bool all);
  // Whose a live session is, for one who has a link into it; kNotFound for every other.
  [[nodiscard]] Result<model::Principal> ownerOf(const std::string& id) const;

  // Its workspace as an archive, read while all that runs in it is stopped, or, with `memory`, all
  // that is in its sandbox at one moment; until the call goes, nothing is started in it
  // (kUnavailable). Errors as exec(); kConflict while another one is read, and with `memory` where
  // another agent may have left something behind; kUnsupported in the
  // call, where its runtime does not keep memory.
  Task<Result<std::shared_ptr<FileCall>>> save(model::Principal principal, std::string id,
                                               bool memory);

  // Ends admission and every session that has a sandbox (SERVER_RESTART), and waits for the
  // records, 20 s at most.
  Task<void> drain();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with the coroutines of the sessions
};

}  // namespace cloister::orchestrator
