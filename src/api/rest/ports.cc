// SPDX-License-Identifier: Apache-2.0
// /v1/sessions/{id}/ports, and hosts below ports.domain: servers inside a session, by HTTP/1.1,
// WebSocket and plain TCP. Each request has a connection of its own to the server
// (Sessions::connect); neither body is held whole.
#include "api/rest/ports.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <tuple>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "api/http/port_headers.h"
#include "api/http/problem.h"
#include "api/http/response_parser.h"
#include "api/rest/requests.h"
#include "base/clock.h"
#include "base/log.h"

namespace cloister::api {
namespace {

namespace json = base::json;
using orchestrator::FileCall;
using orchestrator::PortLinks;
using CallPtr = std::shared_ptr<FileCall>;

constexpr int kMostInterim = 16;  // answers of the kind 1xx before the final answer
constexpr int64_t kLinkSeconds = 3600;
constexpr int64_t kMaxLinkSeconds = 7 * 86'400;
constexpr std::string_view kTcp = "cloister-tcp";

Response badGateway(const Request& request, const Error& error) {
  base::log(base::Level::kInfo, "port answered badly",
            {{"request", request.id}, {"error", error.message}});
  return problem(502, error.message);
}

// A connection for the holder of the key or the link.
Task<Result<CallPtr>> connect(RestParts& parts, Request& request, const PortTarget& target) {
  model::Principal principal = request.principal;
  const std::string& id = request.params[0];
  if (!target.token.empty() && principal.tenant.empty()) {
    auto owner = parts.sessions.ownerOf(id);
    const auto link =
        CO_TRY(parts.port_links.verify(owner ? owner->tenant : "", id, target.port, target.token));
    answerForLink(request, link.made_with, link.expires_at);
    principal = CO_TRY(std::move(owner));
  }
  const CallPtr call =
      CO_TRY(co_await parts.sessions.connect(std::move(principal), id, target.port));
  const auto opened = co_await call->next();
  if (opened && *opened && std::holds_alternative<wire::files::EndOfEntries>(**opened)) {
    co_return call;
  }
  Error error = opened ? Error{Code::kInternal, "the sandbox said nothing", ""} : opened.error();
  error.field = error.code == Code::kNotFound ? "url.port" : "";
  co_return std::unexpected(
      std::move(error).within("connecting to port " + std::to_string(target.port)));
}

// A request to the server inside, from its head to the end of the answer.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(boost::asio::any_io_executor executor, CallPtr call, bool to_head)
      : executor_(std::move(executor)),
        call_(std::move(call)),
        to_head_(to_head),
        parser_(to_head),
        deadline_(executor_),
        pumped_(executor_, boost::asio::steady_timer::time_point::max()) {}

  // Sends the request's body beside the answer.
  void beginBody(std::shared_ptr<BodyReader> body) {
    chunked_ = !body->length();
    body_ = std::move(body);
    pumping_ = true;
    boost::asio::co_spawn(executor_, pump(shared_from_this()), boost::asio::detached);
  }

  // The head of the final answer; interim answers are skipped, except 101.
  Task<Result<ResponseHead>> head(Millis within) {
    const auto self = shared_from_this();
    within_ = within;
    expectAnswer();
    for (int interim = 0; interim < kMostInterim; ++interim) {
      while (!parser_.headDone())
        CO_TRY(co_await feed());
      ResponseHead head = CO_TRY(parser_.head());
      if (head.status >= 200 || head.status == 101) {
        within_.reset();
        deadline_.cancel();
        co_return head;
      }
      parser_ = ResponseParser(to_head_);
    }
    co_return fail(Code::kInternal, "the server's answer: too many interim ones");
  }
  [[nodiscard]] bool late() const { return late_; }

  Task<void> relay(BodyWriter& out) {
    const auto self = shared_from_this();
    while (true) {
      const std::string piece = parser_.takeBody();
      if (!piece.empty() && !co_await out.write(piece)) break;
      if (!piece.empty()) continue;
      if (parser_.done() || ended_) break;
      if (const auto fed = co_await feed(); !fed) {
        base::log(base::Level::kInfo, "port's answer cut short", {{"error", fed.error().message}});
        out.cutShort();
        break;
      }
    }
    co_await finish();
  }

