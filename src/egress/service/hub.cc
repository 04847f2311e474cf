// SPDX-License-Identifier: Apache-2.0
#include "egress/service/hub.h"

#include <utility>

#include "base/clock.h"

namespace cloister::egress {
namespace {

// Results take no longer hosts (model::readNetworkUse). A looked-up name may have four times as
// much, because bytes that no host has are escaped. All hosts here are ASCII.
constexpr size_t kMostHost = 253;

wire::egress::Attempts attemptsOf(const PermitState& permit, const Destination& to) {
  wire::egress::Attempts attempts;
  attempts.permit = permit.id();
  if (permit.plan()) attempts.plan_sha256 = permit.plan()->sha256;
  attempts.host = to.host.substr(0, kMostHost);
  attempts.address = to.address;
  attempts.port = to.port;
  attempts.transport = to.transport;
  attempts.at = base::wallMicros();
  return attempts;
}

std::string ruleName(const Verdict& verdict) {
  return verdict.rule == nullptr ? std::string() : verdict.rule->rule;
}

}  // namespace

void Hub::denied(PermitState& permit, const Destination& to, const Verdict& verdict,
                 std::string_view protocol, uint64_t count) {
  wire::egress::Attempts attempts = attemptsOf(permit, to);
  attempts.rule = ruleName(verdict);
  attempts.reason = verdict.reason;
  attempts.count = count;
  permit.countDenied({.host = attempts.host,
                      .port = attempts.port,
                      .transport = attempts.transport,
                      .rule = attempts.rule,
                      .reason = verdict.reason,
                      .remedy = verdict.remedy,
                      .count = count});
  record.add(attempts);
  if (verdict.on_denied == model::OnDenied::kEscalate) ask(permit, to, verdict, protocol, false);
}

void Hub::ask(PermitState& permit, const Destination& to, const Verdict& verdict,
              std::string_view protocol, bool waits) {
  wire::egress::Wanted wanted;
  wanted.rule = ruleName(verdict);
  if (!permit.plan() || !permit.firstWanted(to.host, to.port, wanted.rule)) return;
  wanted.permit = permit.id();
  wanted.host = to.host;
  wanted.port = to.port;
  wanted.protocol =
      protocol.empty() ? model::protocolName(model::protocolOfPort(to.port)) : protocol;
  wanted.program = to.program;
  wanted.waits = waits;
  want(std::move(wanted));
}

void Hub::allowed(const PermitState& permit, const Destination& to, std::string_view rule,
                  uint64_t count, uint64_t bytes_in, uint64_t bytes_out) {
  wire::egress::Attempts attempts = attemptsOf(permit, to);
  attempts.allowed = true;
  attempts.rule = rule;
  attempts.count = count;
  attempts.bytes_in = bytes_in;
  attempts.bytes_out = bytes_out;
  record.add(attempts);
}

}  // namespace cloister::egress
