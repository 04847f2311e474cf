// SPDX-License-Identifier: Apache-2.0
// MCP over Streamable HTTP: finds the era of a message, checks its headers, and answers as JSON, or
// as Server-Sent Events if messages precede the answer.
#include <algorithm>
#include <charconv>

#include "api/mcp/headers.h"
#include "api/mcp/server.h"
#include "api/rest/requests.h"
#include "async/spawn.h"
#include "base/log.h"

namespace cloister::api::mcp {
namespace {

constexpr Millis kForever{24 * 3'600'000};
constexpr std::string_view kKeepAlive = ": keep-alive\n\n";
constexpr std::string_view kRetry = "retry: 500\n";

Response errorOf(int status, const json::value& id, int code, std::string message) {
  return errorResponse(id, RpcError{.code = code, .message = std::move(message), .status = status});
}

Response eventStream() {
  Response response;
  response.with("Content-Type", "text/event-stream").with("X-Accel-Buffering", "no");
  return response;
}

Response accepted() {
  Response response;
  response.status = 202;
  return response;
}

// The form in which a reader receives an exchange.
struct Telling {
  ExchangePtr exchange = {};
  uint64_t position = 0;
  std::string stream = {};  // in the ids of events; "" without ids
  bool primed = false;      // begins with an empty event with an id
  bool cancels = false;     // a reader's disconnect cancels the request
  Millis keep_alive{15'000};
};

std::string eventText(const Telling& telling, const std::string& data) {
  std::string text = "event: message\n";
  if (!telling.stream.empty()) {
    text += "id: " + telling.stream + "." + std::to_string(telling.position + 1) + "\n";
  }
  return text + "data: " + data + "\n\n";
}

Task<bool> tellAll(Telling& telling, BodyWriter& out) {
  while (const auto data = telling.exchange->at(telling.position)) {
    if (!co_await out.write(eventText(telling, *data))) co_return false;
    ++telling.position;
    if (telling.stream.empty()) telling.exchange->forget(telling.position);
  }
  co_return true;
}

// Writes events to the end of the exchange, or until the exchange asks the reader to come back.
Task<void> tell(Telling telling, std::shared_ptr<void> hold, BodyWriter& out) {
  const ExchangePtr exchange = telling.exchange;
  exchange->begin();
  bool there = true;
  bool all = false;
  if (telling.primed) {
    there =
        (co_await out.write("id: " + telling.stream + ".0\n" + std::string(kRetry) + "data: \n\n"))
            .has_value();
  }
  while (there) {
    there = co_await tellAll(telling, out);
    if (!there || exchange->takeInterrupt()) break;
    all = exchange->ended() && telling.position >= exchange->endPosition();
    if (all) break;
    const uint64_t position = telling.position;
    co_await exchange->wait(position, telling.keep_alive);
    if (position >= exchange->endPosition() && !exchange->ended()) {
      there = (co_await out.write(kKeepAlive)).has_value();
    }
  }
  exchange->leave(all);
  if (!there && telling.cancels) exchange->cancel();
}

Response streamOf(Telling telling, std::shared_ptr<void> hold = nullptr) {
  Response response = eventStream();
  response.stream = [telling = std::move(telling), hold = std::move(hold)](BodyWriter& out) {
    return tell(telling, hold, out);
  };
  return response;
}

std::optional<std::pair<uint64_t, uint64_t>> parseEventId(std::string_view text) {
  std::pair<uint64_t, uint64_t> id;
  const char* end = text.data() + text.size();
  const auto stream = std::from_chars(text.data(), end, id.first);
  if (stream.ec != std::errc() || stream.ptr == end || *stream.ptr != '.') return std::nullopt;
  const auto event = std::from_chars(stream.ptr + 1, end, id.second);
  if (event.ec != std::errc() || event.ptr != end) return std::nullopt;
  return id;
}

// Counts a reader of a session during its own life.
class Reading {
 public:
  explicit Reading(LegacyPtr session) : session_(std::move(session)) { ++session_->readers; }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() {
    --session_->readers;
    session_->used = base::monotonicNow();
  }

