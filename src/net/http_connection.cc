// SPDX-License-Identifier: Apache-2.0
#include "net/http_connection.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/beast/core/error.hpp>

#include "base/hop_fields.h"

namespace cloister::net {
namespace {

namespace asio = boost::asio;
using base::monotonicNow;

// Room for the largest head, and for one read of a body.
constexpr size_t kBuffer = HttpConnection::kMaxHead;
constexpr int kMaxInterim = 100;  // answers of 1xx before the final one

bool isTimeout(const ClientStream::Error& error) {
  return error == boost::beast::error::timeout;
}

bool isGone(const ClientStream::Error& error) {
  return error == asio::error::broken_pipe || error == asio::error::connection_reset;
}

std::string reaching(const Url& url) {
  return "reaching " + (url.socket.empty() ? url.host : url.socket);
}

// True if `bytes` may be the beginning of an answer 100 Continue.
bool isContinue(std::string_view bytes) {
  constexpr std::string_view kContinue = "HTTP/1.1 100";
  return !bytes.empty() && (bytes.starts_with(kContinue) || kContinue.starts_with(bytes));
}

}  // namespace

BodySource sourceOf(std::function<Result<std::string>()> next) {
  return [next = std::move(next)]() -> asio::awaitable<Result<std::string>> { co_return next(); };
}

HttpConnection::HttpConnection(ClientStream stream, std::string host, std::string doing)
    : stream_(std::move(stream)), host_(std::move(host)), doing_(std::move(doing)) {}

std::unexpected<Error> HttpConnection::broken(std::string_view what) {
  close();
  return fail(Code::kUnavailable, doing_ + ": " + std::string(what));
}

void HttpConnection::close() {
  stream_.close();
  closed_ = true;  // a read that waits may still use the parser
  begin_ = end_ = 0;
  at_end_ = cut_ = true;
}

bool HttpConnection::reusable() const {
  return !closed_ && parser_ && parser_->done() && parser_->keepAlive() && begin_ == end_ &&
         !at_end_;
}

std::string HttpConnection::headOf(const HttpRequest& request) const {
  std::string head(request.method);
  head.append(" ").append(request.target).append(" HTTP/1.1\r\nHost: ").append(host_);
  head.append("\r\nAccept: ").append(request.accept);
  for (const auto& [name, value] : request.headers)
    head.append("\r\n").append(name).append(": ").append(value);
  if (request.source) {
    head.append("\r\nContent-Type: application/octet-stream\r\nExpect: 100-continue\r\n");
    head.append(request.length ? "Content-Length: " + std::to_string(*request.length)
                               : "Transfer-Encoding: chunked");
  } else if (request.method == "POST" || request.method == "PUT") {
    head.append("\r\nContent-Type: ").append(request.type).append("\r\nContent-Length: ");
    head.append(std::to_string(request.body.size()));
  }
  return head.append("\r\n\r\n");
}

asio::awaitable<Result<>> HttpConnection::send(std::string_view bytes, Monotonic deadline) {
  stream_.expiresAt(deadline);
  const auto error = co_await stream_.write(asio::buffer(bytes));
  if (!error) co_return Result<>{};
  if (isTimeout(error)) co_return broken("it does not take the request");
  // A peer that takes no more bytes may have refused, and its answer is more useful than our error.
  if (isGone(error) || stream_.secured()) co_return Result<>{};
  co_return broken(causeOf(error));
}

// Whether the peer has answered already, other than with 100 Continue.
asio::awaitable<Result<bool>> HttpConnection::refused(Monotonic until) {
  for (;;) {
    if (end_ - begin_ == kBuffer) co_return true;  // readHead() says that the head is too large
    if (!CO_TRY(co_await fill(until))) co_return false;
    if (!isContinue(unread())) co_return at_end_ || begin_ != end_;
    const size_t end = unread().find("\r\n\r\n");
    if (end != std::string_view::npos) {
      begin_ += end + 4;
      co_return at_end_ || begin_ != end_;
    }
    if (at_end_) co_return true;
  }
}

asio::awaitable<Result<>> HttpConnection::sendSource(const HttpRequest& request) {
  constexpr Millis kForContinue{1'000};  // some peers never send 100 Continue
  bool stop = CO_TRY(co_await refused(monotonicNow() + kForContinue));
  while (!stop) {
    std::string piece = CO_TRY(co_await request.source());
    const bool end = piece.empty();
    if (!request.length) {
      char size[24];
      std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
      piece = size + piece + "\r\n";
    }
    CO_TRY(co_await send(piece, monotonicNow() + request.patience));
    if (end) co_return Result<>{};
    stop = CO_TRY(co_await refused(monotonicNow()));
  }
  co_return Result<>{};
}

// More bytes, or the end. False: the deadline passed.
asio::awaitable<Result<bool>> HttpConnection::fill(Monotonic deadline) {
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(kBuffer);
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  stream_.expiresAt(deadline);
  const auto [error, n] = co_await stream_.read(asio::buffer(buffer_.get() + end_, kBuffer - end_));
  if (isTimeout(error)) co_return false;
  if (error && error != asio::error::eof && error != asio::error::connection_reset) {
    co_return broken(causeOf(error));
  }
  at_end_ = static_cast<bool>(error);
  cut_ = error == asio::error::connection_reset;
  end_ += n;
  answered_ = answered_ || n > 0;
  co_return true;
}

asio::awaitable<Result<HttpHead>> HttpConnection::readHead(const HttpRequest& request,
                                                           Monotonic deadline) {
  std::string none;
  bool filled = false;
  for (int interim = 0; interim <= kMaxInterim; ++interim) {
    parser_.emplace(request.method == "HEAD");
    while (!parser_->headDone()) {
      auto used = parser_->feed(unread(), none);
      if (!used) co_return broken(used.error().message);
      begin_ += *used;
      if (*used > 0) continue;
      if (end_ - begin_ == kBuffer) co_return broken("its answer has too large a head");
      if (at_end_) co_return broken(begin_ == end_ ? "it closed the connection" : "it broke off");
      // A peer with bytes at all times never makes fill() wait.
      const bool late = std::exchange(filled, true) && monotonicNow() >= deadline;
      if (late || !CO_TRY(co_await fill(deadline))) co_return broken("it does not answer in time");
    }
    const int status = parser_->head().status;
    if (status >= 200) co_return std::move(parser_->head());
    if (status == 101 && request.headers.contains("Upgrade")) co_return std::move(parser_->head());
    if (status == 101) co_return broken("it switched to another protocol");
  }
  co_return broken("it does not answer");
}

asio::awaitable<Result<HttpHead>> HttpConnection::open(const HttpRequest& request,
                                                       Monotonic deadline) {
  parser_.reset();
  answered_ = false;
  // A line break in a value would make another request of the rest.
  for (const auto& [name, value] : request.headers) {
    if (base::isOneLine(name) && base::isOneLine(value)) continue;
    co_return fail(Code::kInvalid, doing_ + ": a header must be one line", "");
  }
  std::string bytes = headOf(request);
  constexpr size_t kOnePacket = 65'536;
  const bool together = request.body.size() <= kOnePacket;
  if (together) bytes.append(request.body);
  CO_TRY(co_await send(bytes, deadline));
  if (!together) CO_TRY(co_await send(request.body, deadline));
  if (request.source) {
    CO_TRY(co_await sendSource(request));
    deadline = monotonicNow() + request.patience;
  }
  co_return co_await readHead(request, deadline);
}

asio::awaitable<Result<HttpConnection::Piece>> HttpConnection::read(std::string& out,
                                                                    Monotonic deadline) {
  const size_t before = out.size();
  for (bool filled = false;;) {
    if (closed_ || !parser_ || parser_->done()) co_return Piece::kEnd;
    auto used = parser_->feed(unread(), out);
    if (!used) co_return broken(used.error().message);
    begin_ += *used;
    if (out.size() > before) co_return Piece::kData;
    if (*used > 0) continue;
    if (end_ - begin_ == kBuffer)
      co_return broken("reading the server's answer: a malformed chunk");
    if (at_end_ && (cut_ || !parser_->end())) co_return broken("it broke off");
    if (at_end_) co_return Piece::kEnd;
    const bool late = std::exchange(filled, true) && monotonicNow() >= deadline;
    if (late || !CO_TRY(co_await fill(deadline))) co_return Piece::kTimeout;
  }
}

asio::awaitable<Result<std::string>> HttpConnection::rest(size_t max_bytes, Monotonic deadline) {
  std::string body;
  if (parser_ && !parser_->done() && parser_->length().value_or(0) > max_bytes) {
    co_return broken("its answer is too large");
  }
  for (;;) {
    switch (CO_TRY(co_await read(body, deadline))) {
      case Piece::kEnd:
        co_return body;
      case Piece::kTimeout:
        co_return broken("it does not finish its answer in time");
      case Piece::kData:
        if (body.size() > max_bytes) co_return broken("its answer is too large");
        if (monotonicNow() >= deadline) co_return broken("it does not finish its answer in time");
    }
  }
}

asio::awaitable<Result<HttpResponse>> HttpConnection::exchange(const HttpRequest& request,
                                                               size_t max_bytes,
                                                               Monotonic deadline) {
  HttpResponse response{CO_TRY(co_await open(request, deadline)), {}};
  response.body = CO_TRY(co_await rest(max_bytes, deadline));
  co_return response;
}

ClientStream HttpConnection::detach(std::string& rest) && {
  rest = unread();
  begin_ = end_ = 0;
  stream_.expiresNever();
  return std::move(stream_);
}

std::unexpected<Error> unreached(const Url& url, std::string_view what) {
  return fail(Code::kUnavailable, reaching(url) + ": " + std::string(what));
}

asio::awaitable<Result<HttpConnection>> connect(const Url& url, asio::ssl::context& tls,
                                                base::Monotonic deadline) {
  ClientStream stream(co_await asio::this_coro::executor);
  stream.expiresAt(deadline);
  const auto error = co_await (url.socket.empty() ? stream.connect(url.host, url.port)
                                                  : stream.connect(url.socket));
  if (error) co_return unreached(url, error.message());
  if (url.socket.empty() && url.tls) {
    const auto tls_error = co_await stream.secure(tls, url.host);
    if (tls_error) co_return unreached(url, stream.tlsFault(tls_error));
  }
  co_return HttpConnection(std::move(stream), url.authority(), reaching(url));
}

}  // namespace cloister::net
