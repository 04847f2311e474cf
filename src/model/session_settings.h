// SPDX-License-Identifier: Apache-2.0
// The configuration of sessions (`session`); docs/CONFIGURATION.md explains each setting.
#pragma once

#include <cstdint>

#include "model/session_memory.h"

namespace cloister::model {

struct SessionSettings {
  uint32_t max = 240;                        // at once
  uint32_t max_per_tenant = 200;             // the same for a tenant
  uint32_t max_execs = 24;                   // concurrent programs of a session
  uint32_t max_connections = 16;             // to a session's ports
  uint32_t max_watches = 4;                  // watched directories of a session
  uint32_t watch_directories = 8'192;        // of each watch, including the first
  uint64_t watch_bytes = uint64_t{1} << 20;  // of a watch's last changes, for slow readers
  uint32_t watch_linger_seconds = 30;        // without a reader
  uint32_t calls_per_minute = 0;             // programs and tool calls of a session; 0: no limit
  uint32_t max_call_depth = 8;               // nesting depth of calls
  uint32_t answer_seconds = 300;             // for a server inside to begin its answer
  uint32_t memory_percent = 60;              // of the node's memory, for the limits of all sessions
  uint32_t ttl_seconds = 3600;               // default, as the next
  uint32_t idle_ttl_seconds = 600;
  uint32_t max_ttl_seconds = 86'400;  // of either, from creation or the last renewal
  MemoryBounds memory;                // named values of a session
};

}  // namespace cloister::model
