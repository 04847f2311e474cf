// SPDX-License-Identifier: Apache-2.0
// Metrics: the services' counters. On the services' executor (one thread).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/execution.h"
#include "model/session.h"

namespace cloister::orchestrator {

struct Metrics {
  virtual ~Metrics() = default;
  virtual void accepted() = 0;
  virtual void refused(std::string_view reason) = 0;
  // By policy or an agent's rules, for good: a "run", an "exec", a "session".
  virtual void denied(std::string_view what) = 0;
  // Time from acceptance to the program's start, in a sandbox of `runtime`.
  virtual void started(double start_seconds, const std::string& runtime) = 0;
  virtual void finished(const model::Execution& execution) = 0;
  virtual void queueDepth(size_t waiting, size_t running) = 0;
  virtual void diskTaken(uint64_t bytes) = 0;  // by workspaces on disk, of runs and sessions
  // From acceptance to its sandbox.
  virtual void sessionStarted(double create_seconds, const std::string& runtime) = 0;
  virtual void sessionEnded(const model::Session& session) = 0;
  virtual void sessionCount(size_t creating, size_t running) = 0;
  // Attempts of sandboxes to reach something, as recorded; "tcp", "udp", "dns", "icmp", "other".
  virtual void networkAttempts(bool allowed, std::string_view transport, uint64_t count) = 0;
  virtual void packageRefused(std::string_view rule, uint64_t count) = 0;  // of kPackageRuleNames
  virtual void networkBytes(uint64_t in, uint64_t out) = 0;
  virtual void networkLeftOut(uint64_t attempts) = 0;  // attempts beyond the bounds of a record
  virtual void networkViolation() = 0;                 // of an agent with rules
  virtual void doors(size_t open) = 0;
  virtual void planned(std::string_view when) = 0;  // a plan was sent: "start", "later"
  // Whether cloister-egress is connected, and whether it refuses new connections for the ledger.
  virtual void egress(bool connected, bool refuses) = 0;
};

}  // namespace cloister::orchestrator
