// SPDX-License-Identifier: Apache-2.0
// Doors: the plans of all live sandboxes with a network, and their records. Doors signs plans and
// sends them to cloister-egress, asks policy again in short intervals, and sends a later plan where
// the answer changed: after another policy, other rules of an agent, or an approver's decision. All
// doors are looked at side by side. A plan that only takes rules away is sent at once. A plan that
// adds a rule is recorded first; if the ledger is slow, what the plan takes away does not wait.
//
// Attempts reported by cloister-egress become audit rows (attempts.h). Doors forgets nothing that a
// late report may need: the owners of the last kMostPast closed doors are kept.
//
// On the services' executor (one thread). Doors and the parts are used until the executor's context
// is destroyed.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "async/signal.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "orchestrator/core/ledger.h"
#include "orchestrator/core/metrics.h"
#include "orchestrator/core/network.h"
#include "orchestrator/core/policy_engine.h"
#include "orchestrator/egress/egress_link.h"

namespace cloister::orchestrator {

struct DoorParts {
  store::Store& store;
  const base::SigningKey& key;  // of permits
  const PolicyEngine& engine;
  Metrics& metrics;
};

class Doors final : public Network, private EgressLink::Watcher {
 public:
  // Approvers' part (governance/network_asks.h).
  class Asker {
   public:
    virtual ~Asker() = default;
    // An attempt whose verdict asks an approver.
    virtual void wanted(const wire::egress::Wanted& wanted, const DoorOwner& owner) = 0;
    // The rules that approvers added for a permit's door and that hold now.
    virtual std::vector<model::PlanRule> granted(const std::string& permit) = 0;
    // The first recorded refusal of a destination at a door.
    virtual void refused(const DoorOwner& owner, const wire::egress::Attempts& attempt) = 0;
    virtual void closed(const std::string& permit) = 0;
  };
  struct Terms {
    Millis look{250};         // interval between questions to policy
    uint32_t far_looks = 20;  // a remote engine is asked at every such look
    EgressLink::Terms link = {};
  };

  Doors(boost::asio::any_io_executor executor, DoorParts parts)
      : Doors(std::move(executor), parts, Terms{}) {}
  Doors(boost::asio::any_io_executor executor, DoorParts parts, Terms terms);
  Doors(const Doors&) = delete;
  Doors& operator=(const Doors&) = delete;

  // Looks at policy from now on, and keeps connected to cloister-egress at its socket. Call once.
  void start(std::string socket_path);
  // As start(), over a connected stream, for tests.
  void start(net::FrameConnection::Stream stream);
  // The connection to cloister-egress.
  [[nodiscard]] const std::shared_ptr<EgressLink>& link() const { return link_; }
  void ask(std::weak_ptr<Asker> asker) { asker_ = std::move(asker); }

  Task<Result<>> open(model::NetworkPlan first, DoorOwner owner, Again again,
                      DoorSecrets secrets) override;
  Task<Result<std::string>> confirm(std::string permit) override;
  void close(const std::string& permit) override;
  Task<Result<model::NetworkUse>> use(std::string permit) override;

 private:
  // A later plan that adds something, and its row on the way to the ledger.
  struct Addition {
    explicit Addition(const boost::asio::any_io_executor& executor) : done(executor) {}
    model::NetworkPlan plan;
    base::Monotonic since = base::monotonicNow();
    std::optional<Result<>> written;
    async::Signal done;
  };
  struct Door {
    DoorOwner owner;
    Again again;
    std::string secrets;      // encoded for cloister-egress; "" for none
    std::string certificate;  // of its authority
    std::function<std::string(const std::string&)> redacted;
    model::NetworkPlan plan;   // in force, or soon
    uint64_t generations = 1;  // given to plans so far
    model::SignedPlan signed_plan;
    std::optional<model::NetworkPlan> by_policy;         // policy's last answer, without approvals
    std::set<std::pair<std::string, uint16_t>> refused;  // destinations told to the asker
    std::shared_ptr<Addition> addition;                  // at most one is at the ledger
    bool ask_policy = false;                             // at the next look
    bool looked_at = false;                              // a look is under way
    EgressLink::Sent first;                              // the first plan's call, until confirm()
    bool opened = false;  // its first plan is in force; later plans come only after it
    bool closed = false;
  };
  using DoorPtr = std::shared_ptr<Door>;

  Task<void> connected() override;
  void disconnected() override;
  Task<Result<>> record(wire::egress::Batch batch) override;
  void wanted(wire::egress::Wanted wanted) override;
  uint64_t lastRecorded() override;
  void refusing(bool refuses) override;

  Task<void> lookRegularly();
  Task<void> lookAt(DoorPtr door);
  Task<void> askPolicy(DoorPtr door);
  [[nodiscard]] model::NetworkPlan wantedPlan(const Door& door) const;
  Task<void> replace(DoorPtr door, model::NetworkPlan plan);
  Task<std::optional<model::NetworkPlan>> recordAddition(DoorPtr door, model::NetworkPlan plan);
  Task<void> writeAddition(DoorPtr door, std::shared_ptr<Addition> addition);
  Task<void> putInForce(DoorPtr door, model::NetworkPlan plan);
  Task<void> send(DoorPtr door, model::SignedPlan plan);
  void recordLater(model::AuditEvent event);
  Task<void> recordLate();
  [[nodiscard]] model::SignedPlan sign(const model::NetworkPlan& plan) const;
  [[nodiscard]] DoorPtr find(const std::string& permit) const;
  void count(const wire::egress::Batch& batch);
  void redact(wire::egress::Batch& batch) const;

  boost::asio::any_io_executor executor_;
  DoorParts parts_;
  Terms terms_;
  Ledger ledger_;
  std::shared_ptr<EgressLink> link_;
  std::weak_ptr<Asker> asker_;
  std::map<std::string, DoorPtr> doors_;  // by permit
  std::map<std::string, DoorPtr> past_;
  std::deque<std::string> past_order_;
  std::deque<model::AuditEvent> late_;  // rows of plans that are in force already
  bool recording_late_ = false;
  size_t questions_ = 0;   // to policy, under way
  std::string policy_id_;  // at the last look
};

// Whether every rule and bound of `plan` is also in `before`, in the same order.
bool onlyNarrows(const model::NetworkPlan& before, const model::NetworkPlan& plan);
// `before` without the rules and bounds that `plan` lacks.
model::NetworkPlan narrowed(const model::NetworkPlan& before, const model::NetworkPlan& plan);

}  // namespace cloister::orchestrator