 private:
  LegacyPtr session_;
};

json::object supported(std::string_view requested) {
  return {{"supported", json::array{kModernVersion}}, {"requested", requested}};
}

}  // namespace

Response errorResponse(const json::value& id, const RpcError& error) {
  return jsonResponse(error.status, errorMessage(id, error));
}

std::vector<Route> Server::routes() {
  // The tables of tools and resources have the further permissions.
  const Access access = needs(Permission::kServiceRead,
                              extras_.anonymous ? Access::Or::kAnonymous : Access::Or::kNobody);
  return {{.method = "POST",
           .pattern = "/mcp",
           .access = access,
           .query = {"names"},
           .handle = [this](Request& request) { return post(request); },
           .json_body = true},
          {.method = "GET",
           .pattern = "/mcp",
           .access = access,
           .query = {"names"},
           .handle = [this](Request& request) { return get(request); }},
          {.method = "DELETE",
           .pattern = "/mcp",
           .access = access,
           .query = {"names"},
           .handle = [this](Request& request) { return remove(request); }}};
}

// The modern era is stateless: the message has all facts, and the headers repeat them.
Rpc<Call> Server::readCall(const Request& request, const Message& message) {
  const json::object& about = objectIn(message.params, "_meta");
  Call call;
  call.principal = request.principal;
  call.id = message.id;
  if (const auto names = queryText(request, "names")) {
    const auto known = toolNamesFromText(*names);
    if (!known) return rpcError(code::kInvalidParams, known.error().message, 400);
    call.names = *known;
  }
  if (const json::value* token = about.if_contains("progressToken")) {
    if (!token->is_string() && !token->is_int64() && !token->is_uint64()) {
      return rpcError(code::kInvalidParams, "_meta.progressToken: must be a string or an integer",
                      400);
    }
    call.progress_token = *token;
  }
  const json::value* version = about.if_contains(meta::kVersion);
  const std::string_view header = request.header("mcp-protocol-version");
  if (version == nullptr && header != kModernVersion) {
    call.era = Era::kLegacy;
    return call;
  }
  if (version == nullptr || !version->is_string()) {
    return rpcError(code::kInvalidParams,
                    "_meta: \"" + std::string(meta::kVersion) + "\" must be given as a string",
                    400);
  }
  call.version = std::string(version->get_string());
  if (auto bad = checkHeaders(request, message, call.version)) {
    return rpcError(code::kHeaderMismatch, *std::move(bad), 400);
  }
  if (call.version != kModernVersion) {
    return rpcError(code::kUnsupportedVersion,
                    "protocol version " + call.version.substr(0, 32) + " is not supported", 400,
                    supported(call.version));
  }
  const json::value* capabilities = about.if_contains(meta::kCapabilities);
  if (capabilities == nullptr || !capabilities->is_object()) {
    return rpcError(
        code::kInvalidParams,
        "_meta: \"" + std::string(meta::kCapabilities) + "\" must be given as an object", 400);
  }
  call.capabilities = capabilities->get_object();
  const ExtraTool* extra = extras_.tool(textIn(message.params, "name"));
  if (message.method == "tools/call" && extra != nullptr) {
    if (auto bad = checkParameters(request, extra->schema, objectIn(message.params, "arguments"))) {
      return rpcError(code::kHeaderMismatch, *std::move(bad), 400);
    }
  }
  call.log_level = textIn(about, meta::kLogLevel);
  return call;
}

Task<Result<Response>> Server::post(Request& request) {
  const size_t most = rest_.bounds.body_bytes;
  auto body = std::make_shared<const std::string>(std::exchange(request.body, {}));
  std::expected<Message, Unreadable> message;
  if (body->size() < kLargeBody) {
    message = parseMessage(*body, most);
  } else {
    message = co_await async::inBackground<std::expected<Message, Unreadable>>(
        rest_.background, [body, most] { return parseMessage(*body, most); });
  }
  body.reset();
  request.body_read();
  if (!message) co_return errorResponse(message.error().id, message.error().error);
  if (message->kind != Kind::kRequest) co_return tell(request, *message);
  Rpc<Call> call = readCall(request, *message);
  if (!call) co_return errorResponse(message->id, call.error());
  if (call->modern()) co_return co_await start(request, *std::move(message), *std::move(call));
  const std::string_view version = request.header("mcp-protocol-version");
  if (!version.empty() && !isLegacyVersion(version)) {
    co_return errorResponse(message->id, {.code = code::kUnsupportedVersion,
                                          .message = "MCP-Protocol-Version: not supported",
                                          .data = supported(version),
                                          .status = 400});
  }
  if (message->method == "initialize") co_return initialize(request, *std::move(message));
  if (request.count("mcp-session-id") == 0) {
    co_return errorOf(400, message->id, code::kInvalidRequest,
                      "Mcp-Session-Id: is required; begin with initialize, or send \"" +
                          std::string(meta::kVersion) + "\" in _meta");
  }
  call->session = sessions_.find(std::string(request.header("mcp-session-id")), request.principal);
  if (!call->session) {
    co_return errorOf(404, message->id, code::kInvalidRequest,
                      "Mcp-Session-Id: there is no such session (any more); send initialize");
  }
  call->version = call->session->version;
  call->capabilities = call->session->capabilities;
  call->log_level = call->session->log_level;
  co_return co_await start(request, *std::move(message), *std::move(call));
}

Result<Response> Server::initialize(Request& request, Message message) {
  const std::string wanted = textIn(message.params, "protocolVersion");
  if (wanted.empty()) {
    return errorOf(200, message.id, code::kInvalidParams, "protocolVersion: is required");
  }
  const std::string version(isLegacyVersion(wanted) ? std::string_view(wanted)
                                                    : kLegacyVersions.front());
  const LegacyPtr session =
      sessions_.open(request.principal, version, objectIn(message.params, "capabilities"));
  if (!session) {
    return errorOf(503, message.id, code::kInternal, "too many sessions are open; retry later")
        .with("Retry-After", "5");
  }
  json::object result{{"protocolVersion", version},
                      {"capabilities", capabilitiesOf(*this)},
                      {"serverInfo", serverInfo()},
                      {"instructions", definitions_.at("instructions")}};
  return jsonResponse(200, resultMessage(message.id, std::move(result)))
      .with("Mcp-Session-Id", session->id);
}

// Takes a notification, or a client's answer to a question.
Result<Response> Server::tell(const Request& request, const Message& message) {
  const json::object& about = objectIn(message.params, "_meta");
  if (about.contains(meta::kVersion) || request.count("mcp-session-id") == 0) return accepted();
  const LegacyPtr session =
      sessions_.find(std::string(request.header("mcp-session-id")), request.principal);
  if (!session) {
    return errorOf(404, nullptr, code::kInvalidRequest,
                   "Mcp-Session-Id: there is no such session (any more)");
  }
  if (message.kind == Kind::kResponse) {
    const auto asked = session->answered.find(base::toJson(message.id));
    if (asked == session->answered.end()) return accepted();
    asked->second = message.whole;
    for (const auto& [id, exchange] : session->under_way)
      exchange->wake();
  } else if (message.method == "notifications/cancelled") {
    const json::value* id = message.params.if_contains("requestId");
    const auto found = session->under_way.find(id == nullptr ? std::string() : base::toJson(*id));
    if (found != session->under_way.end()) ExchangePtr(found->second)->cancel();
  }
  return accepted();
}

Task<Result<Response>> Server::start(Request& request, Message message, Call wanted) {
  const auto call = std::make_shared<Call>(std::move(wanted));
  const auto exchange = call->exchange = std::make_shared<Exchange>(executor_);
  const LegacyPtr session = call->session;
  if (session) {
    if (session->under_way.size() >= LegacySession::kMaxUnderWay) {
      co_return errorOf(200, message.id, code::kInternal,
                        "too many requests of this session are under way; wait for one");
    }
    if (!session->under_way.emplace(base::toJson(message.id), exchange).second) {
      co_return errorOf(200, message.id, code::kInvalidRequest,
                        "id: a request with this id is under way already");
    }
    exchange->setStandIn(base::toJson(errorMessage(
        message.id, {.code = code::kInternal,
                     .message = "the answer is too large to be kept for a client that was away; "
                                "call again"})));
  } else {
    request.when_closed([exchange] { exchange->cancel(); });
    request.watch_peer();
  }
  async::spawn(executor_, work(call, std::move(message.method), std::move(message.params)));
  co_await exchange->wait(0, kForever);
  if (exchange->ended() && !exchange->streams() && !exchange->takeInterrupt()) {
    uint64_t first = 0;
    const auto answer = exchange->at(first);
    if (!answer) co_return streamOf({.exchange = exchange});  // cancelled: nothing follows
    Response response;
    response.status = exchange->status();
    response.with("Content-Type", "application/json");
    response.body = *answer;
    co_return response;
  }
  Telling telling{.exchange = exchange, .cancels = !session, .keep_alive = rest_.heartbeat};
  if (session) {
    telling.stream = std::to_string(session->keep(exchange));
    telling.primed = session->version == kPrimingVersion;
  }
  co_return streamOf(std::move(telling));
}

Task<Result<Response>> Server::get(Request& request) {
  const std::string_view version = request.header("mcp-protocol-version");
  if (version == kModernVersion || request.count("mcp-session-id") == 0) {
    co_return errorOf(405, nullptr, code::kInvalidRequest,
                      "there is nothing to GET without a session; POST messages")
        .with("Allow", "POST");
  }
  const LegacyPtr session =
      sessions_.find(std::string(request.header("mcp-session-id")), request.principal);
  if (!session) {
    co_return errorOf(404, nullptr, code::kInvalidRequest,
                      "Mcp-Session-Id: there is no such session (any more); send initialize");
  }
  Telling telling{.keep_alive = rest_.heartbeat};
  const std::string_view last = request.header("last-event-id");
  const auto id = parseEventId(last);
  if (id && id->first != 0) {
    telling.exchange = session->stream(id->first);
    telling.position = id->second;
    telling.stream = std::to_string(id->first);
  }
  if (!telling.exchange) {
    // A new reader replaces the former.
    session->own->end();
    session->own = telling.exchange = std::make_shared<Exchange>(executor_);
    telling.position = 0;
    telling.stream = "0";
    telling.primed = session->version == kPrimingVersion;
  }
  request.watch_peer();
  co_return streamOf(std::move(telling), std::make_shared<Reading>(session));
}

Task<Result<Response>> Server::remove(Request& request) {
  if (request.count("mcp-session-id") == 0 ||
      request.header("mcp-protocol-version") == kModernVersion) {
    co_return errorOf(405, nullptr, code::kInvalidRequest, "there is no session to end")
        .with("Allow", "POST");
  }
  const LegacyPtr session =
      sessions_.find(std::string(request.header("mcp-session-id")), request.principal);
  if (!session) {
    co_return errorOf(404, nullptr, code::kInvalidRequest,
                      "Mcp-Session-Id: there is no such session (any more)");
  }
  sessions_.end(session);
  co_return noContent();
}

}  // namespace cloister::api::mcp
