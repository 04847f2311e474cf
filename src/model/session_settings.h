// SPDX-License-Identifier: Apache-2.0
// What the configuration says of sessions (`session`); docs/CONFIGURATION.md explains each.
#pragma once

#include <cstdint>

#include "model/session_memory.h"

namespace cloister::model {

struct SessionSettings {
  uint32_t max = 240;                        // at once
  uint32_t max_per_tenant = 200;             // the same, of one tenant
  uint32_t max_execs = 24;                   // programs at once in one
  uint32_t max_connections = 16;             // to the ports of one
  uint32_t max_watches = 4;                  // directories of one that are watched
  uint32_t watch_directories = 8'192;        // in each of those, itself included
  uint64_t watch_bytes = uint64_t{1} << 20;  // of its last changes, for readers that are behind
  uint32_t watch_linger_seconds = 30;        // without a reader
  uint32_t calls_per_minute = 0;             // programs and tool calls in one; 0: no bound
  uint32_t max_call_depth = 8;               // calls above one, each made by the one before
  uint32_t answer_seconds = 300;             // for a server inside to begin its answer
  uint32_t memory_percent = 60;              // of the node's memory, for the limits of all of them
  uint32_t ttl_seconds = 3600;               // unless asked, as the next
  uint32_t idle_ttl_seconds = 600;
  uint32_t max_ttl_seconds = 86'400;  // of either, from creation or the last renewal
  MemoryBounds memory;                // what one keeps under names
};

}  // namespace cloister::model
