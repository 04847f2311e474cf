// SPDX-License-Identifier: Apache-2.0
// The MCP servers hosted in sandboxes: the registered definitions, and the running instances. Each
// agent has an instance of its own: no state of a server passes from one agent to another, and each
// instance runs under the policy of its agent. The tools of a server have names as
// "<server>__<tool>". docs/howto/mcp-servers.md is for users, docs/adr/0115 has the reasons. On the
// io thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/mcp/hosted_server.h"
#include "store/document_store.h"

namespace cloister::api::mcp {

inline constexpr std::string_view kServerKind = "mcp.server";

class HostedServers {
 public:
  // `parts` outlives the servers.
  HostedServers(boost::asio::any_io_executor executor, RestParts& parts, HostedSettings settings)
      : executor_(std::move(executor)), parts_(parts), settings_(settings), changed_(executor_) {}

  // Registers a server and starts an instance for the caller. The result shows the server, also if
  // the server did not start. kConflict for a taken name.
  Task<Result<json::object>> add(model::Principal who, json::object body);
  // The servers that `who` may use, as shown to clients.
  Result<json::array> list(const model::Principal& who);
  // Removes the definition, and ends all instances.
  Task<Result<>> remove(model::Principal who, std::string name);

  // Adds the tools of the caller's servers. Starts servers whose tools are not known.
  Task<void> listTools(model::Principal who, json::array& into);
  // Whether `name` has the form of a hosted server's tool.
  static bool isToolName(std::string_view name) { return name.contains("__"); }
  // The result of tools/call. kNotFound without such a server or tool.
  Task<Result<json::object>> call(model::Principal who, std::string name, json::object arguments,
                                  ExchangePtr exchange);

 private:
  using ServerPtr = std::shared_ptr<HostedServer>;

  Result<std::vector<store::Document>> documents(const model::Principal& who);
  // The caller's instance, made if needed; nothing starts.
  Result<ServerPtr> instance(const model::Principal& who, const store::Document& document);
  // The caller's instance, if there is one.
  ServerPtr existing(const model::Principal& who, const store::Document& document) const;
  // Makes room for another running instance of `who`: ends instances that wait for calls.
  Task<Result<>> makeRoom(const model::Principal& who, ServerPtr wanted);
  Task<Result<>> ensure(model::Principal who, ServerPtr server);
  json::object shown(const model::Principal& who, const store::Document& document) const;
  // The tools of the caller's instance; null if unknown. Another agent's instance may have others.
  const json::array* knownTools(const model::Principal& who, const store::Document& document) const;

  boost::asio::any_io_executor executor_;
  RestParts& parts_;
  HostedSettings settings_;
  std::map<std::string, ServerPtr> instances_;  // by server and agent
  async::Signal changed_;
};

}  // namespace cloister::api::mcp
