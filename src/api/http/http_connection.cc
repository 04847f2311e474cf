// SPDX-License-Identifier: Apache-2.0
#include "api/http/http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <exception>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "api/http/problem.h"
#include "api/http/router.h"
#include "base/id.h"
#include "base/log.h"

namespace cloister::api {
namespace {

namespace asio = boost::asio;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
// Many connections only wait for a head; only admitted requests have their body read.
constexpr size_t kHeadRead = 4'096;
constexpr size_t kBodyRead = 65'536;
// A smaller body is sent together with its head.
constexpr size_t kSmallBody = 65'536;
// The most that a client without any credential may send.
constexpr size_t kAnyonesBody = 65'536;
constexpr Millis kLinger{1'000};
constexpr Millis kWatchAgain{250};

size_t mostOf(const Request& request, const HttpLimits& limits) {
  if (request.stream_limit) return *request.stream_limit;
  const bool anyones = request.matched != nullptr && !request.matched->access.permission();
  return anyones ? std::min(kAnyonesBody, limits.body_bytes) : limits.body_bytes;
}

bool mayHaveBody(int status) {
  return status >= 200 && status != 204 && status != 304;
}

// RFC 9110 §5.6.7, IMF-fixdate.
std::string httpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

std::string renderHead(const Request& request, const Response& response, bool keep_alive,
                       std::string_view framing) {
  std::string head = request.http11 ? "HTTP/1.1 " : "HTTP/1.0 ";
  head += std::to_string(response.status) + " ";
  head += reasonPhrase(response.status);
  head += "\r\nDate: " + httpDate() + "\r\nX-Request-Id: " + request.id +
          "\r\nX-Content-Type-Options: nosniff\r\n";
  if (std::ranges::find(response.headers, "Cache-Control", &Header::name) ==
      response.headers.end()) {
    head += "Cache-Control: no-store\r\n";
  }
  for (const Header& header : response.headers) {
    // A line break in a value would let data of a client's choosing become headers.
    if (header.value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) continue;
    head += header.name + ": " + header.value + "\r\n";
  }
  head += framing;
  head +=
      keep_alive ? (request.http11 ? "" : "Connection: keep-alive\r\n") : "Connection: close\r\n";
  return head + "\r\n";
}

}  // namespace

// Chunks (RFC 9112 §7.1), or plain bytes if the length or the end of the connection delimits them.
class Connection::Body : public BodyWriter {
 public:
  Body(Connection& connection, bool chunked, std::optional<uint64_t> length)
      : connection_(connection), chunked_(chunked), left_(length) {}

  Task<Result<>> write(std::string_view bytes) override {
    if (bytes.empty()) co_return Result<>();
    if (left_) {
      if (bytes.size() > *left_) co_return fail(Code::kInternal, "writing a body: too long");
      *left_ -= bytes.size();
    }
    bool sent = false;
    if (chunked_) {
      char size[24];
      const int n = std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
      std::string chunk(size, static_cast<size_t>(n));
      chunk += bytes;
      chunk += "\r\n";
      sent = co_await connection_.write(chunk);
    } else {
      sent = co_await connection_.write(bytes);
    }
    if (!sent) co_return fail(Code::kUnavailable, "writing a body: the client is gone");
    co_return Result<>();
  }

  void cutShort() override { cut_ = true; }

  // True for a complete message, after which another may follow.
  Task<bool> finish() {
    if (cut_) co_return false;
    if (chunked_) co_return co_await connection_.write("0\r\n\r\n");
    co_return left_ && *left_ == 0;
  }

 private:
  Connection& connection_;
  bool chunked_;
  std::optional<uint64_t> left_;
  bool cut_ = false;
};

// The body of the present request, for a handler that reads piece by piece.
class Connection::IncomingBody : public BodyReader {
 public:
  explicit IncomingBody(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}

