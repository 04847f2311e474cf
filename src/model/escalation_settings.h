// SPDX-License-Identifier: Apache-2.0
// The configuration of escalations (`escalation`): requests to exceed the policy, and the people
// who are notified; docs/ESCALATIONS.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cloister::model {

struct EscalationSettings {
  uint32_t ttl_seconds = 3600;        // lifetime of a request made by hand; others by their rule
  uint32_t grant_seconds = 7200;      // an approval is good
  uint32_t pending_per_tenant = 256;  // including blocked executions
  uint32_t pending_per_agent = 20;    // of operations refused by its sandbox
  uint64_t workspace_mb = 1024;       // maximum of a session's workspace for asking an approval
  uint32_t workspace_files = 100'000;
  uint32_t notification_queue = 10'000;
  uint32_t notification_attempts = 10;    // then given up
  uint32_t notification_pause_ms = 2000;  // before the second, doubling from there
  uint32_t notification_timeout_ms = 10'000;
  std::vector<std::string> roles = {"approver"};  // approvers of requests made by hand
  std::vector<std::string> safe_operations = {"file_read", "file_write", "file_delete", "command"};
  struct Webhook {
    std::string url;          // "": none
    std::string secret_file;  // signs notifications
    std::string ca_file;      // "" = the system's authorities
  } webhook;
  struct Smtp {
    std::string relay;  // host:port; "": none
    std::string from;
    std::vector<std::string> to;
    bool starttls = true;
    std::string ca_file;
    std::string user;  // "": without authentication
    std::string password_file;
  } smtp;
};

}  // namespace cloister::model
