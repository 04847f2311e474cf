// SPDX-License-Identifier: Apache-2.0
// The configuration of hosted MCP servers (`mcp.servers`); docs/CONFIGURATION.md explains each
// setting.
#pragma once

#include <cstdint>

namespace cloister::model {

struct McpServerSettings {
  uint32_t per_tenant = 100;         // registered
  uint32_t running = 32;             // at once, of all tenants
  uint32_t running_per_agent = 8;    // at once
  uint32_t start_seconds = 60;       // to start and to answer `initialize`
  uint32_t call_seconds = 120;       // for the answer to a call
  uint32_t idle_seconds = 600;       // without a call; then stopped
  uint64_t message_bytes = 4 << 20;  // of a message
  uint32_t tools = 128;              // of a server
  uint32_t starts_per_minute = 6;    // of a server for an agent
};

}  // namespace cloister::model