  Task<Result<std::string>> read() override {
    while (!connection_->broken_ && !stopped_) {
      std::string piece = connection_->parser_->takeBody();
      if (!piece.empty() || connection_->parser_->done()) co_return piece;
      connection_->broken_ = co_await connection_->receive();
    }
    co_return fail(Code::kUnavailable,
                   stopped_ ? "request body: not read" : connection_->broken_->message);
  }

  [[nodiscard]] std::optional<uint64_t> length() const override {
    return connection_->parser_->declaredBody();
  }

  void stop() override {
    if (std::exchange(stopped_, true) || connection_->parser_->done()) return;
    connection_->keep_alive_ = false;
    connection_->stopReading();
  }

 private:
  std::shared_ptr<Connection> connection_;
  bool stopped_ = false;
};

// The connection after a switch to another protocol.
class Connection::OpenTunnel : public Tunnel {
 public:
  explicit OpenTunnel(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}

  Task<Result<std::string>> read() override {
    const auto self = connection_;
    if (!self->buffer_.empty()) co_return std::exchange(self->buffer_, {});
    const auto gone = co_await self->more();
    if (gone) co_return fail(Code::kUnavailable, "reading: the client is gone");
    co_return std::exchange(self->buffer_, {});
  }

  Task<Result<>> write(std::string_view bytes) override {
    if (co_await connection_->write(bytes)) co_return Result<>();
    co_return fail(Code::kUnavailable, "writing: the client is gone");
  }

  void stop() override { connection_->stopReading(); }

