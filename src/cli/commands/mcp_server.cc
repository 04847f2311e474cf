// SPDX-License-Identifier: Apache-2.0
// `cloister mcp-server …`: MCP servers hosted in sandboxes.
#include <algorithm>

#include "cli/commands/resources.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/session_body.h"

namespace cloister::cli {
namespace {

constexpr std::string_view kWhich = "which server: give its name (see `cloister mcp-server list`)";

Result<json::object> addBody(const base::Flags& flags) {
  if (flags.operands().empty() || (flags.operands().size() == 1 && flags.rest().empty())) {
    return fail(Code::kInvalid,
                "which server: give a name, and behind -- the command that starts it, such as "
                "`cloister mcp-server add files -- mcp-server-filesystem /workspace`");
  }
  json::object body = TRY(sessionBody(flags));
  body["name"] = flags.operands().front();
  json::array command;
  for (size_t at = 1; at < flags.operands().size(); ++at)
    command.push_back(json::string(flags.operands()[at]));
  for (const std::string& each : flags.rest())
    command.push_back(json::string(each));
  body["command"] = std::move(command);
  return body;
}

std::string addedText(const json::object& answer) {
  std::string text = printable(textOf(answer, "name")) + ": " +
                     printable(textOf(answer, "status")) + ", " +
                     std::to_string(arrayOf(answer, "tools").size()) + " tools\n";
  const std::string error = textOf(answer, "error");
  return error.empty() ? text : text + printable(error) + "\n";
}

// 1: the server is registered, but does not run.
int addedStatus(const json::object& answer) {
  return textOf(answer, "status") == "running" ? 0 : 1;
}

std::string countOf(const json::object& object, std::string_view name) {
  return std::to_string(arrayOf(object, name).size());
}

constexpr Column kColumns[] = {{"NAME", "name"},
                               {"STATUS", "status"},
                               {"TOOLS", "tools", countOf},
                               {.heading = "SESSION", .member = "session_id", .fit = Fit::kWide},
                               {"COMMAND", "command", joinedOf},
                               {"ERROR", "error"}};
constexpr Verb kAdd = {.method = "POST",
                       .path = "/v1/mcp-servers",
                       .body = addBody,
                       .text = addedText,
                       .status = addedStatus};
constexpr Verb kList = {.path = "/v1/mcp-servers",
                        .items = "mcp_servers",
                        .columns = kColumns,
                        .empty = "no MCP servers\n"};
constexpr Verb kRemove = {
    .method = "DELETE", .path = "/v1/mcp-servers/{}", .missing = kWhich, .each = "deleted"};

}  // namespace

const Command kMcpServerAdd = {
    .name = "mcp-server add",
    .operands = "NAME -- COMMAND [ARG...]",
    .max_operands = 64,
    .summary = "host an MCP server in a sandbox",
    .details =
        "The server speaks over its standard input and output. Its tools appear at /mcp as\n"
        "NAME__TOOL. Exit status 1: the server is registered, but does not run.",
    .flags = sessionFlags(),
    .examples =
        "cloister mcp-server add everything -l node \\\n"
        "  --dep @modelcontextprotocol/server-everything -- mcp-server-everything",
    .run = carryOut<kAdd>};
const Command kMcpServerList = {.name = "mcp-server list",
                                .summary = "list hosted MCP servers",
                                .examples = "cloister mcp-server list",
                                .run = carryOut<kList>};
const Command kMcpServerRemove = {.name = "mcp-server rm",
                                  .operands = "NAME...",
                                  .max_operands = 1000,
                                  .summary = "end and forget hosted MCP servers",
                                  .examples = "cloister mcp-server rm everything",
                                  .run = carryOut<kRemove>};

}  // namespace cloister::cli
