// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_clients.h"

#include "cli/json_splice.h"

namespace cloister::cli {
namespace {

constexpr McpClient kClients[] = {
    {.name = "claude-desktop",
     .title = "Claude Desktop",
     .file = "~/.config/Claude/claude_desktop_config.json"},
    {.name = "claude-code", .title = "Claude Code", .file = ".mcp.json", .typed = true},
    {.name = "vscode",
     .title = "VS Code",
     .file = ".vscode/mcp.json",
     .group = "servers",
     .typed = true},
    {.name = "cursor", .title = "Cursor", .file = "~/.cursor/mcp.json"},
    {.name = "openai-agents", .title = "the OpenAI Agents SDK", .file = ""},
    {.name = "inspector", .title = "the MCP Inspector", .file = "~/.mcp-inspector/mcp.json"},
};

std::string listText(const std::vector<std::string>& words) {
  std::string text = "[";
  for (const std::string& word : words)
    text.append(text.size() > 1 ? ", " : "").append(quotedJson(word));
  return text + "]";
}

// The SDK waits 5 seconds for an answer by default; ours come within 50.
std::string agentsText(const McpLaunch& launch) {
  return "import asyncio\n"
         "\n"
         "from agents import Agent, Runner\n"
         "from agents.mcp import MCPServerStdio\n"
         "\n"
         "\n"
         "async def main():\n"
         "    async with MCPServerStdio(\n"
         "        name=\"cloister\",\n"
         "        params={\n"
         "            \"command\": " +
         quotedJson(launch.program) +
         ",\n"
         "            \"args\": " +
         listText(launch.args) +
         ",\n"
         "        },\n"
         "        client_session_timeout_seconds=60,\n"
         "    ) as cloister:\n"
         "        agent = Agent(name=\"Analyst\", instructions=\"Run code to check your "
         "answers.\",\n"
         "                      mcp_servers=[cloister])\n"
         "        result = await Runner.run(agent, \"What is the 1000th prime?\")\n"
         "        print(result.final_output)\n"
         "\n"
         "\n"
         "asyncio.run(main())\n";
}

}  // namespace

std::span<const McpClient> mcpClients() {
  return kClients;
}

std::string entryText(const McpClient& client, const McpLaunch& launch) {
  std::string text = "{\n";
  if (client.typed) text += "  \"type\": \"stdio\",\n";
  text += "  \"command\": " + quotedJson(launch.program) + ",\n";
  text += "  \"args\": " + listText(launch.args) + "\n}";
  return text;
}

std::string documentText(const McpClient& client, const McpLaunch& launch) {
  if (client.file.empty()) return agentsText(launch);
  const auto whole = spliceMember(
      "", {.group = client.group, .name = kMcpServerName, .value = entryText(client, launch)});
  return whole.value_or("");  // blank text never fails
}

}  // namespace cloister::cli
