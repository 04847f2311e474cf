// SPDX-License-Identifier: Apache-2.0
// Settings of cloister-egress: the bounds of one sandbox, and of the process. Values only. Zero
// never means unlimited.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "redact/rules.h"

namespace cloister::egress {

struct Settings {
  std::string pool = "198.18.0.0/15";     // of synthetic addresses
  Millis ask{60'000};                     // how long a connection waits for an approver
  Millis idle{300'000};                   // a connection without data for this long is cut
  uint32_t connections_per_second = 50;   // of a sandbox; this many may come at once
  uint32_t open_connections = 512;        // of a sandbox
  uint32_t lookups_per_second = 200;      // of a sandbox; further queries are dropped
  size_t attempts_kept = 16'384;          // aggregated ones, until the ledger has them
  Millis who{200};                        // how long the node may look for a program
  Millis attach_patience{5'000};          // how long a door waits for its plan
  Millis settle{10'000};                  // time of a new control plane to repeat its plans
  size_t doors = 4096;                    // of the process
  size_t connections = 16'384;            // of the process
  size_t plans = 8192;                    // of the process
  size_t plan_bytes = size_t{256} << 20;  // of all plans, encoded
  std::shared_ptr<const redact::Rules> dlp = nullptr;  // over requests; null: none
};

}  // namespace cloister::egress
