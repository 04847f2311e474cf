// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/h2_streams.h"

#include <algorithm>
#include <utility>

#include "async/spawn.h"

namespace cloister::egress {
namespace {

constexpr uint16_t kHttpsPort = 443;
constexpr size_t kFrameHead = 9;
constexpr int kForbidden = 403;
constexpr int kMisdirected = 421;
constexpr int kTooMany = 429;
constexpr int kTooLargeHead = 431;
constexpr int kBadGateway = 502;

size_t sizeOf(const h2::Fields& fields) {
  size_t size = kFrameHead;
  for (const auto& [name, value] : fields)
    size += name.size() + value.size();
  return size;
}

// Acknowledges bytes that left the buffer. A cleaned body has another length, so an empty buffer
// acknowledges all bytes.
void acknowledge(size_t& owed, size_t sent, size_t left, h2::Session& source, int32_t stream) {
  const size_t now = left == 0 ? owed : std::min(owed, sent);
  owed -= now;
  source.consumed(stream, now);
}

RequestParts partsOf(h2::Message& message) {
  RequestParts parts{.method = std::move(message.method),
                     .scheme = std::move(message.scheme),
                     .authority = std::move(message.authority),
                     .path = std::move(message.path),
                     .fields = {}};
  for (auto& [name, value] : message.fields)
    parts.fields.push_back({std::move(name), std::move(value)});
  return parts;
}

// The request for the origin, from the judged values.
h2::Message forOrigin(const RequestHead& head, const Standing& standing) {
  h2::Message message;
  message.method = head.method;
  message.scheme = "https";
  message.authority = standing.host;
  if (standing.port != kHttpsPort) message.authority += ":" + std::to_string(standing.port);
  message.path = head.origin;
  for (const HeadField& field : head.fields) {
    const bool dropped = field.name == "host" || (field.name == "te" && field.value != "trailers");
    if (!dropped) message.fields.emplace_back(field.name, field.value);
  }
  return message;
}

}  // namespace

H2Streams::H2Streams(std::shared_ptr<Connection> connection, std::function<void()> stir)
    : connection_(std::move(connection)), stir_(std::move(stir)) {}

Result<std::shared_ptr<H2Streams>> H2Streams::make(std::shared_ptr<Connection> connection,
                                                   std::function<void()> stir) {
  std::shared_ptr<H2Streams> made(new H2Streams(std::move(connection), std::move(stir)));
  made->inside_ = TRY(h2::Session::make(h2::Role::kServer, made->inside_events_, {}));
  made->outside_ = TRY(h2::Session::make(h2::Role::kClient, made->outside_events_, {}));
  return made;
}

H2Streams::ExchangePtr H2Streams::find(const Map& map, int32_t stream) {
  const auto found = map.find(stream);
  return found == map.end() ? nullptr : found->second;
}

// --- events

void H2Streams::Inside::head(int32_t stream, h2::Message message, bool trailers, bool end) {
  if (!trailers) return streams_.begin(stream, std::move(message), end);
  const auto exchange = find(streams_.by_inside_, stream);
  if (!exchange || exchange->refused) return;
  if (message.too_large) return streams_.cut(*exchange, NGHTTP2_ENHANCE_YOUR_CALM);
  exchange->request_trailers = std::move(message.fields);
  exchange->request_ended = true;
  if (exchange->decided) streams_.endRequest(*exchange);
}

void H2Streams::Inside::data(int32_t stream, std::string_view bytes) {
  const auto exchange = find(streams_.by_inside_, stream);
  if (!exchange || exchange->refused || exchange->outside_closed) {
    return streams_.inside_->consumed(stream, bytes.size());
  }
  if (!streams_.connection_->moved(exchange->standing, 0, bytes.size() + kFrameHead)) return;
  exchange->owed_out += bytes.size();
  if (exchange->decided) {
    streams_.passOut(*exchange, bytes);
  } else {
    exchange->held += bytes;
  }
}

void H2Streams::Inside::end(int32_t stream) {
  const auto exchange = find(streams_.by_inside_, stream);
  if (!exchange) return;
  exchange->request_ended = true;
  if (exchange->decided) streams_.endRequest(*exchange);
}

void H2Streams::Inside::closed(int32_t stream, uint32_t error) {
  const auto exchange = find(streams_.by_inside_, stream);
  if (!exchange) return;
  streams_.by_inside_.erase(stream);
  exchange->inside_closed = true;
  streams_.inside_->consumed(stream, std::exchange(exchange->owed_out, 0));
  wipe(exchange->head);
  if (exchange->outside != 0 && !exchange->outside_closed) {
    streams_.outside_->reset(exchange->outside, error == NGHTTP2_NO_ERROR ? NGHTTP2_CANCEL : error);
  }
}

void H2Streams::Inside::sent(int32_t stream, size_t bytes, size_t left) {
  const auto exchange = find(streams_.by_inside_, stream);
  if (!exchange || exchange->outside == 0) return;
  exchange->buffered_in = left;
  acknowledge(exchange->owed_in, bytes, left, *streams_.outside_, exchange->outside);
}

void H2Streams::Outside::head(int32_t stream, h2::Message message, bool trailers, bool end) {
  const auto exchange = find(streams_.by_outside_, stream);
  if (!exchange || exchange->inside_closed || exchange->refused) return;
  if (message.too_large) {
    return streams_.unreadableAnswer(*exchange, "The head of the answer is too large.");
  }
  const size_t size = sizeOf(message.fields);
  if (!streams_.connection_->moved(exchange->standing, size, 0)) return;
  if (trailers) return streams_.endAnswer(*exchange, std::move(message.fields));
  streams_.passHead(*exchange, std::move(message), end);
}

void H2Streams::Outside::data(int32_t stream, std::string_view bytes) {
  const auto exchange = find(streams_.by_outside_, stream);
  if (!exchange || exchange->inside_closed || exchange->refused) {
    return streams_.outside_->consumed(stream, bytes.size());
  }
  if (!streams_.connection_->moved(exchange->standing, bytes.size() + kFrameHead, 0)) return;
  exchange->owed_in += bytes.size();
  streams_.passIn(*exchange, bytes);
}

void H2Streams::Outside::end(int32_t stream) {
  const auto exchange = find(streams_.by_outside_, stream);
  if (exchange && !exchange->inside_closed && !exchange->refused) {
    streams_.endAnswer(*exchange, {});
  }
}

void H2Streams::Outside::closed(int32_t stream, uint32_t error) {
  const auto exchange = find(streams_.by_outside_, stream);
  if (!exchange) return;
  streams_.by_outside_.erase(stream);
  exchange->outside_closed = true;
  streams_.outside_->consumed(stream, std::exchange(exchange->owed_in, 0));
  if (exchange->inside_closed) return;
  streams_.inside_->consumed(exchange->inside, std::exchange(exchange->owed_out, 0));
  if (exchange->refused) return;
  if (exchange->answer_ended) return streams_.inside_->leave(exchange->inside);
  streams_.inside_->reset(exchange->inside,
                          error == NGHTTP2_NO_ERROR ? NGHTTP2_INTERNAL_ERROR : error);
}

void H2Streams::Outside::sent(int32_t stream, size_t bytes, size_t left) {
  const auto exchange = find(streams_.by_outside_, stream);
  if (!exchange) return;
  exchange->buffered_out = left;
  acknowledge(exchange->owed_out, bytes, left, *streams_.inside_, exchange->inside);
}

void H2Streams::Outside::goingAway() {
  streams_.inside_->goAway();
}

// --- requests

void H2Streams::begin(int32_t stream, h2::Message message, bool end) {
  const auto exchange = std::make_shared<Exchange>();
  exchange->inside = stream;
  exchange->request_ended = end;
  exchange->standing = {
      .host = connection_->name(), .port = connection_->port(), .protocol = model::Protocol::kTls};
  by_inside_[stream] = exchange;
  if (!connection_->moved(exchange->standing, 0, sizeOf(message.fields))) return;
  auto head =
      message.too_large
          ? Result<RequestHead>(fail(Code::kTooLarge, "The head of the request is too large."))
          : readRequest(partsOf(message));
  if (!head) {
    const int status = message.too_large ? kTooLargeHead : statusOf(head.error());
    const Ruling ruling = connection_->refuse(exchange->standing, head.error().message,
                                              "Send an ordinary HTTP/2 request.");
    return refuse(*exchange, status, ruling);
  }
  if (const std::string fault = misfit(*head); !fault.empty()) {
    const Ruling ruling = connection_->refuse(exchange->standing, fault,
                                              "Send the request to the host that it names.");
    return refuse(*exchange, kMisdirected, ruling);
  }
  exchange->standing.method = head->method;
  exchange->standing.field_methods = head->field_methods;
  exchange->standing.field_paths = head->field_paths;
  exchange->standing.path = head->form == TargetForm::kAsterisk ? "*" : head->path;
  exchange->head = *std::move(head);
  async::spawn(connection_->inside().get_executor(), decide(shared_from_this(), exchange));
}

// The reason why the request is for another host than the connection; "" for none.
std::string H2Streams::misfit(const RequestHead& head) const {
  if (head.scheme != "https") return "The scheme of the request is not https.";
  const uint16_t port = head.port.value_or(kHttpsPort);
  if (head.host == connection_->name() && port == connection_->port()) return "";
  return "The request names " + head.host + ":" + std::to_string(port) +
         ", but the connection is to " + connection_->name() + ":" +
         std::to_string(connection_->port()) + ".";
}

Task<void> H2Streams::decide(std::shared_ptr<H2Streams> self, ExchangePtr exchange) {
  Ruling ruling;
  if (!self->connection_->takeRequest(exchange->standing, ruling)) {
    co_return self->refuse(*exchange, kTooMany, ruling);
  }
  ruling = co_await self->connection_->admitBeside(exchange->standing);
  const bool late = exchange->inside_closed || exchange->decided;
  if (self->ended_ || self->connection_->over() || late) co_return;
  if (ruling.allowed) {
    self->sendRequest(*exchange, exchange);
  } else {
    self->refuse(*exchange, kForbidden, ruling);
  }
  self->stir_();
}

void H2Streams::sendRequest(Exchange& exchange, const ExchangePtr& self) {
  const Standing& to = exchange.standing;
  if (connection_->limits().dlp) {
    exchange.rules.emplace(connection_->limits().dlp);
    exchange.rules->head(exchange.head);
    for (auto& [name, value] : exchange.request_trailers)
      exchange.rules->value(value);
    // What has come already is searched before anything leaves.
    exchange.searched = exchange.request_ended;
    exchange.held = exchange.rules->body(exchange.held, exchange.searched);
    if (refusedByRules(exchange)) return;
  }
  exchange.broker = connection_->broker();
  if (exchange.broker) {
    if (const auto fault = exchange.broker->apply(exchange.head, to.host, to.port)) {
      return misplaced(exchange, *fault);
    }
    exchange.cleans = exchange.broker->binds(to.host, to.port);
    if (exchange.broker->placeholders()) exchange.watched.emplace(exchange.broker->placeholders());
  }
  h2::Message message = forOrigin(exchange.head, to);
  const bool whole =
      exchange.request_ended && exchange.held.empty() && exchange.request_trailers.empty();
  exchange.outside = origin_lost_ ? 0 : outside_->request(message, whole);
  for (auto& [name, value] : message.fields)
    wipe(value);
  wipe(exchange.head);
  exchange.decided = true;
  if (exchange.outside == 0) {
    exchange.outside_closed = true;
    return inside_->reset(exchange.inside, NGHTTP2_REFUSED_STREAM);
  }
  by_outside_[exchange.outside] = self;
  if (whole) return;
  if (!exchange.held.empty()) sendBody(exchange, std::exchange(exchange.held, {}));
  if (exchange.request_ended) endRequest(exchange);
}

void H2Streams::passOut(Exchange& exchange, std::string_view bytes) {
  if (!exchange.rules) return sendBody(exchange, bytes);
  const std::string passing = exchange.rules->body(bytes, false);
  if (!refusedByRules(exchange)) sendBody(exchange, passing);
}

void H2Streams::sendBody(Exchange& exchange, std::string_view bytes) {
  if (bytes.empty()) return;
  if (exchange.watched) {
    std::ignore = exchange.watched->feed(bytes);
    if (exchange.watched->hits() > 0) {
      return misplaced(exchange,
                       Broker::misplacedIn("the body of a request", exchange.watched->firstName()));
    }
  }
  exchange.buffered_out += bytes.size();
  outside_->send(exchange.outside, bytes);
}

void H2Streams::endRequest(Exchange& exchange) {
  if (exchange.refused || exchange.outside_closed || exchange.outside == 0) return;
  if (exchange.rules && !std::exchange(exchange.searched, true)) {
    for (auto& [name, value] : exchange.request_trailers)
      exchange.rules->value(value);
    const std::string rest = exchange.rules->body("", true);
    if (refusedByRules(exchange)) return;
    sendBody(exchange, rest);
    if (exchange.refused) return;
  }
  if (exchange.watched) {
    std::ignore = exchange.watched->finish();
    if (exchange.watched->hits() > 0) {
      return misplaced(exchange,
                       Broker::misplacedIn("the body of a request", exchange.watched->firstName()));
    }
  }
  if (exchange.broker) {
    for (const auto& [name, value] : exchange.request_trailers) {
      auto fault = exchange.broker->misplaced(name + ": " + value, "the trailers of a request");
      if (fault) return misplaced(exchange, *fault);
    }
  }
  outside_->finish(exchange.outside, std::move(exchange.request_trailers));
}

// Records what the operator's rules found. True: a rule refuses the request.
bool H2Streams::refusedByRules(Exchange& exchange) {
  connection_->note(exchange.standing, *exchange.rules);
  const redact::Rule* rule = exchange.rules->refusing();
  if (rule == nullptr) return false;
  stopRequest(exchange, kForbidden, connection_->refuse(exchange.standing, *rule));
  return true;
}

void H2Streams::misplaced(Exchange& exchange, const Broker::Fault& fault) {
  stopRequest(
      exchange, fault.status,
      connection_->refuse(exchange.standing,
                          {.reason = fault.reason, .remedy = fault.remedy, .rule = fault.rule}));
}

// Refuses a request, perhaps after its head was sent.
void H2Streams::stopRequest(Exchange& exchange, int status, const Ruling& ruling) {
  if (exchange.answered) return cut(exchange, NGHTTP2_CANCEL);
  if (exchange.outside != 0) outside_->reset(exchange.outside, NGHTTP2_CANCEL);
  refuse(exchange, status, ruling);
}

void H2Streams::refuse(Exchange& exchange, int status, const Ruling& ruling) {
  answer(exchange, {.status = status,
                    .detail = ruling.reason,
                    .ruling = &ruling,
                    .host = exchange.standing.host,
                    .port = exchange.standing.port});
}

// Answers in place of the origin. The rest of the request is dropped.
void H2Streams::answer(Exchange& exchange, const OwnAnswer& own) {
  exchange.decided = exchange.refused = exchange.answered = true;
  exchange.held = {};
  inside_->consumed(exchange.inside, std::exchange(exchange.owed_out, 0));
  const bool to_head = exchange.standing.method == "HEAD";
  const std::string body = ownBody(own);
  h2::Message message;
  message.status = own.status;
  message.fields = ownFields(own);
  message.fields.emplace_back("content-length", std::to_string(body.size()));
  inside_->respond(exchange.inside, message, to_head);
  if (!to_head) {
    inside_->send(exchange.inside, body);
    inside_->finish(exchange.inside);
  }
  inside_->leave(exchange.inside);
}

// Ends the request and its answer at once.
void H2Streams::cut(Exchange& exchange, uint32_t error) {
  exchange.refused = true;
  if (!exchange.inside_closed) inside_->reset(exchange.inside, error);
  if (exchange.outside != 0 && !exchange.outside_closed) {
    outside_->reset(exchange.outside, NGHTTP2_CANCEL);
  }
}

void H2Streams::judgeAgain() {
  const Map open = by_inside_;
  for (const auto& [stream, exchange] : open) {
    if (!exchange->decided || exchange->refused) continue;
    if (!connection_->stillAllowed(exchange->standing)) cut(*exchange, NGHTTP2_CANCEL);
  }
}

void H2Streams::loseOrigin() {
  origin_lost_ = true;
  const Map open = by_inside_;
  for (const auto& [stream, exchange] : open) {
    if (exchange->refused || exchange->answer_ended) continue;
    exchange->outside_closed = true;
    if (exchange->answered) {
      inside_->reset(stream, NGHTTP2_INTERNAL_ERROR);
      continue;
    }
    answer(*exchange, {.status = kBadGateway,
                       .detail = "Reaching " + exchange->standing.host +
                                 ": it closed the connection before it answered."});
  }
  inside_->goAway();
}

// --- answers

void H2Streams::passHead(Exchange& exchange, h2::Message message, bool end) {
  constexpr int kSwitching = 101;
  if (message.status == kSwitching) return cut(exchange, NGHTTP2_PROTOCOL_ERROR);
  const bool interim = message.status < 200;
  if (exchange.cleans) {
    const std::string why = unreadable(message.status, message.fields);
    if (!why.empty()) {
      return unreadableAnswer(exchange, "The host gets a secret, and it " + why + ".");
    }
    if (!interim) exchange.clean.emplace(exchange.broker->values(), message.fields);
    redactFields(message.fields, *exchange.broker->values());
    // A cleaned body may have another length.
    if (!end)
      std::erase_if(message.fields, [](const auto& f) { return f.first == "content-length"; });
  }
  if (interim) return inside_->interim(exchange.inside, message);
  exchange.answered = true;
  exchange.answer_ended = end;
  inside_->respond(exchange.inside, message, end);
}

void H2Streams::passIn(Exchange& exchange, std::string_view bytes) {
  std::string clean;
  if (exchange.clean) {
    auto fed = exchange.clean->feed(bytes);
    if (!fed) return unreadableAnswer(exchange, fed.error().message);
    clean = *std::move(fed);
    bytes = clean;
  }
  exchange.buffered_in += bytes.size();
  inside_->send(exchange.inside, bytes);
  // Bytes held back must not stop the origin.
  if (exchange.buffered_in == 0) {
    acknowledge(exchange.owed_in, 0, 0, *outside_, exchange.outside);
  }
}

void H2Streams::endAnswer(Exchange& exchange, h2::Fields trailers) {
  if (exchange.answer_ended) return;
  if (exchange.clean) {
    const auto rest = exchange.clean->finish();
    if (!rest) return unreadableAnswer(exchange, rest.error().message);
    exchange.buffered_in += rest->size();
    inside_->send(exchange.inside, *rest);
    redactFields(trailers, *exchange.broker->values());
  }
  exchange.answer_ended = true;
  inside_->finish(exchange.inside, std::move(trailers));
}

// The answer may have a secret that the matcher cannot find, or in an unchangeable message.
void H2Streams::unreadableAnswer(Exchange& exchange, const std::string& reason) {
  const Ruling ruling = connection_->refuse(
      exchange.standing, {.reason = reason,
                          .remedy = "Ask for an answer that does not repeat the request, and is "
                                    "not compressed.",
                          .rule = kSecretRule});
  if (exchange.answered) return cut(exchange, NGHTTP2_CANCEL);
  outside_->reset(exchange.outside, NGHTTP2_CANCEL);
  refuse(exchange, kBadGateway, ruling);
}

}  // namespace cloister::egress
