// SPDX-License-Identifier: Apache-2.0
// One session while it lives: what Sessions::Impl (sessions_impl.h) knows of it.
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
#include "orchestrator/runs/workspace_state.h"
#include "orchestrator/sessions/lease.h"
#include "orchestrator/sessions/session_events.h"
#include "orchestrator/sessions/session_meter.h"
#include "orchestrator/sessions/sessions.h"

namespace cloister::orchestrator {

// Of a session that goes on from a snapshot of memory, for its record.
inline constexpr char kWeakerFromMemory[] =
    "goes on from a snapshot of memory: what its programs draw their random numbers from is that "
    "of every session that does";

// One session from its creation to its final record.
struct LiveSession final : Home {
  LiveSession(boost::asio::any_io_executor executor, Lease::Terms terms)
      : lease(base::monotonicNow(), terms), changed(std::move(executor)) {}

  [[nodiscard]] const std::string& id() const override { return record.id; }
  [[nodiscard]] const std::string& runtimeName() const override { return runtime; }
  [[nodiscard]] Within within() const override { return {record.principal, held}; }
  Result<> count() override;
  void uncount() override { rate.giveBack(); }
  Result<> admit() override { return admitTo("running in a session"); }
  // `doing`: what is asked for, for the errors.
  Result<> admitTo(const std::string& doing);
  void enter() override;
  void leave() override;
  void visit(const model::Principal& who) override;
  // Whether one more agent may run something in it beside those that have.
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
  [[nodiscard]] int64_t imageSince() const override { return image_since; }
  void addProcessorTime(uint64_t cpu_ms) override { meter.addProgram(cpu_ms); }
  uint64_t chargeProgram(uint64_t cpu_ms) override { return meter.chargeProgram(cpu_ms); }
  // For an approval, or for room once it has one.
  [[nodiscard]] bool waits() const { return record.status == model::SessionStatus::kBlocked; }

  // Its record, with what changes from moment to moment.
  [[nodiscard]] model::Session now() const;
  // By all its boxes so far.
  [[nodiscard]] model::Usage usage() const;
  // By the one that it has, as told last.
  [[nodiscard]] model::Usage measured() const;

  model::Session record;  // as the ledger has it, or will have it
  model::RunRequest request;
  std::string rule_language;
  policy::RiskFacts risk_facts;
  std::string runtime;  // of its sandbox, as its permit says; "" before there is one
  Held held;            // of its agent, in its sandbox
  bool opened = false;  // its sandbox is one program's, which was approved with more than its rules
  Held by_rules;        // then: `held`, but for that
  bool was_opened = false;  // and has to go back under its rules
  // Other agents whose programs were let into `box`, and may have left something behind there: as
  // many as programs may run in it at once.
  std::map<std::string, model::Principal> visitors;
  Quotas::Use use;
  Ruling ruling;  // of the engine, on its creation and then on its start
  uint32_t max_programs = 0;
  uint32_t calls_per_minute = 0;  // 0: no bound
  RateBucket rate;
  uint32_t deepest = 0;    // CallSite::depth of the programs that could call from inside
  SessionFill fill;        // until it has been filled
  std::string escalation;  // that it waits for while it is blocked
  std::optional<model::Escalation> approval;  // that it was made with
  bool taken = false;                         // it has its place, and its part of the quotas
  bool goes_on = false;                       // it is approved, and being made
  Lease lease;
  base::Monotonic accepted_at = base::monotonicNow();
  base::RecordClock clock;  // of `record`
  std::shared_ptr<SessionLog> log;
  std::shared_ptr<runtime::Sandbox> box;
  SessionMeter meter{Millis(0)};  // with SessionConfig::usage_lag
  uint64_t over_quota_ms = 0;     // charged to it since its quota of processor time was used up
  model::Usage earlier;     // of boxes that it had before, or the last of `box` when it has none
  int64_t image_since = 0;  // model::ImageState::since of the first `box`: later ones are younger
  std::optional<SessionEnd> ending;  // its first cause; from then on it is ending
  model::Principal ended_by;
  base::Monotonic give_up = base::Monotonic::max();
  uint32_t programs = 0;
  std::map<std::string, std::shared_ptr<Kernel>> kernels;
  std::vector<std::weak_ptr<FileCall>> calls;        // under way, and a few that no longer are
  std::vector<std::weak_ptr<FileCall>> connections;  // those of `calls` that are to its ports
  uint32_t connecting = 0;
  // By the directory, and whether with those beneath it; a few may be closed.
  std::map<std::pair<std::string, bool>, std::shared_ptr<FileWatch>> watches;
  bool begun = false;          // it is known whether there is a sandbox
  bool abandoned = false;      // its end did not wait for that
  bool start_refused = false;  // by the ledger
  bool saving = false;         // its workspace is read for a snapshot
  bool reading = false;        // its workspace, for one that is asked to be approved
  std::weak_ptr<const WorkspaceState> last_read;  // then
  bool workspace_held = false;  // its workspace, for a program that was approved (session_hold.cc)
  std::string held_for;         // the execution that this is
  uint32_t opening = 0;         // programs that the node is being asked for, or is told to start
  const Kernel* held_kernel = nullptr;  // whose cell that is
  bool arrived = false;                 // its place is there
  bool moving = false;                  // to another sandbox
  bool revoked = false;      // its sandbox lets programs do what its agent may no longer do
  bool under_rules = false;  // it is on its way to one that does not
  base::Monotonic rules_since = base::Monotonic::max();  // nothing is waited for but such a one
  uint32_t unreadable = 0;  // looks, one after the other, at which its rules could not be read
  bool changing = false;    // a change of its record is being written, one after the other
  bool closed = false;      // its end is recorded
  async::Signal changed;
};
using SessionPtr = std::shared_ptr<LiveSession>;

}  // namespace cloister::orchestrator
