// SPDX-License-Identifier: Apache-2.0
// A live session: the state that Sessions::Impl (sessions_impl.h) keeps per session.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/signal.h"
#include "base/record_clock.h"
#include "orchestrator/core/policy_engine.h"
#include "orchestrator/core/quota.h"
#include "orchestrator/core/rate_bucket.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/runs/host.h"
#include "orchestrator/runs/known_secrets.h"
#include "orchestrator/runs/secrets.h"
#include "orchestrator/runs/workspace_state.h"
#include "orchestrator/sessions/lease.h"
#include "orchestrator/sessions/session_events.h"
#include "orchestrator/sessions/session_meter.h"
#include "orchestrator/sessions/sessions.h"
#include "trace/tracer.h"

namespace cloister::orchestrator {

// For the record of a session restored from a snapshot of memory.
inline constexpr char kWeakerFromMemory[] =
    "goes on from a snapshot of memory: what its programs draw their random numbers from is that "
    "of every session that does";

// A session from its creation to its final record.
struct LiveSession final : Home {
  LiveSession(boost::asio::any_io_executor executor, Lease::Terms terms)
      : lease(base::monotonicNow(), terms), changed(std::move(executor)) {}

  [[nodiscard]] const std::string& id() const override { return record.id; }
  [[nodiscard]] const std::string& runtimeName() const override { return runtime; }
  [[nodiscard]] Within within() const override { return {record.principal, held}; }
  Result<> count() override;
  void uncount() override { rate.giveBack(); }
  Result<> admit() override { return admitTo("running in a session"); }
  // `doing`: the requested action, for the errors.
  Result<> admitTo(const std::string& doing);
  void enter() override;
  void leave() override;
  void visit(const model::Principal& who) override;
  // True if another agent may run programs here beside the present visitors.
  [[nodiscard]] bool mayVisit(const model::Principal& who) const;
  [[nodiscard]] std::shared_ptr<runtime::Sandbox> sandbox() const override;
  [[nodiscard]] Cause cause() const override { return ending ? ending->programs : Cause::kNone; }
  [[nodiscard]] base::Monotonic giveUp() const override { return give_up; }
  [[nodiscard]] Result<> notHeld() const override { return notHeldTo("running in a session"); }
  [[nodiscard]] Result<> notHeldTo(const std::string& doing) const;
  Task<std::shared_ptr<void>> unheld(std::function<bool()> over) override;
  void wake() override { changed.notify(); }
  Task<void> ended(base::Monotonic deadline) override;
  void tell(const model::Execution& execution) override { log->publish(execution); }
  [[nodiscard]] std::string door() const override { return open_door; }
  [[nodiscard]] const Additions* additions() const override {
    return network_additions ? &*network_additions : nullptr;
  }
  [[nodiscard]] std::vector<model::PermitLayer> dependencyLayers() const override { return layers; }
  [[nodiscard]] std::shared_ptr<KnownSecrets> knownSecrets() const override {
    return known_secrets;
  }
  [[nodiscard]] int64_t imageSince() const override { return image_since; }
  void addProcessorTime(uint64_t cpu_ms) override { meter.addProgram(cpu_ms); }
  uint64_t chargeProgram(uint64_t cpu_ms) override { return meter.chargeProgram(cpu_ms); }
  // For an approval, or for room after the approval.
  [[nodiscard]] bool waits() const { return record.status == model::SessionStatus::kBlocked; }

  // The record, with present figures.
  [[nodiscard]] model::Session now() const;
  // The same for clients: with the status kPaused while it is paused.
  [[nodiscard]] model::Session shown() const;
  // By all its boxes so far.
  [[nodiscard]] model::Usage usage() const;
  // Use of the present sandbox, as last reported.
  [[nodiscard]] model::Usage measured() const;

