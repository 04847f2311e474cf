// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/http_relay.h"

#include <tuple>
#include <utility>

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "egress/broker/answers.h"
#include "egress/broker/websocket.h"
#include "egress/relay/http_heads.h"
#include "egress/relay/tunnel.h"
#include "model/network.h"

namespace cloister::egress {
namespace {

constexpr size_t kMostArrived = size_t{64} << 10;  // and so the largest head of an answer
constexpr int kMostInterim = 16;                   // answers of 1xx before the final one
constexpr int kSwitching = 101;

std::string placeOf(const Standing& standing) {
  return standing.host + ":" + std::to_string(standing.port);
}

// Overwrites the fields, which may have the value of a secret.
class Wiped {
 public:
  explicit Wiped(RequestHead& head) : head_(head) {}
  Wiped(const Wiped&) = delete;
  Wiped& operator=(const Wiped&) = delete;
  ~Wiped() { wipe(head_); }

 private:
  RequestHead& head_;
};

}  // namespace

Task<void> HttpRelay::run(std::optional<Result<RequestHead>> first) {
  if (connection_.outside().is_open()) {
    origin_ = connection_.name() + ":" + std::to_string(connection_.port());
  }
  for (;;) {
    Result<RequestHead> head = first ? *std::exchange(first, {}) : co_await incoming_.head();
    if (!head && head.error().code == Code::kUnavailable) co_return;
    if (!head) {
      connection_.refuse(unjudged(), head.error().message, "Send an ordinary HTTP/1.1 request.");
      co_return co_await answer(statusOf(head.error()), head.error().message);
    }
    if (!co_await serve(*std::move(head))) co_return;
  }
}

uint16_t HttpRelay::usualPort() const {
  constexpr uint16_t kHttp = 80;
  constexpr uint16_t kHttps = 443;
  return kind_ == Kind::kInspected ? kHttps : kHttp;
}

// A request as far as it is known before it was read.
Standing HttpRelay::unjudged() const {
  return {.host = connection_.name(),
          .port = connection_.port(),
          .protocol = kind_ == Kind::kInspected ? model::Protocol::kTls : model::Protocol::kHttp};
}

// The attempt that a request is. nullopt: it cannot be judged; `fault` is a sentence.
std::optional<Standing> HttpRelay::standingOf(const RequestHead& head, std::string& fault) const {
  Standing standing = unjudged();
  standing.method = head.method;
  standing.field_methods = head.field_methods;
  standing.field_paths = head.field_paths;
  standing.path = head.form == TargetForm::kAsterisk ? "*" : head.path;
  const std::string given = head.host + ":" + std::to_string(head.port.value_or(usualPort()));
  const bool https = head.scheme == "https";
  const bool absolute = head.form == TargetForm::kAbsolute;
  if (head.form == TargetForm::kAuthority) {
    fault = kind_ == Kind::kProxy
                ? "CONNECT has to be the first request of a connection."
                : "CONNECT is only understood by the proxy, proxy.cloister.internal:3128.";
  } else if (kind_ != Kind::kInspected && https) {
    fault = "A target with https is not for a proxy: use CONNECT.";
  } else if (kind_ == Kind::kInspected && absolute && !https) {
    fault = "A target with http has no place within TLS.";
  } else if (kind_ != Kind::kProxy && given != placeOf(standing)) {
    fault = "Host names " + given + ", but the connection is to " + placeOf(standing) + ".";
  } else if (kind_ == Kind::kProxy && !absolute) {
    fault = "This is a proxy: it understands CONNECT, and targets like http://name/path.";
  }
  if (!fault.empty()) return std::nullopt;
  if (kind_ != Kind::kProxy) return standing;
  const auto name = model::hostName(head.host);
  if (!name || *name != head.host) {
    fault = "The target's host is no name in its usual spelling: addresses are never reached.";
    return std::nullopt;
  }
  standing.host = *name;
  standing.port = head.port.value_or(usualPort());
  return standing;
}

// One request. False: the connection ends.
Task<bool> HttpRelay::serve(RequestHead head) {
  std::string fault;
  const auto standing = standingOf(head, fault);
  if (!standing) {
    constexpr int kMisdirected = 421;
    const Ruling ruling =
        connection_.refuse(unjudged(), fault, "Send the request to the host that it names.");
    co_return co_await refuse(head, kMisdirected, ruling);
  }
  constexpr int kTooMany = 429;
  constexpr int kForbidden = 403;
  Ruling ruling;
  if (!connection_.takeRequest(*standing, ruling))
    co_return co_await refuse(head, kTooMany, ruling);
  ruling = co_await connection_.admit(*standing);
  if (connection_.over()) co_return false;
  if (!ruling.allowed) co_return co_await refuse(head, kForbidden, ruling);
  const Wiped wiped(head);
  if (const auto end = co_await applyRules(head, *standing)) co_return *end;
  if (const auto end = co_await applySecrets(head, *standing)) co_return *end;
  if (const auto end = co_await reachOrigin(head, *standing, ruling)) co_return *end;
  switch (co_await exchange(head)) {
    case Answered::kKeep:
      co_return arrived_.empty();  // bytes that nobody asked for are no answer to the next request
    case Answered::kTunnel:
      co_await tunnelSwitched();
      co_return false;
    case Answered::kBroken:
      connection_.reset();
      co_return false;
    case Answered::kClose:
      if (!incoming_.bodyDone()) co_await incoming_.linger();
      co_return false;
    case Answered::kNone:
      co_return false;
  }
  co_return false;
}

// Answers a refused request. A request without a body leaves the connection usable.
Task<bool> HttpRelay::refuse(const RequestHead& head, int status, const Ruling& ruling) {
  const bool keep = head.keep_alive && incoming_.bodyDone();
  const OwnAnswer own{.status = status,
                      .detail = ruling.reason,
                      .ruling = &ruling,
                      .host = head.host,
                      .port = head.port.value_or(usualPort())};
  const std::string text = ownAnswer(own, keep, head.method == "HEAD");
  if (co_await connection_.write(connection_.inside(), text)) co_return false;
  if (!keep) co_await incoming_.linger();
  co_return keep;
}

Task<void> HttpRelay::answer(int status, std::string detail) {
  const std::string text = ownAnswer({.status = status, .detail = std::move(detail)}, false, false);
  if (co_await connection_.write(connection_.inside(), text)) co_return;
  co_await incoming_.linger();
}

// The operator's rules look at what the program wrote, before a secret is put in. With a value: the
// request was refused; whether the connection continues.
Task<std::optional<bool>> HttpRelay::applyRules(RequestHead& head, const Standing& standing) {
  constexpr int kForbidden = 403;
  rules_.reset();
  if (!connection_.limits().dlp) co_return std::nullopt;
  rules_.emplace(connection_.limits().dlp);
  rules_->head(head);
  connection_.note(standing, *rules_);
  if (const redact::Rule* rule = rules_->refusing()) {
    co_return co_await refuse(head, kForbidden, connection_.refuse(standing, *rule));
  }
  co_return std::nullopt;
}

// Puts the secrets into the request. With a value: the request was refused; whether the connection
// continues.
Task<std::optional<bool>> HttpRelay::applySecrets(RequestHead& head, const Standing& standing) {
  standing_ = standing;
  cleans_ = false;
  watched_.reset();
  stopped_.reset();
  broker_ = connection_.broker();
  if (!broker_) co_return std::nullopt;
  if (const auto fault = broker_->apply(head, standing.host, standing.port)) {
    const Ruling ruling = connection_.refuse(
        standing, {.reason = fault->reason, .remedy = fault->remedy, .rule = fault->rule});
    co_return co_await refuse(head, fault->status, ruling);
  }
  cleans_ = broker_->binds(standing.host, standing.port);
  if (broker_->placeholders()) watched_.emplace(broker_->placeholders());
  co_return std::nullopt;
}

// Connects to the origin, unless the connection of the last request leads there. With a value: the
// request was answered; whether the connection continues.
Task<std::optional<bool>> HttpRelay::reachOrigin(const RequestHead& head, const Standing& standing,
                                                 const Ruling& ruling) {
  if (connection_.outside().is_open() && origin_ == placeOf(standing)) co_return std::nullopt;
  if (kind_ == Kind::kInspected) co_return false;  // its TLS ended with its connection
  const auto dialled = co_await connection_.dial(standing, ruling);
  if (connection_.over()) co_return false;
  if (dialled) {
    origin_ = placeOf(standing);
    used_ = at_end_ = false;
    arrived_.clear();
    co_return std::nullopt;
  }
  Ruling why = ruling;
  why.reason = dialled.error().message;
  if (dialled.error().code != Code::kDenied) why.remedy = "Try again later.";
  co_return co_await refuse(head, statusOf(dialled.error()), why);
}

Task<HttpRelay::Answered> HttpRelay::exchange(const RequestHead& head) {
  using boost::asio::experimental::awaitable_operators::operator&&;
  started_ = finished_ = false;
  std::string text = headForOrigin(head, standing_.host, standing_.port, usualPort());
  if (!connection_.moved(0, text.size())) co_return Answered::kBroken;
  // An origin that takes no request may have answered already.
  std::ignore = co_await connection_.write(connection_.outside(), text);
  if (broker_) wipe(text);
  if (incoming_.bodyDone()) co_return co_await passAnswer(head);
  co_return co_await (sendBody(head) && passAnswer(head));
}

// Streams the body to the origin, until its end or the end of the answer.
Task<void> HttpRelay::sendBody(const RequestHead& head) {
  while (!finished_) {
    const auto piece = co_await incoming_.piece();
    if (finished_ || connection_.over()) co_return;
    if (!piece) co_return connection_.reset();  // the origin must not see a whole request
    const bool last = piece->empty();
    if (watched_) std::ignore = last ? watched_->finish() : watched_->feed(*piece);
    if (watched_ && watched_->hits() > 0) co_return misplaced(watched_->firstName());
    std::string bytes = *piece;
    if (rules_) {
      bytes = rules_->body(bytes, last);
      connection_.note(standing_, *rules_);
      if (const redact::Rule* rule = rules_->refusing())
        co_return stopBody(connection_.refuse(standing_, *rule));
    }
    if (head.chunked) bytes = (bytes.empty() ? "" : asChunk(bytes)) + (last ? asChunk("") : "");
    if (!connection_.moved(0, bytes.size())) co_return;
    if (!bytes.empty() && co_await connection_.write(connection_.outside(), bytes)) co_return;
    if (last) co_return;
  }
}

// The body has a placeholder.
void HttpRelay::misplaced(const std::string& name) {
  const auto fault = Broker::misplacedIn("the body of a request", name);
  stopBody(connection_.refuse(
      standing_, {.reason = fault.reason, .remedy = fault.remedy, .rule = fault.rule}));
}

// The origin gets no whole request, and passAnswer() sees an end.
void HttpRelay::stopBody(Ruling ruling) {
  stopped_ = std::move(ruling);
  Connection::Error ignored;
  connection_.outside().shutdown(Connection::Socket::shutdown_both, ignored);
}

// More bytes of the origin. False: it ended, or the connection is over.
Task<bool> HttpRelay::more() {
  if (at_end_ || arrived_.size() >= kMostArrived) co_return false;
  const auto [error, count] =
      co_await connection_.read(connection_.outside(), arrived_, kMostArrived - arrived_.size());
  at_end_ = error || count == 0;
  co_return !at_end_ && connection_.moved(count, 0);
}

Task<HttpRelay::Answered> HttpRelay::passAnswer(const RequestHead& head) {
  Answered answered = Answered::kBroken;
  bool interim = true;
  for (int i = 0; interim && i <= kMostInterim; ++i) {
    net::AnswerParser parser(head.method == "HEAD");
    answered = co_await passHead(head, parser);
    interim = answered == Answered::kKeep && parser.head().status < 200;
  }
  if (interim) answered = Answered::kBroken;
  finished_ = true;
  if (incoming_.bodyDone() || answered == Answered::kBroken) co_return answered;
  // The origin answered before the whole body: end sendBody(), which waits for the rest.
  Connection::Error ignored;
  connection_.inside().cancel(ignored);
  connection_.outside().cancel(ignored);
  co_return answered == Answered::kKeep ? Answered::kClose : answered;
}

// Passes one head, and the body behind a final one.
Task<HttpRelay::Answered> HttpRelay::passHead(const RequestHead& head, net::AnswerParser& parser) {
  std::string none;
  while (!parser.headDone()) {
    const auto used = parser.feed(arrived_, none);
    if (!used) co_return co_await broken(used.error().message);
    arrived_.erase(0, *used);
    if (*used > 0 || co_await more()) continue;
    if (connection_.over()) co_return Answered::kBroken;
    if (used_ && arrived_.empty() && !started_) co_return Answered::kNone;
    co_return co_await broken(at_end_ ? "it closed the connection before it answered"
                                      : "the head of its answer is too large");
  }
  const int status = parser.head().status;
  used_ = used_ || status >= 200;
  const bool switched = status == kSwitching;
  if (switched && !head.websocket) co_return co_await broken("it switched to another protocol");
  if (status < 200 && !switched && !head.http11) co_return Answered::kKeep;
  if (cleans_) {
    std::string why = unreadable(status, parser.head().fields);
    if (!why.empty()) co_return co_await unreadableAnswer(std::move(why));
    redactFields(parser.head().fields, *broker_->values());
    parser.head().reason = broker_->values()->redacted(parser.head().reason);
  }
  const bool bodyless = parser.done() || status < 200;
  // A cleaned body may have another length.
  const auto length = status < 200 || (cleans_ && !bodyless) ? std::nullopt : parser.length();
  const bool keep = head.keep_alive && incoming_.bodyDone() && parser.keepAlive() &&
                    (head.http11 || length || bodyless);
  const bool chunked = !bodyless && !length && head.http11;
  started_ = status >= 200 || switched;
  const std::string text =
      headForSandbox(parser.head(), chunked ? Framing::kChunked : Framing::kLength, length, keep);
  if (co_await connection_.write(connection_.inside(), text)) co_return Answered::kBroken;
  if (switched) co_return Answered::kTunnel;
  if (bodyless) co_return keep || status < 200 ? Answered::kKeep : Answered::kClose;
  co_return co_await passBody(parser, chunked, keep);
}

// The bytes of a body for the sandbox.
Result<std::string> HttpRelay::cleaned(std::optional<CleanBody>& clean, std::string body,
                                       bool last) {
  if (!clean) return body;
  std::string out = TRY(clean->feed(body));
  if (last) out += TRY(clean->finish());
  return out;
}

Task<HttpRelay::Answered> HttpRelay::passBody(net::AnswerParser& parser, bool chunked, bool keep) {
  std::optional<CleanBody> clean;
  if (cleans_) clean.emplace(broker_->values(), parser.head().fields);
  for (bool last = false; !last;) {
    std::string body;
    const auto used = parser.feed(arrived_, body);
    if (!used) co_return Answered::kBroken;
    arrived_.erase(0, *used);
    if (arrived_.empty()) arrived_ = {};
    last = parser.done();
    if (!last && *used == 0 && !co_await more()) {
      if (connection_.over() || !at_end_ || !parser.end()) co_return Answered::kBroken;
      last = true;
    }
    auto bytes = cleaned(clean, std::move(body), last);
    if (!bytes) co_return Answered::kBroken;
    if (chunked && !bytes->empty()) *bytes = asChunk(*bytes);
    if (chunked && last) *bytes += asChunk("");
    if (!bytes->empty() && co_await connection_.write(connection_.inside(), *bytes)) {
      co_return Answered::kBroken;
    }
  }
  co_return keep && !at_end_ ? Answered::kKeep : Answered::kClose;
}

// The origin's answer is unusable. The sandbox learns why, unless it has a part of the answer.
Task<HttpRelay::Answered> HttpRelay::broken(std::string cause) {
  constexpr int kBadGateway = 502;
  constexpr int kForbidden = 403;
  if (started_ || connection_.over()) co_return Answered::kBroken;
  started_ = true;
  OwnAnswer own{.status = kBadGateway, .detail = "Reaching " + origin_ + ": " + cause + "."};
  if (stopped_) {
    own = {.status = kForbidden,
           .detail = stopped_->reason,
           .ruling = &*stopped_,
           .host = standing_.host,
           .port = standing_.port};
  }
  const std::string text = ownAnswer(own, false, false);
  if (co_await connection_.write(connection_.inside(), text)) co_return Answered::kBroken;
  co_return Answered::kClose;
}

// The answer may have a secret that the matcher cannot find.
Task<HttpRelay::Answered> HttpRelay::unreadableAnswer(std::string cause) {
  connection_.refuse(standing_, {.reason = "The host gets a secret, and it " + cause + ".",
                                 .remedy = "Ask for content that is not compressed.",
                                 .rule = kSecretRule});
  co_return co_await broken("it " + std::move(cause));
}

// A WebSocket. Frames are read if a secret or a placeholder may be in them.
Task<void> HttpRelay::tunnelSwitched() {
  Filters filters{
      .rule = kSecretRule, .early = std::exchange(arrived_, {}), .late = incoming_.takeRest()};
  const bool watches = broker_ && broker_->placeholders();
  const bool plain = !cleans_ && !watches && !connection_.hasTls(connection_.inside());
  if (cleans_) {
    filters.in = [frames = std::make_shared<CleanFrames>(broker_->values())](
                     std::string_view bytes) { return frames->feed(bytes); };
  }
  if (watches) {
    filters.rule = kPlaceholderRule;
    filters.out = [frames = std::make_shared<WatchedFrames>(broker_->placeholders())](
                      std::string_view bytes) -> Result<std::string> {
      const std::string name = TRY(frames->feed(bytes));
      if (name.empty()) return std::string(bytes);
      return fail(Code::kDenied, Broker::misplacedIn("a WebSocket", name).reason);
    };
  }
  if (!plain) co_return co_await tunnel(connection_, standing_, std::move(filters));
  if (co_await connection_.write(connection_.inside(), filters.early)) co_return;
  if (!connection_.moved(0, filters.late.size())) co_return;
  if (co_await connection_.write(connection_.outside(), filters.late)) co_return;
  filters = {};
  co_await tunnel(connection_);
}

}  // namespace cloister::egress
