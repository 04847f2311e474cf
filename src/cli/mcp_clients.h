// SPDX-License-Identifier: Apache-2.0
// The configuration of each MCP client for this server: file and format. The configuration never
// holds a key: `cloister mcp` reads the key from the state directory or from the file of
// --key-file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::cli {

struct McpClient {
  std::string_view name;   // value of --client
  std::string_view title;  // name for people
  std::string_view file;   // its configuration, "~/" for the home directory; "" for program text
  std::string_view group = "mcpServers";  // the member with all servers
  bool typed = false;                     // entries say "type": "stdio"
};

std::span<const McpClient> mcpClients();

// The command that starts the stdio server.
struct McpLaunch {
  std::string program;            // an absolute path
  std::vector<std::string> args;  // "mcp" and its arguments
};

// The client's entry for this server as JSON text, indented by two spaces per level.
std::string entryText(const McpClient& client, const McpLaunch& launch);

// Text to paste for a client without a configuration: a whole file, or program text.
std::string documentText(const McpClient& client, const McpLaunch& launch);

// The server's name in configurations.
inline constexpr std::string_view kMcpServerName = "cloister";

}  // namespace cloister::cli
