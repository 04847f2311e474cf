// SPDX-License-Identifier: Apache-2.0
#include "egress/service/connection_guard.h"

#include <algorithm>
#include <utility>

#include "egress/plan/star.h"

namespace cloister::egress {
namespace {

std::string_view protocolOf(const Attempt& attempt) {
  return attempt.protocol ? model::protocolName(*attempt.protocol) : std::string_view();
}

Destination destinationOf(const Attempt& attempt, const std::optional<std::string>& program) {
  Destination to{attempt.host, attempt.port};
  if (program) to.program = *program;
  return to;
}

}  // namespace

ConnectionGuard::ConnectionGuard(Hub& hub, std::shared_ptr<PermitState> permit,
                                 std::shared_ptr<DoorLife> door, TakesName takes_name,
                                 FindProgram find_program)
    : hub_(hub),
      permit_(std::move(permit)),
      presence_(std::move(door)),
      takes_name_(std::move(takes_name)),
      find_program_(std::move(find_program)) {
  permit_->opened();
  ++hub_.connections;
}

ConnectionGuard::~ConnectionGuard() {
  finish();
  permit_->closed();
  --hub_.connections;
}

// A name given to the proxy is resolved at the dial, and so leaves like one that is looked up: the
// bounds of look-ups apply (egress/dns/answers.h). A sentence, or "".
std::string ConnectionGuard::leakOf(const Verdict& verdict, std::string_view host) const {
  std::string data = dataIn(permit_->plan()->plan, verdict, host);
  if (!data.empty() || takes_name_(host)) return data;
  return "The sandbox looked up too many different names.";
}

Verdict ConnectionGuard::judge(const Attempt& attempt) {
  const auto& plan = permit_->plan();
  if (plan && std::ranges::find(judged_by_, plan) == judged_by_.end()) {
    judged_by_[next_plan_] = plan;
    next_plan_ = (next_plan_ + 1) % kPlansKept;
  }
  Verdict verdict = permit_->judge(attempt);
  if (!verdict.allowed || verdict.rule == nullptr) return verdict;
  if (std::string leak = leakOf(verdict, attempt.host); !leak.empty()) {
    return {.rule = verdict.rule, .reason = std::move(leak), .remedy = std::string(kNameTheHost)};
  }
  const std::string& rule = verdict.rule->rule;
  const bool same_host = allowed_.host == attempt.host && allowed_.port == attempt.port;
  if (!same_host || allowed_.rule != rule) {
    finish();
    allowed_ = {std::string(attempt.host), attempt.port, rule, same_host ? allowed_.address : ""};
  }
  rule_ = verdict.rule;
  rule_plan_ = plan;
  return verdict;
}

bool ConnectionGuard::count(uint64_t in, uint64_t out) {
  in_ += in;
  out_ += out;
  return permit_->countBytes(rule_, in, out);
}

// The door counted the accepted connection. Behind a proxy's connection each further dial is
// another connection, and the ledger may have begun to refuse since.
std::string ConnectionGuard::overBounds() {
  if (std::exchange(dials_, true) && !permit_->takeConnection()) {
    return "The sandbox opened more than " + std::to_string(hub_.settings.connections_per_second) +
           " connections in a second.";
  }
  if (!hub_.record.accepts()) return "The audit log takes no further attempts at the moment.";
  return {};
}

// The attempt is reported before its first byte leaves.
void ConnectionGuard::dialled(const std::string& address) {
  allowed_.address = address;
  const Destination to{allowed_.host, allowed_.port, "tcp", allowed_.address};
  hub_.allowed(*permit_, to, allowed_.rule, 1);
  permit_->countConnection();
  reported_ = true;
}

void ConnectionGuard::refused(const Attempt& attempt, const Verdict& verdict) {
  refused_ = true;
  hub_.denied(*permit_, destinationOf(attempt, program_), verdict, protocolOf(attempt));
}

// A row of its own beside that of the connection: the rule's name, and no bytes.
void ConnectionGuard::found(const Attempt& attempt, std::string_view rule, uint64_t count) {
  hub_.allowed(*permit_, destinationOf(attempt, program_), rule, count);
}

bool ConnectionGuard::cut() const {
  return presence_.doorEnded() || !permit_->plan();
}

// Looks once for each connection, and never for a repeated question.
Task<void> ConnectionGuard::findProgram(const Attempt& attempt, const Verdict& verdict) {
  const std::string_view rule = verdict.rule == nullptr ? std::string_view() : verdict.rule->rule;
  if (!find_program_ || program_ || !permit_->isNewlyWanted(attempt.host, attempt.port, rule))
    co_return;
  program_ = co_await find_program_();
}

Task<Verdict> ConnectionGuard::hold(const Attempt& attempt, Verdict verdict) {
  const auto asks = [](const Verdict& v) {
    return !v.allowed && v.on_denied == model::OnDenied::kAsk;
  };
  if (!asks(verdict)) co_return verdict;
  const base::Monotonic deadline = base::monotonicNow() + hub_.settings.ask;
  while (asks(verdict) && !cut() && base::monotonicNow() < deadline) {
    hub_.ask(*permit_, destinationOf(attempt, program_), verdict, protocolOf(attempt), true);
    const base::Monotonic again = base::monotonicNow() + PermitState::kWantedLately;
    co_await changed().wait(std::min(deadline, again));
    verdict = judge(attempt);
  }
  co_return verdict;
}

std::vector<base::Network> ConnectionGuard::internalNetworks() const {
  std::vector<base::Network> networks;
  if (!permit_->plan()) return networks;
  for (const std::string& text : permit_->plan()->plan.internal_networks) {
    if (const auto network = base::Network::parse(text)) networks.push_back(*network);
  }
  return networks;
}

// Reports the bytes of the destination, or an allowed attempt that reached nothing.
void ConnectionGuard::finish() {
  const bool unreported = !reported_ && !refused_ && !allowed_.host.empty();
  if (unreported || in_ != 0 || out_ != 0) {
    const Destination to{allowed_.host, allowed_.port, "tcp", allowed_.address};
    hub_.allowed(*permit_, to, allowed_.rule, unreported ? 1 : 0, in_, out_);
  }
  reported_ = refused_ = false;
  in_ = out_ = 0;
}

}  // namespace cloister::egress
