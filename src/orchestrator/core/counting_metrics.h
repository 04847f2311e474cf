// SPDX-License-Identifier: Apache-2.0
// For tests: counts what the services report.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "orchestrator/core/metrics.h"

namespace cloister::orchestrator {

struct CountingMetrics final : Metrics {
  void accepted() override { accepted_runs++; }
  void refused(std::string_view reason) override { refusals[std::string(reason)]++; }
  void denied(std::string_view what) override { denials[std::string(what)]++; }
  void started(double seconds, const std::string& runtime) override {
    EXPECT_GE(seconds, 0);
    EXPECT_FALSE(runtime.empty());
    started_runs++;
  }
  void finished(const model::Execution&) override { finished_runs++; }
  void queueDepth(size_t now_waiting, size_t now_running) override {
    waiting = now_waiting;
    running = now_running;
    most_running = std::max(most_running, now_running);
  }

  void diskTaken(uint64_t bytes) override { disk = bytes; }
  void sessionStarted(double seconds, const std::string& runtime) override {
    EXPECT_GE(seconds, 0);
    EXPECT_FALSE(runtime.empty());
    started_sessions++;
  }
  void sessionEnded(const model::Session& session) override {
    ends[session.end ? session.end->type : ""]++;
  }
  void sessionCount(size_t creating, size_t open) override {
    creating_sessions = creating;
    running_sessions = open;
  }
  void networkAttempts(bool allowed, std::string_view, uint64_t count) override {
    (allowed ? allowed_attempts : denied_attempts) += count;
  }
  void packageRefused(std::string_view, uint64_t count) override { refused_packages += count; }
  void networkBytes(uint64_t in, uint64_t out) override { network_bytes += in + out; }
  void networkLeftOut(uint64_t attempts) override { left_out += attempts; }
  void networkViolation() override { network_violations++; }
  void doors(size_t open) override { open_doors = open; }
  void planned(std::string_view when) override { plans[std::string(when)]++; }
  void egress(bool connected, bool refuses) override {
    egress_connected = connected;
    egress_refuses = refuses;
  }

  uint64_t allowed_attempts = 0;
  uint64_t denied_attempts = 0;
  uint64_t network_bytes = 0;
  uint64_t refused_packages = 0;
  uint64_t left_out = 0;
  int network_violations = 0;
  size_t open_doors = 0;
  std::map<std::string, int> plans;
  bool egress_connected = false;
  bool egress_refuses = false;

  std::map<std::string, int> denials;
  int started_sessions = 0;
  std::map<std::string, int> ends;  // of sessions, by reason
  size_t creating_sessions = 0;
  size_t running_sessions = 0;
  int accepted_runs = 0;
  int started_runs = 0;
  int finished_runs = 0;
  std::map<std::string, int> refusals;
  size_t waiting = 0;
  size_t running = 0;
  size_t most_running = 0;
  uint64_t disk = 0;
};

}  // namespace cloister::orchestrator