 private:
  std::shared_ptr<Connection> connection_;
};

Connection::Connection(std::shared_ptr<Shared> shared, Socket socket, Origin origin,
                       std::shared_ptr<asio::ssl::context> tls)
    : shared_(std::move(shared)),
      stream_(std::move(socket)),
      timer_(stream_.get_executor()),
      watch_timer_(stream_.get_executor()),
      origin_(std::move(origin)),
      peer_(base::Address::ofPeer(stream_.next_layer().native_handle())) {
  boost::system::error_code ignored;
  stream_.next_layer().non_blocking(true, ignored);
  if (tls) stream_.secure(std::move(tls));
  ++shared_->open;
  shared_->handler->connections(shared_->open);
}

Connection::~Connection() {
  if (open_) {  // dropped with its coroutine
    unwait();
    --shared_->open;
  }
  answered();
  releaseBody();
}

Task<void> Connection::run() {
  if (stream_.secured() && !co_await shakeHands()) {
    close();
    co_return;
  }
  while (open_ && keep_alive_ && co_await readHead()) {
    auto head = parser_->head();
    if (!head) {
      co_await refuseHead(std::move(head).error());
      break;
    }
    Request request = std::move(*head);
    request.local = origin_.local;
    request.mount = origin_.mount;
    if (!request.mount.empty()) request.path.insert(request.path.begin(), request.mount);
    request.peer = peer_;
    request.secure = stream_.secured();
    request.certificate = certificate_;
    request.answer_for_credential = [this, &request] { answerFor(request); };
    keep_alive_ = request.keep_alive && !shared_->stopping;
    const base::Monotonic begin = base::monotonicNow();
    Response response = co_await answer(request);
    tenant_ = request.principal.tenant;
    const int status = response.websocket || response.tunnel ? 101 : response.status;
    const bool sent = co_await respond(request, std::move(response));
    const std::chrono::duration<double> took = base::monotonicNow() - begin;
    shared_->handler->answered(request, status, took.count());
    answered();
    releaseBody();
    if (!sent) break;
  }
  parser_ = std::make_unique<RequestParser>(shared_->limits);  // with the body goes its memory
  if (open_) co_await linger();
  close();
}

// Like a connection without a head, a connection without a handshake makes room for others.
Task<bool> Connection::shakeHands() {
  wait();
  expireIn(shared_->limits.head_time);
  const auto [error] =
      co_await stream_.tls().async_handshake(asio::ssl::stream_base::server, kTuple);
  unwait();
  timer_.cancel();
  if (!error) certificate_ = shownCertificate(stream_.tls().native_handle());
  co_return !error && open_;
}

Task<bool> Connection::readHead() {
  parser_ = std::make_unique<RequestParser>(shared_->limits);
  received_ = 0;
  waited_ = {};
  continued_ = false;
  broken_.reset();
  if (buffer_.empty()) buffer_.shrink_to_fit();
  wait();
  bool begun = !buffer_.empty();
  expireIn(begun ? shared_->limits.head_time : shared_->limits.idle);
  while (true) {
    const auto used = parser_->feed(buffer_);
    if (!used) {
      unwait();
      co_await refuseHead(used.error());
      co_return false;
    }
    buffer_.erase(0, *used);
    if (parser_->headDone()) break;
    if (!co_await fill(kHeadRead)) co_return false;
    if (!begun) expireIn(shared_->limits.head_time);
    begun = true;
  }
  unwait();
  timer_.cancel();
  co_return true;
}

Task<bool> Connection::fill(size_t size) {
  if (stopped_) co_return false;
  const size_t before = buffer_.size();
  buffer_.resize(before + size);
  const auto [error, n] =
      co_await stream_.async_read_some(asio::buffer(buffer_.data() + before, size), kTuple);
  // Without a farewell of TLS the end may be an attacker's: no end, but an error.
  ended_ = error == asio::error::eof;
  buffer_.resize(before + n);
  co_return !error && open_ && !stopped_;
}

// Reads more bytes into `buffer_`, none at the end; true on an error.
Task<bool> Connection::more() {
  if (co_await fill(kBodyRead)) co_return false;
  co_return !open_ || stopped_ || !ended_;
}

Task<Response> Connection::answer(Request& request) {
  std::optional<Response> refused = lookAtNames(request, shared_->names);
  if (!refused) refused = co_await shared_->handler->admit(request);
  if (!refused) {
    const auto small = parser_->limitBody(mostOf(request, shared_->limits));
    if (!small) refused = problem(small.error().status, small.error().message);
  }
  if (!refused && request.has_body && !request.stream_limit)
    refused = co_await readBody(request.principal.tenant);
  if (!refused) refused = co_await callHandler(request);
  // The next parser would read the rest of the body as another request.
  if (!parser_->done()) keep_alive_ = false;
  if (broken_) refused = problem(broken_->status, broken_->message);
  co_return readableTo(request, shared_->names, *std::move(refused));
}

Task<std::optional<Response>> Connection::readBody(const std::string& tenant) {
  while (holdBody(tenant)) {
    if (parser_->done()) co_return std::nullopt;
    if (auto failure = co_await receive()) co_return problem(failure->status, failure->message);
  }
  co_return problem(503, "too many request bodies are being held; retry").with("Retry-After", "1");
}

// Gives more of the body to the parser, or the reason why not. Only the client's own time counts
// against the client.
Task<std::optional<ParseFailure>> Connection::receive() {
  if (!continued_ && parser_->wantsContinue() && !co_await write("HTTP/1.1 100 Continue\r\n\r\n")) {
    co_return ParseFailure{408, "request body: the client is gone"};
  }
  continued_ = true;
  while (true) {
    const auto used = parser_->feed(buffer_);
    if (!used) co_return used.error();
    buffer_.erase(0, *used);
    received_ += *used;
    if (*used > 0 || parser_->done()) co_return std::nullopt;
    if (buffer_.size() > shared_->limits.head_bytes) {
      co_return ParseFailure{400, "request body: a chunk's header or trailer is too large"};
    }
    const base::Monotonic begin = base::monotonicNow();
    const Millis allowed =
        shared_->limits.body_grace +
        Millis(received_ * 1000 / std::max<size_t>(1, shared_->limits.body_rate));
    expireIn(std::chrono::ceil<Millis>(allowed - waited_));
    const bool more = co_await fill(kBodyRead);
    timer_.cancel();
    waited_ += base::monotonicNow() - begin;
    if (!more) co_return ParseFailure{408, "request body: did not arrive"};
  }
}

Task<Response> Connection::callHandler(Request& request) {
  if (lost_since_) co_return refuseLost(request);
  std::string what;
  if (request.stream_limit) {
    request.incoming = std::make_shared<IncomingBody>(shared_from_this());
  } else {
    request.body = parser_->takeBody();
  }
  request.body_read = [this] { releaseBody(); };
  request.watch_peer = [this] { watchPeer(); };
  request.when_closed = [this](std::function<void()> call) { when_closed_ = std::move(call); };
  try {
    co_return co_await shared_->handler->handle(request);
  } catch (const std::exception& e) {  // of a library: nothing of ours throws
    what = e.what();
  }
  co_return problem(Error{Code::kInternal, "handling a request: " + what, ""}, request);
}

Task<bool> Connection::respond(const Request& request, Response response) {
  refuseIfLost(request, response);
  shared_->handler->finish(request, response);
  if (response.websocket) {
    co_await upgrade(request, response);
    co_return false;
  }
  if (response.tunnel) {
    co_await tunnel(request, response);
    co_return false;
  }
  if (response.stream) {
    const bool chunked = !response.stream_length && request.http11;
    if (!response.stream_length && !chunked) keep_alive_ = false;
    const std::string framing =
        chunked ? "Transfer-Encoding: chunked\r\n"
        : response.stream_length
            ? "Content-Length: " + std::to_string(*response.stream_length) + "\r\n"
            : std::string();
    co_return co_await sendStream(request, response,
                                  renderHead(request, response, keep_alive_, framing));
  }
  if (!mayHoldAnswer(response.body.size())) {
    response = problem(503, "too many large answers wait for their readers; read those, and retry");
    shared_->handler->finish(request, response);
  }
  const bool body = mayHaveBody(response.status);
  std::string bytes = renderHead(
      request, response, keep_alive_,
      body ? "Content-Length: " + std::to_string(response.body.size()) + "\r\n" : std::string());
  if (!body || request.method == "HEAD") co_return co_await write(bytes);
  if (response.body.size() <= kSmallBody) co_return co_await write(bytes + response.body);
  co_return co_await write(bytes) && co_await write(response.body);
}

Task<bool> Connection::sendStream(const Request& request, Response& response, std::string head) {
  if (!co_await write(head)) co_return false;
  if (request.method == "HEAD") co_return true;
  watchPeer();
  Body body(*this, !response.stream_length && request.http11, response.stream_length);
  std::string what;
  try {
    co_await response.stream(body);
    co_return co_await body.finish();
  } catch (const std::exception& e) {
    what = e.what();
  }
  base::log(base::Level::kError, "stream failed", {{"request", request.id}, {"error", what}});
  co_return false;
}

Task<void> Connection::upgrade(const Request& request, Response& response) {
  if (!buffer_.empty()) co_return;  // frames before the handshake's end: not a client to talk to
  timer_.cancel();
  // The socket counts as this connection's until the conversation is over.
  Stream stream = std::exchange(stream_, Stream(Socket(stream_.get_executor())));
  std::string what;
  try {
    co_await serveWebSocket(std::move(stream), request, shared_->limits, response,
                            end_conversation_);
  } catch (const std::exception& e) {
    what = e.what();
  }
  if (!what.empty()) {
    base::log(base::Level::kWarn, "websocket failed", {{"request", request.id}, {"error", what}});
  }
}

Task<void> Connection::tunnel(const Request& request, Response& response) {
  timer_.cancel();
  OpenTunnel open(shared_from_this());
  std::string what;
  try {
    if (!co_await write(renderHead(request, response, true, ""))) co_return;
    co_await response.tunnel(open);
  } catch (const std::exception& e) {
    what = e.what();
  }
  if (!what.empty()) {
    base::log(base::Level::kWarn, "tunnel failed", {{"request", request.id}, {"error", what}});
  }
}

Task<bool> Connection::write(std::string_view bytes) {
  if (!mayHoldAnswer(bytes.size())) co_return false;
  const auto held = holdAnswer(bytes.size());
  while (!bytes.empty() && open_) {
    expireIn(shared_->limits.write_stall);
    const auto [error, n] =
        co_await stream_.async_write_some(asio::buffer(bytes.data(), bytes.size()), kTuple);
    if (error) co_return false;
    bytes.remove_prefix(n);
  }
  timer_.cancel();
  co_return open_;
}

Task<void> Connection::refuseHead(ParseFailure failure) {
  constexpr int kHeadTooLarge = 431;
  constexpr int kUnauthorized = 401;
  constexpr int kTooMany = 429;
  Request request;
  request.id = base::newId("req");
  keep_alive_ = false;
  Response response = problem(failure.status, failure.message);
  auto unknown =
      failure.status == kHeadTooLarge ? parser_->withUnknownCredential(buffer_) : std::nullopt;
  if (unknown) {  // the size must not make the credential look unlike other wrong credentials
    unknown->peer = peer_;
    unknown->local = origin_.local;
    auto refused = co_await shared_->handler->admit(*unknown);
    if (refused && (refused->status == kUnauthorized || refused->status == kTooMany)) {
      response = *std::move(refused);
      request = *std::move(unknown);
    }
  }
  const int status = response.status;
  co_await respond(request, std::move(response));
  shared_->handler->answered(request, status, 0);
}

// Closing with unread bytes makes TCP reset the connection, and the client may never see the
// answer: shut down the sending side, then read for a moment.
Task<void> Connection::linger() {
  expireIn(kLinger);
  if (stream_.secured()) co_await stream_.tls().async_shutdown(kTuple);
  boost::system::error_code ignored;
  Socket& socket = stream_.next_layer();
  socket.shutdown(Socket::shutdown_send, ignored);
  buffer_.resize(kBodyRead);
  while (open_) {
    const auto [error, n] = co_await socket.async_read_some(asio::buffer(buffer_), kTuple);
    if (error) break;
  }
}

void Connection::wait() {
  unwait();
  waiting_ = shared_->waiting.insert(shared_->waiting.end(), this);
}

void Connection::unwait() {
  if (waiting_) shared_->waiting.erase(*waiting_);
  waiting_.reset();
}

void Connection::expireIn(Millis time) {
  timer_.expires_after(time);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    // A deadline moved just as the timer fired is not over.
    if (error || !self || self->timer_.expiry() > base::monotonicNow()) return;
    self->close();
  });
}

