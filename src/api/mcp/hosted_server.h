// SPDX-License-Identifier: Apache-2.0
// An MCP server that speaks over standard input and output, hosted in a session of its own: one
// instance, for one agent. The service is the server's only client. The server is hostile: each
// message, answer and pause is bounded, and beyond a bound the instance ends. A started instance
// lives until it is idle for too long, ends or breaks a bound; the next call starts another, in a
// fresh sandbox.
//
//   ensure() → session → bridge (languages/tools/mcp_bridge.py) → connection → initialize →
//   tools/list → call()…
//
// On the io thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/mcp/exchange.h"
#include "api/rest/rest.h"
#include "api/workspace.h"
#include "async/signal.h"

namespace cloister::api::mcp {

struct HostedSettings {
  size_t per_tenant = 100;
  size_t running = 32;
  size_t running_per_agent = 8;
  Millis start{60'000};
  Millis call{120'000};
  Millis idle{600'000};
  size_t message_bytes = size_t{4} << 20;
  size_t tools = 128;
  size_t starts_per_minute = 6;
};

// What a client registered.
struct ServerDefinition {
  std::string id;  // of its document
  uint64_t version = 1;
  std::string name;
  std::vector<std::string> command;
  json::object session;  // the body of POST /v1/sessions
};

// Reads the body of POST /v1/mcp-servers. kInvalid names the field.
Result<ServerDefinition> parseDefinition(const json::object& body, const RestParts& parts);
// The form of parseDefinition().
json::object toJsonObject(const ServerDefinition& definition);

class HostedServer : public std::enable_shared_from_this<HostedServer> {
 public:
  enum class State : uint8_t { kStopped, kStarting, kRunning };

  // `parts` and `settings` outlive the server. The session is `principal`'s.
  HostedServer(boost::asio::any_io_executor executor, RestParts& parts,
               const HostedSettings& settings, ServerDefinition definition,
               model::Principal principal);

  // Returns once the server runs and has told its tools. kUnavailable, with the reason, for a
  // server that does not start, and for one that was started too often.
  Task<Result<>> ensure();
  // Calls a tool of the server: the result of tools/call, reduced to the known members. Starts the
  // server if needed. A cancelled exchange cancels the call.
  Task<Result<json::object>> call(std::string tool, json::object arguments, ExchangePtr exchange);
  // Ends the session, and calls under way with `why`.
  Task<void> stop(std::string why);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const ServerDefinition& definition() const { return definition_; }
  [[nodiscard]] const model::Principal& principal() const { return principal_; }
  // Definitions of its tools with the names of the server, as last told; null until then.
  [[nodiscard]] const json::array* tools() const { return tools_ ? &*tools_ : nullptr; }
  // The server said that its tools have changed: ensure() asks for them.
  [[nodiscard]] bool isStale() const { return stale_; }
  [[nodiscard]] const std::string& session() const { return session_; }
  [[nodiscard]] uint64_t starts() const { return starts_; }
  [[nodiscard]] const std::string& error() const { return error_; }  // "": none
  [[nodiscard]] bool isBusy() const { return calls_ > 0 || state_ == State::kStarting; }
  [[nodiscard]] base::Monotonic used() const { return used_; }

 private:
  struct Pending {
    std::optional<json::object> answer;
  };
  // A connection to the bridge. Coroutines of an ended connection find `open` false.
  struct Link {
    FileCallPtr call;
    std::deque<std::string> out;
    size_t out_bytes = 0;
    size_t unasked = 0;  // bytes since the last answer that no request asked for
    bool open = true;
  };
  using LinkPtr = std::shared_ptr<Link>;

  Result<> mayStart();
  Task<Result<>> launch();
  Task<Result<>> startBridge(const model::Session& session);
  Task<Result<>> waitUntilReady(base::Monotonic until);
  Task<Result<>> connect(base::Monotonic until);
  Task<Result<>> handshake(base::Monotonic until);
  Task<Result<>> learnTools(base::Monotonic until);
  std::string late(std::string_view what) const;
  Task<Result<json::object>> ask(std::string method, json::object params, base::Monotonic until,
                                 ExchangePtr exchange = nullptr);
  bool say(const json::object& message);
  void close(const LinkPtr& link, std::string why);
  bool take(const LinkPtr& link, std::string_view line);
  std::string lastWords() const;
  Task<void> endSession();
  static Task<void> readFrom(std::shared_ptr<HostedServer> self, LinkPtr link);
  static Task<void> writeTo(std::shared_ptr<HostedServer> self, LinkPtr link);
  static Task<void> watchIdle(std::shared_ptr<HostedServer> self, LinkPtr link);

  RestParts& parts_;
  const HostedSettings& settings_;
  ServerDefinition definition_;
  model::Principal principal_;
  State state_ = State::kStopped;
  std::string session_;
  std::string execution_;  // of the bridge
  LinkPtr link_;
  std::map<int64_t, Pending> pending_;
  int64_t next_id_ = 1;
  size_t calls_ = 0;
  std::optional<json::array> tools_;
  bool stale_ = false;
  uint64_t starts_ = 0;
  std::deque<base::Monotonic> recent_starts_;
  std::string error_;
  base::Monotonic used_;
  async::Signal changed_;
};

}  // namespace cloister::api::mcp