  // The connection is the two sides' own from here on.
  Task<void> tunnel(Tunnel& client) {
    const auto self = shared_from_this();
    pumping_ = true;
    boost::asio::co_spawn(executor_, up(self, client), boost::asio::detached);
    while (true) {
      auto piece = buffer_.empty() ? co_await call_->read() : std::exchange(buffer_, {});
      if (!piece || piece->empty() || !co_await client.write(*piece)) break;
    }
    call_->abandon();
    client.stop();
    co_await joined();
  }

  // Ends both directions; nothing is under way afterwards.
  Task<void> finish() {
    const auto self = shared_from_this();
    within_.reset();
    deadline_.cancel();
    call_->abandon();
    if (body_) body_->stop();
    co_await joined();
  }
  void abandon() { call_->abandon(); }

 private:
  // Restarts the wait after each piece of the body taken by the server.
  void expectAnswer() {
    if (!within_) return;
    deadline_.expires_after(*within_);
    deadline_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
      const auto exchange = weak.lock();
      if (error || !exchange || exchange->deadline_.expiry() > base::monotonicNow()) return;
      exchange->late_ = true;
      exchange->call_->abandon();
    });
  }

  Task<void> joined() {
    while (pumping_)
      co_await pumped_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }

  // More of the answer into the parser.
  Task<Result<>> feed() {
    while (true) {
      const size_t used = CO_TRY(parser_.feed(buffer_));
      buffer_.erase(0, used);
      if (used > 0 || parser_.done()) co_return Result<>{};
      const std::string more = CO_TRY(co_await call_->read());
      if (more.empty()) {
        ended_ = true;
        co_return parser_.end();
      }
      buffer_ += more;
      if (buffer_.size() > 2 * ResponseParser::kHeadBytes) {
        co_return fail(Code::kInternal, "the server's answer: a part of it is too large");
      }
    }
  }

  static Task<void> pump(std::shared_ptr<Exchange> self) {
    bool whole = false;
    while (!whole) {
      auto piece = co_await self->body_->read();
      // An incomplete body from the client must not look complete inside.
      if (!piece) self->call_->abandon();
      if (!piece) break;
      whole = piece->empty();
      if (self->chunked_) piece = chunk(*piece);
      if (piece->empty() || !co_await self->call_->send(*std::move(piece))) break;
      self->expectAnswer();
    }
    self->pumping_ = false;
    self->pumped_.cancel();
  }

  static Task<void> up(std::shared_ptr<Exchange> self, Tunnel& client) {
    while (true) {
      auto piece = co_await client.read();
      if (!piece) self->call_->abandon();
      if (!piece) break;
      const bool last = piece->empty();
      if (!co_await self->call_->send(*std::move(piece)) || last) break;
    }
    self->pumping_ = false;
    self->pumped_.cancel();
  }

  static std::string chunk(const std::string& bytes) {
    if (bytes.empty()) return "0\r\n\r\n";
    char size[24];
    const int n = std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
    return std::string(size, static_cast<size_t>(n)) + bytes + "\r\n";
  }

  boost::asio::any_io_executor executor_;
  CallPtr call_;
  bool to_head_;
  ResponseParser parser_;
  std::string buffer_;  // of the answer, not yet taken by the parser
  std::shared_ptr<BodyReader> body_;
  bool chunked_ = false;
  bool pumping_ = false;
  boost::asio::steady_timer deadline_;
  std::optional<Millis> within_;  // while an answer is waited for
  bool late_ = false;
  bool ended_ = false;
  boost::asio::steady_timer pumped_;  // cancelled when `pumping_` ends
};
using ExchangePtr = std::shared_ptr<Exchange>;

Response answerOf(const Request& request, const PortTarget& target, const ResponseHead& head,
                  const ExchangePtr& exchange) {
  Response response;
  response.status = head.status;
  response.headers = headersForClient(head, target);
  const bool no_body = head.status == 204 || head.status == 304;
  if (no_body) return response;
  response.stream_length = head.length;
  if (request.method == "HEAD") {
    response.stream = [](BodyWriter&) -> Task<void> { co_return; };
  } else {
    response.stream = [exchange](BodyWriter& out) { return exchange->relay(out); };
  }
  return response;
}

Response switched(const ExchangePtr& exchange, std::vector<Header> headers,
                  const std::string& upgrade) {
  Response response;
  response.status = 101;
  response.headers = std::move(headers);
  response.with("Connection", "Upgrade").with("Upgrade", upgrade);
  response.tunnel = [exchange](Tunnel& client) { return exchange->tunnel(client); };
  return response;
}

std::string_view schemeOf(const Request& request) {
  return request.origin.starts_with("https://") ? "https" : "http";
}