void Connection::stopReading() {
  stopped_ = true;
  boost::system::error_code ignored;
  stream_.next_layer().cancel(ignored);
}

void Connection::watchPeer() {
  if (watching_ || !open_) return;
  watching_ = true;
  Socket& socket = stream_.next_layer();
  socket.async_wait(Socket::wait_read, [weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (!self || !self->open_ || error) return;
    self->watching_ = false;
    const int fd = self->stream_.next_layer().native_handle();
    char byte = 0;
    const ssize_t n = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return self->close();
    if (n > 0) self->watchAgain();
  });
}

// Unread bytes, the next request or TLS's close_notify, hide the connection's end.
void Connection::watchAgain() {
  watch_timer_.expires_after(kWatchAgain);
  watch_timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (!self || !self->open_ || error) return;
    pollfd polled{self->stream_.next_layer().native_handle(), POLLRDHUP, 0};
    if (::poll(&polled, 1, 0) > 0) return self->close();
    self->watchAgain();
  });
}

void Connection::close() {
  if (!open_) return;
  open_ = false;
  unwait();
  leaveAnswering();
  --shared_->open;
  shared_->handler->connections(shared_->open);
  boost::system::error_code ignored;
  timer_.cancel();
  watch_timer_.cancel();
  stream_.next_layer().close(ignored);
  if (const auto call = std::exchange(when_closed_, nullptr)) call();
}

}  // namespace cloister::api
