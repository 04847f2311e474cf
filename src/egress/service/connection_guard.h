// SPDX-License-Identifier: Apache-2.0
// ConnectionGuard: the judge and accountant of one connection of a sandbox (egress/relay/guard.h).
// It judges by the plan in force now, counts against the bounds of its sandbox, and reports the
// attempt and its bytes. Lives as long as the connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "async/signal.h"
#include "egress/relay/guard.h"
#include "egress/service/hub.h"
#include "egress/service/permit_state.h"

namespace cloister::egress {

// The life of a door, shared with its connections. A connection's socket keeps the sandbox's
// network namespace, so the door is gone only when `connections` is 0.
struct DoorLife {
  explicit DoorLife(boost::asio::any_io_executor executor) : closed(std::move(executor)) {}
  bool ended = false;
  size_t connections = 0;
  async::Signal closed;  // a connection
};

// Counts a connection of a door while it lives.
class Presence {
 public:
  explicit Presence(std::shared_ptr<DoorLife> life) : life_(std::move(life)) {
    ++life_->connections;
  }
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;
  ~Presence() {
    --life_->connections;
    life_->closed.notify();
  }

  [[nodiscard]] bool doorEnded() const { return life_->ended; }

 private:
  std::shared_ptr<DoorLife> life_;
};

class ConnectionGuard : public Guard {
 public:
  // Whether the name has, or gets, one of the places of the door for looked-up names.
  using TakesName = std::function<bool(std::string_view name)>;

  // The name of the program with the connection; "" if unknown.
  using FindProgram = std::function<Task<std::string>()>;

  ConnectionGuard(Hub& hub, std::shared_ptr<PermitState> permit, std::shared_ptr<DoorLife> door,
                  TakesName takes_name, FindProgram find_program = {});
  ConnectionGuard(const ConnectionGuard&) = delete;
  ConnectionGuard& operator=(const ConnectionGuard&) = delete;
  ~ConnectionGuard() override;

  Verdict judge(const Attempt& attempt) override;
  bool takeRequest() override { return permit_->takeRequest(); }
  bool count(uint64_t in, uint64_t out) override;
  std::string overBounds() override;
  void dialled(const std::string& address) override;
  void refused(const Attempt& attempt, const Verdict& verdict) override;
  void found(const Attempt& attempt, std::string_view rule, uint64_t count) override;
  async::Signal& changed() override { return permit_->changed(); }
  [[nodiscard]] bool cut() const override;
  Task<void> findProgram(const Attempt& attempt, const Verdict& verdict) override;
  // Asks an approver, and waits at most Settings::ask.
  Task<Verdict> hold(const Attempt& attempt, Verdict verdict) override;
  [[nodiscard]] std::vector<base::Network> internalNetworks() const override;
  [[nodiscard]] std::shared_ptr<Authority> authority() const override {
    return permit_->authority();
  }
  [[nodiscard]] std::shared_ptr<const Broker> broker() const override { return permit_->broker(); }
  [[nodiscard]] std::shared_ptr<size_t> lookUps() const override { return permit_->lookUps(); }

 private:
  // The destination and rule of the last allowed attempt, for the record.
  struct Allowed {
    std::string host;
    uint16_t port = 0;
    std::string rule;
    std::string address;
  };
  void finish();
  [[nodiscard]] std::string leakOf(const Verdict& verdict, std::string_view host) const;

  Hub& hub_;
  std::shared_ptr<PermitState> permit_;
  Presence presence_;
  TakesName takes_name_;
  FindProgram find_program_;
  std::optional<std::string> program_;  // once looked for
  // Verdicts point into plans: the last plans stay, as a verdict may be older than a change.
  static constexpr size_t kPlansKept = 4;
  std::array<std::shared_ptr<const PlanInForce>, kPlansKept> judged_by_;
  size_t next_plan_ = 0;
  const model::PlanRule* rule_ = nullptr;  // of the last allowed attempt, for its bound of bytes
  std::shared_ptr<const PlanInForce> rule_plan_;  // has `rule_`
  Allowed allowed_;
  bool reported_ = false;  // `allowed_`, as an attempt
  bool refused_ = false;
  bool dials_ = false;  // the first dial was asked for
  uint64_t in_ = 0;     // since the last report
  uint64_t out_ = 0;
};

}  // namespace cloister::egress