// Answers a CORS preflight from a link's page.
Response preflight(const Request& request) {
  Response response;
  response.status = 204;
  response.with("Access-Control-Allow-Origin", "*")
      .with("Access-Control-Allow-Methods",
            std::string(request.header("access-control-request-method")))
      .with("Access-Control-Allow-Headers",
            std::string(request.header("access-control-request-headers")))
      .with("Access-Control-Max-Age", "600");
  return response;
}

}  // namespace

Task<Result<Response>> passToPort(RestParts& parts, Request& request, PortTarget target) {
  if (!target.own_origin && !target.token.empty() && request.method == "OPTIONS" &&
      request.count("access-control-request-method") > 0) {
    co_return preflight(request);
  }
  const std::string upgrade = wantedUpgrade(request) == "websocket" ? "websocket" : "";
  const CallPtr call = CO_TRY(co_await connect(parts, request, target));
  const auto exchange = std::make_shared<Exchange>(co_await boost::asio::this_coro::executor, call,
                                                   request.method == "HEAD");
  request.when_closed([weak = std::weak_ptr(exchange)] {
    if (const auto live = weak.lock()) live->abandon();
  });
  std::ignore = co_await call->send(headForInside(request, target, upgrade));
  if (request.has_body) {
    exchange->beginBody(request.incoming);
  } else {
    request.watch_peer();
  }
  const auto head = co_await exchange->head(parts.answer_within);
  if (!head || (head->status == 101 && upgrade.empty())) {
    co_await exchange->finish();
    if (exchange->late()) {
      co_return problem(504, "the server did not answer in time (session.answer_seconds)");
    }
    if (!head && head.error().code == Code::kConflict) co_return std::unexpected(head.error());
    if (!head) co_return badGateway(request, head.error());
    co_return problem(502, "the server's answer: it switches to a protocol nobody asked for");
  }
  if (head->status == 101) {
    co_return switched(exchange, headersForClient(*head, target), upgrade);
  }
  Response response = answerOf(request, target, *head, exchange);
  if (!response.stream || request.method == "HEAD") co_await exchange->finish();
  co_return response;
}

