// SPDX-License-Identifier: Apache-2.0
// How each MCP client is told of this server: which file, which shape. What they are told never
// holds a key: `cloister mcp` finds it, in the state directory or in the file that --key-file
// names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::cli {

struct McpClient {
  std::string_view name;   // as --client takes it
  std::string_view title;  // as people call it
  std::string_view
      file;  // its configuration, "~/" for the home directory; "" if it is program text
  std::string_view group = "mcpServers";  // the member that holds all servers
  bool typed = false;                     // entries say "type": "stdio"
};

std::span<const McpClient> mcpClients();

// The command that starts the stdio server.
struct McpLaunch {
  std::string program;            // an absolute path
  std::vector<std::string> args;  // "mcp" and what follows
};

// The client's entry for this server as JSON text, its lines indented by two spaces a level.
std::string entryText(const McpClient& client, const McpLaunch& launch);

// What to paste where the client has nothing yet: a whole file, or program text.
std::string documentText(const McpClient& client, const McpLaunch& launch);

// What this server is called in them.
inline constexpr std::string_view kMcpServerName = "cloister";

}  // namespace cloister::cli
