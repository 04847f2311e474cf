// SPDX-License-Identifier: Apache-2.0
// The MCP server: one dispatcher, a table of methods, for both eras and every transport. It calls
// the services that REST calls, and tells no story of its own about a run. Everything happens on
// the io thread.
//
//   POST /mcp → parseMessage → Call (era, principal, capabilities) → dispatch → Exchange → answer
//
// To add a method: a handler and its row in kMethods (server.cc). To add a tool: its definition in
// spec/mcp.json and its row in kTools (tools.cc).
#pragma once

#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "api/http/http.h"
#include "api/http/router.h"
#include "api/mcp/approval.h"
#include "api/mcp/exchange.h"
#include "api/mcp/extras.h"
#include "api/mcp/legacy.h"
#include "api/mcp/message.h"
#include "api/mcp/tool_names.h"
#include "api/rest/rest.h"

namespace cloister::api::mcp {

struct Settings {
  size_t text_bytes = size_t{16} << 10;  // of each output stream in an answer, unless asked
  size_t inline_images = 4;
  size_t inline_image_bytes = size_t{256} << 10;  // of each
  size_t download_bytes = size_t{1} << 20;        // of a call, and of a resource
  Millis sync_wait{
      45'000};  // for a program, where no progress was asked for; clients give up at 60 s
  Millis heartbeat{5'000};  // between notifications of progress, at most
  LegacySessions::Bounds legacy;
  Millis approval_life{600'000};
};

// The context of a request.
struct Call {
  Era era = Era::kModern;
  std::string version;
  model::Principal principal;
  json::object capabilities;  // the client's
  json::value id;
  json::value progress_token;  // null: none
  std::string log_level;       // "": none asked for
  ToolNames names = ToolNames::kOwn;
  ExchangePtr exchange;
  LegacyPtr session;  // of the legacy era

  [[nodiscard]] bool modern() const { return era == Era::kModern; }
  // Nobody: a client without a key, which may use extras alone.
  [[nodiscard]] bool anonymous() const { return principal.tenant.empty(); }
  [[nodiscard]] bool may(Permission permission) const {
    return !anonymous() && principal.may(permission);
  }
  // Sends a progress notification, if asked for. `progress` grows with each call.
  void progress(uint64_t progress, std::optional<uint64_t> total, std::string_view message) const;
};

// A client listening for changes (subscriptions/listen).
struct Listener {
  ExchangePtr exchange;
  json::value id;
  json::object wanted;
};

class Server {
 public:
  // `rest` outlives the server. kInvalid: `definitions`, the text of spec/mcp.json, does not fit.
  static Result<std::unique_ptr<Server>> make(boost::asio::any_io_executor executor,
                                              RestParts& rest, std::string_view definitions,
                                              Settings settings);

  // Adds tools, resources and prompts to the server's own. Call it before routes().
  void offer(Extras extras) { extras_ = std::move(extras); }
  [[nodiscard]] const Extras& extras() const { return extras_; }

  // POST, GET and DELETE /mcp. The server outlives the routes.
  std::vector<Route> routes();

  [[nodiscard]] RestParts& rest() { return rest_; }
  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const boost::asio::any_io_executor& executor() const { return executor_; }
  // spec/mcp.json: "instructions", "tools", "prompts", "resources", "templates".
  [[nodiscard]] const json::object& definitions() const { return definitions_; }
  Approvals& approvals() { return approvals_; }
  LegacySessions& sessions() { return sessions_; }
  std::list<Listener>& listeners() { return listeners_; }

  // Credentials may have ended: cancels their requests under way that have no connection.
  void lookAtCredentials();
  // Ends streams that would last as long as their clients. For an orderly stop.
  void stop();
  [[nodiscard]] bool stopping() const { return stopping_; }

  // Answers a request, of whichever era.
  Task<Reply> dispatch(Call& call, const std::string& method, json::object params);

 private:
  Server(boost::asio::any_io_executor executor, RestParts& rest, json::object definitions,
         Settings settings);

  Task<Result<Response>> post(Request& request);
  Task<Result<Response>> get(Request& request);
  Task<Result<Response>> remove(Request& request);
  Task<Result<Response>> start(Request& request, Message message, Call call);
  Result<Response> initialize(Request& request, Message message);
  Result<Response> tell(const Request& request, const Message& message);
  Rpc<Call> readCall(const Request& request, const Message& message);
  Task<void> work(std::shared_ptr<Call> call, std::string method, json::object params);

  boost::asio::any_io_executor executor_;
  RestParts& rest_;
  json::object definitions_;
  Settings settings_;
  Extras extras_;
  Approvals approvals_;
  LegacySessions sessions_;
  std::list<Listener> listeners_;
  bool stopping_ = false;
};

// Handlers, by file.
Task<Reply> discover(Server& server, Call& call, const json::object& params);
Task<Reply> listTools(Server& server, Call& call, const json::object& params);
Task<Reply> callTool(Server& server, Call& call, const json::object& params);
Task<Reply> listResources(Server& server, Call& call, const json::object& params);
Task<Reply> listTemplates(Server& server, Call& call, const json::object& params);
Task<Reply> readResource(Server& server, Call& call, const json::object& params);
Task<Reply> listPrompts(Server& server, Call& call, const json::object& params);
Task<Reply> getPrompt(Server& server, Call& call, const json::object& params);
Task<Reply> complete(Server& server, Call& call, const json::object& params);
Task<Reply> listen(Server& server, Call& call, const json::object& params);

// The server's capabilities for `server/discover` and `initialize`.
json::object capabilitiesOf(const Server& server);
// The HTTP answer of an error.
Response errorResponse(const json::value& id, const RpcError& error);

}  // namespace cloister::api::mcp