namespace {

Task<Result<Response>> pass(RestParts& parts, Request& request) {
  co_return co_await passToPort(parts, request, CO_TRY(portTarget(request)));
}

constexpr char kNeedsLink[] =
    "this port needs a link: `cloister port open SESSION PORT` prints one, and so does POST "
    "/v1/sessions/{id}/ports/{port}/tokens";

// The cookie of a host: the link's token, for this host alone, which scripts cannot read.
std::string cookieOf(const Request& request, const std::string& token, int64_t expires_at) {
  const int64_t left = std::max<int64_t>(0, expires_at - base::wallMicros() / kMicrosPerSecond);
  return std::string(kPortCookie) + "=" + token +
         "; Path=/; HttpOnly; SameSite=Lax; Max-Age=" + std::to_string(left) +
         (schemeOf(request) == "https" ? "; Secure" : "");
}

// The valid token of the request's cookies, put into the target; kUnauthorized without one.
Result<> takeCookie(const RestParts& parts, const Request& request, const std::string& tenant,
                    PortTarget& target) {
  Error why{Code::kUnauthorized, kNeedsLink, ""};
  for (const std::string& token : portCookies(request)) {
    const auto link = parts.port_links.verify(tenant, request.params[0], target.port, token);
    if (!link) why.message = link.error().message;
    if (!link) continue;
    target.token = token;
    if (!isFromElsewhere(request)) return {};
    return fail(Code::kDenied,
                "Origin: a page of another host asks; a link's cookie is for its own host");
  }
  return std::unexpected(why);
}

// A request to a port named by Host. The first request of a link has the token in its query, later
// requests have it in a cookie. Pages opened by a person lose the token from their address.
Task<Result<Response>> passHost(RestParts& parts, Request& request) {
  PortTarget target = CO_TRY(hostTarget(request));
  if (!request.principal.tenant.empty()) {
    target.token.clear();
    co_return co_await passToPort(parts, request, std::move(target));
  }
  const model::Principal owner = CO_TRY(parts.sessions.ownerOf(request.params[0]));
  if (request.count(kTrafficToken) > 0) {
    auto link = parts.port_links.verify(owner.tenant, trafficOf(request.params[0]),
                                        PortLinks::kWholeSession, request.header(kTrafficToken));
    if (!link) co_return fail(Code::kUnauthorized, link.error().message);
    answerForLink(request, link->made_with, link->expires_at);
    request.principal = owner;
    target.token = request.header(kTrafficToken);  // removed from what goes inside
    co_return co_await passToPort(parts, request, std::move(target));
  }
  if (target.token.empty()) {
    CO_TRY(takeCookie(parts, request, owner.tenant, target));
    co_return co_await passToPort(parts, request, std::move(target));
  }
  auto link = parts.port_links.verify(owner.tenant, request.params[0], target.port, target.token);
  if (!link) co_return fail(Code::kUnauthorized, link.error().message);
  const std::string cookie = cookieOf(request, target.token, link->expires_at);
  if (opensPage(request)) {
    Response response;
    response.status = 303;
    // Not "//name", which would lead to another host.
    const std::string path = (target.inside.starts_with("//") ? "/." : "") + target.inside;
    co_return response.with("Location", path)
        .with("Set-Cookie", cookie)
        .with("Referrer-Policy", "no-referrer");
  }
  Response response = CO_TRY(co_await passToPort(parts, request, std::move(target)));
  co_return response.with("Set-Cookie", cookie);
}

// Serves the port itself: a connection, or the way to its pages.
Task<Result<Response>> open(RestParts& parts, Request& request) {
  const PortTarget target = CO_TRY(portTarget(request));
  if (wantedUpgrade(request) == kTcp) {
    const CallPtr call = CO_TRY(co_await connect(parts, request, target));
    co_return switched(
        std::make_shared<Exchange>(co_await boost::asio::this_coro::executor, call, false), {},
        std::string(kTcp));
  }
  if (target.token.empty()) CO_TRY(parts.sessions.get(request.principal, request.params[0]));
  Response response;
  response.status = 308;
  co_return response.with("Location", target.prefix + target.inside);
}

std::string hostUrl(const RestParts& parts, const Request& request, const std::string& session,
                    uint16_t port, const std::string& token) {
  return std::string(schemeOf(request)) + "://" +
         hostNameOf(session, port, parts.ports_domain, request.header("host")) + "/?" +
         std::string(kPortTokenQuery) + "=" + token;
}

Task<Result<Response>> makeToken(RestParts& parts, Request& request) {
  const PortTarget target = CO_TRY(portTarget(request));
  const json::object body =
      request.has_body ? CO_TRY(parseObject(request.body, parts.bounds)) : json::object();
  base::ObjectReader reader(body, "");
  const auto seconds = CO_TRY(reader.integer("expires_seconds", 1, kMaxLinkSeconds));
  CO_TRY(reader.finish());
  const model::Session session =
      CO_TRY(parts.sessions.mayConnect(request.principal, request.params[0], "making a link"));
  const int64_t expires_at = linkEnd(request.credential, seconds.value_or(kLinkSeconds));
  const std::string token = CO_TRY(parts.port_links.sign(
      session.principal.tenant, session.id, target.port, expires_at, request.credential.id));
  const std::string path =
      "/v1/sessions/" + session.id + "/ports/" + std::to_string(target.port) + "~" + token + "/";
  co_return jsonResponse(
      201, json::object{{"token", token},
                        {"url", parts.ports_domain.empty()
                                    ? path
                                    : hostUrl(parts, request, session.id, target.port, token)},
                        {"path", path},
                        {"port", target.port},
                        {"expires_at", base::formatTime(expires_at * kMicrosPerSecond)}});
}

}  // namespace

std::vector<Route> portRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {
      {.method = "POST",
       .pattern = "/v1/sessions/{id}/ports/{port}/tokens",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(makeToken),
       .json_body = true},
      {.method = "GET",
       .pattern = "/v1/sessions/{id}/ports/{port}",
       .access = needs(Permission::kSessionUse, Access::Or::kPort),
       .query = {},
       .handle = with(open),
       .passes_on = true},
      {.method = "*",
       .pattern = "/v1/sessions/{id}/ports/{port}/{rest}",
       .access = needs(Permission::kSessionUse, Access::Or::kPort),
       .query = {},
       .handle = with(pass),
       .stream_body = UINT64_MAX,
       .passes_on = true},
  };
}

Route hostPortRoute(RestParts& parts) {
  return {.method = "*",
          .pattern = "{port}-{id}.{domain}",
          .access = needs(Permission::kSessionUse, Access::Or::kHostPort),
          .query = {},
          .handle = [&parts](Request& request) { return passHost(parts, request); },
          .stream_body = UINT64_MAX,
          .passes_on = true};
}

}  // namespace cloister::api