  model::Session record;  // as in the ledger, or soon in the ledger
  model::RunRequest request;
  std::string rule_language;
  policy::RiskFacts risk_facts;
  trace::Step starting;     // from the request to its sandbox
  std::string runtime;      // of the sandbox, as in its permit; "" before the first sandbox
  Held held;                // of its agent, in its sandbox
  bool opened = false;      // the sandbox is for one program with approved exceptions to its rules
  Held by_rules;            // then: `held` without the exceptions
  bool was_opened = false;  // and has to go back under its rules
  // Other agents whose programs were let into `box`, and may have left something behind there: as
  // many as programs may run in it at once.
  std::map<std::string, model::Principal> visitors;
  std::shared_ptr<void> name_held = {};  // the name is not free while this lives
  Quotas::Use use;
  Ruling ruling;  // of the engine, on its creation and then on its start
  uint32_t max_programs = 0;
  uint32_t calls_per_minute = 0;  // 0: no bound
  RateBucket rate;
  uint32_t deepest = 0;    // CallSite::depth of programs that could call from inside
  SessionFill fill;        // until filled
  std::string escalation;  // awaited while blocked
  std::optional<model::Escalation> approval;  // used for the creation
  bool taken = false;                         // has its place, and its part of the quotas
  bool goes_on = false;                       // approved, and under construction
  Lease lease;
  base::Monotonic accepted_at = base::monotonicNow();
  base::RecordClock clock;  // of `record`
  std::shared_ptr<SessionLog> log;
  std::shared_ptr<runtime::Sandbox> box;
  std::string open_door;  // permit of the box's door (core/network.h); "" without a network
  std::vector<model::PermitLayer> layers;      // of its dependencies
  std::string plan_sha256;                     // digest of the door's first plan
  std::optional<Additions> network_additions;  // of the open door
  std::optional<SecretsInUse> secrets;         // brokered, of the door; without the values
  std::shared_ptr<KnownSecrets> known_secrets = std::make_shared<KnownSecrets>();
  SessionMeter meter{Millis(0)};  // with SessionConfig::usage_lag
  uint64_t over_quota_ms = 0;     // charged since its quota of processor time was used up
  model::Usage earlier;           // of earlier boxes, or of the last `box` after its end
  int64_t image_since = 0;  // model::ImageState::since of the first `box`: later ones are younger
  std::optional<SessionEnd> ending;  // the first cause; set while ending
  model::Principal ended_by;
  base::Monotonic give_up = base::Monotonic::max();
  uint32_t programs = 0;
  std::map<std::string, std::shared_ptr<Kernel>> kernels;
  std::vector<std::weak_ptr<FileCall>> calls;        // under way, and a few ended calls
  std::vector<std::weak_ptr<FileCall>> connections;  // the calls to ports among `calls`
  uint32_t connecting = 0;
  // By directory, and by the inclusion of subdirectories; a few may be closed.
  std::map<std::pair<std::string, bool>, std::shared_ptr<FileWatch>> watches;
  bool begun = false;                             // the sandbox's start has succeeded or failed
  bool abandoned = false;                         // ended without waiting for `begun`
  bool start_refused = false;                     // by the ledger
  bool saving = false;                            // its workspace is read for a snapshot
  bool reading = false;                           // the workspace is read for an approval
  std::weak_ptr<const WorkspaceState> last_read;  // then
  bool workspace_held = false;                    // for an approved program (session_hold.cc)
  std::shared_ptr<void> pause;                    // while it is paused, its hold (session_hold.cc)
  int64_t paused_at = 0;                          // then, wall-clock microseconds; otherwise 0
  bool sleeps = false;   // it is paused, or about to be, for idleness: the next request resumes it
  bool waking = false;   // then
  std::string held_for;  // the approved execution
  uint32_t opening = 0;  // programs requested from the node, or being started
  const Kernel* held_kernel = nullptr;  // the kernel of the approved cell
  bool arrived = false;                 // its place is there
  bool moving = false;                  // to another sandbox
  bool revoked = false;                 // the sandbox grants permissions that its agent lost
  bool under_rules = false;             // moving to a sandbox under the rules
  base::Monotonic rules_since = base::Monotonic::max();  // start of the wait for such a sandbox
  uint32_t unreadable = 0;                               // failed reads of the rules in a row
  bool changing = false;  // a change of the record is being written; changes are serial
  bool closed = false;    // its end is recorded
  async::Signal changed;
};
using SessionPtr = std::shared_ptr<LiveSession>;

}  // namespace cloister::orchestrator
