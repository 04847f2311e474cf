// SPDX-License-Identifier: Apache-2.0
#include "cli/http_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include <netdb.h>

#include "cli/http_head.h"

namespace cloister::cli {
namespace {

using base::Monotonic;
using base::monotonicNow;

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> resolve(const Url& url) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(url.port);
  int error = ::getaddrinfo(url.host.c_str(), port.c_str(), &hints, &list);
  if (error == EAI_NONAME) {
    hints.ai_flags = AI_NUMERICSERV;
    error = ::getaddrinfo(url.host.c_str(), port.c_str(), &hints, &list);
  }
  if (error != 0) {
    return fail(Code::kUnavailable, "resolving " + url.host + ": " + ::gai_strerror(error));
  }
  return Addresses(list);
}

std::string headOf(const HttpRequest& request, const Url& url, const std::string& key) {
  std::string head;
  head.append(request.method).append(" ").append(url.prefix).append(request.target);
  head.append(" HTTP/1.1\r\nHost: ").append(url.authority());
  head.append("\r\nAccept: ").append(request.accept);
  if (!key.empty()) head.append("\r\nAuthorization: Bearer ").append(key);
  for (const auto& [name, value] : request.headers)
    head.append("\r\n").append(name).append(": ").append(value);
  if (request.source) {
    head.append("\r\nContent-Type: application/octet-stream\r\nExpect: 100-continue\r\n");
    head.append(request.length ? "Content-Length: " + std::to_string(*request.length)
                               : "Transfer-Encoding: chunked");
  } else if (request.method == "POST" || request.method == "PUT") {
    head.append("\r\nContent-Type: application/json\r\nContent-Length: ");
    head.append(std::to_string(request.body.size()));
  }
  return head.append("\r\n\r\n");
}

}  // namespace

std::string Url::authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string Url::origin() const {
  return (tls ? "https://" : "http://") + authority() + prefix;
}

Result<Url> parseUrl(std::string_view text) {
  const std::string shown(text);
  const auto bad = [&](std::string_view why) {
    return fail(Code::kInvalid, "reading the URL \"" + shown + "\": " + std::string(why));
  };
  constexpr uint16_t kHttpsPort = 443;
  const bool https = text.starts_with("https://");
  if (!https && !text.starts_with("http://")) return bad("it must start with http:// or https://");
  text.remove_prefix(text.find("//") + 2);
  const auto unsafe = [](char c) {
    return c <= ' ' || c >= 0x7f || c == '@' || c == '?' || c == '#';
  };
  if (std::ranges::any_of(text, unsafe))
    return bad("only a host, a port and a path are understood");
  Url url;
  if (https) url.port = kHttpsPort;
  if (https) url.tls = Trust::fromEnvironment();
  const size_t slash = std::min(text.find('/'), text.size());
  url.prefix = text.substr(slash);
  while (url.prefix.ends_with('/'))
    url.prefix.pop_back();
  std::string_view authority = text.substr(0, slash);
  const size_t bracket = authority.starts_with('[') ? authority.find(']') : std::string_view::npos;
  const size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  url.host = authority.substr(0, colon);
  if (bracket != std::string_view::npos) {
    if (url.host.size() != bracket + 1) return bad("a malformed address");
    url.host = url.host.substr(1, bracket - 1);
  }
  if (url.host.empty()) return bad("it has no host");
  if (colon == std::string_view::npos) return url;
  const std::string_view port = authority.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
  if (error != std::errc() || end != port.data() + port.size() || url.port == 0) {
    return bad("the port must be from 1 to 65535");
  }
  return url;
}

std::string percentEncode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    const auto byte = static_cast<uint8_t>(c);
    if (plain) {
      out += c;
    } else {
      out.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return out;
}

HttpClient::HttpClient(Url url, std::string key, int interrupt)
    : url_(std::move(url)), key_(std::move(key)), interrupt_(interrupt) {}

void HttpClient::close() {
  tls_.reset();
  socket_.reset();
  buffer_.clear();
  at_end_ = false;
  keep_ = false;
  framing_ = Framing::kNone;
}

std::unexpected<Error> HttpClient::broken(std::string_view what) {
  close();
  return fail(Code::kUnavailable, "talking to " + url_.authority() + ": " + std::string(what));
}

Result<> HttpClient::waitFor(short events, Monotonic deadline, bool& ready) {
  for (;;) {
    const auto left = std::chrono::ceil<Millis>(deadline - monotonicNow()).count();
    pollfd polled[2] = {{socket_.get(), events, 0}, {interrupt_, POLLIN, 0}};
    const int n = ::poll(polled, 2, static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failErrno("waiting for the server");
    if (polled[1].revents != 0) {
      interrupted_ = true;
      return broken("interrupted");
    }
    ready = polled[0].revents != 0;
    return {};
  }
}

Result<> HttpClient::connect(Millis timeout) {
  close();
  const Addresses addresses = TRY(resolve(url_));
  int cause = ECONNREFUSED;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    cause = TRY(connectTo(*at, monotonicNow() + timeout));
    if (cause == 0) return url_.tls ? secure(monotonicNow() + timeout) : Result<>();
  }
  close();
  return fail(Code::kUnavailable,
              "connecting to " + url_.authority() + ": " + strerrordesc_np(cause));
}

// The errno of what went wrong, 0 if nothing did.
Result<int> HttpClient::connectTo(const addrinfo& address, Monotonic deadline) {
  socket_.reset(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return failErrno("making a socket");
  const int one = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (::connect(socket_.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  int cause = errno;
  if (cause != EINPROGRESS) return cause;
  bool ready = false;
  TRY(waitFor(POLLOUT, deadline, ready));
  socklen_t size = sizeof cause;
  cause = ETIMEDOUT;
  if (ready) ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &cause, &size);
  return cause;
}

Result<> HttpClient::secure(Monotonic deadline) {
  tls_ = TRY(TlsSession::make(*url_.tls, url_.host, socket_.get()));
  for (;;) {
    const auto step = tls_->handshake();
    if (!step) return broken(step.error().message);
    if (step->wait == 0) {
      if (step->bytes > 0) return {};
      return broken("TLS: it closed the connection");
    }
    bool ready = false;
    TRY(waitFor(step->wait, deadline, ready));
    if (!ready) return broken("TLS: it does not answer in time");
  }
}

// What moved, or what to wait for; `bytes` -1 when the server takes no more. It may have refused,
// and its answer is worth more than our error.
Result<TlsSession::Step> HttpClient::put(std::string_view bytes) {
  constexpr TlsSession::Step kGone{-1, 0};
  if (tls_) return tls_->write(bytes).value_or(kGone);
  const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (n >= 0) return TlsSession::Step{n, 0};
  if (errno == EAGAIN || errno == EINTR) return TlsSession::Step{0, POLLOUT};
  if (errno == EPIPE || errno == ECONNRESET) return kGone;
  return broken(strerrordesc_np(errno));
}

// The same of what has come: `bytes` 0 with `wait` 0 is the end.
Result<TlsSession::Step> HttpClient::get(char* into, size_t size) {
  if (tls_) {
    auto step = tls_->read(into, size);
    if (!step) return broken(step.error().message);
    return *step;
  }
  const ssize_t n = ::recv(socket_.get(), into, size, 0);
  if (n >= 0) return TlsSession::Step{n, 0};
  if (errno == EAGAIN || errno == EINTR) return TlsSession::Step{0, POLLIN};
  if (errno == ECONNRESET) return TlsSession::Step{};
  return broken(strerrordesc_np(errno));
}

Result<> HttpClient::send(std::string_view bytes, Monotonic deadline) {
  while (!bytes.empty()) {
    const TlsSession::Step step = TRY(put(bytes));
    if (step.bytes < 0) return {};
    bytes.remove_prefix(static_cast<size_t>(step.bytes));
    if (step.wait == 0) continue;
    bool ready = false;
    TRY(waitFor(step.wait, deadline, ready));
    if (!ready) return broken("it does not take the request");
  }
  return {};
}

// Whether the server has answered already, other than with 100 Continue.
Result<bool> HttpClient::refused(Monotonic until) {
  constexpr std::string_view kContinue = "HTTP/1.1 100";
  TRY(fill(until));
  const size_t end = buffer_.find("\r\n\r\n");
  if (buffer_.starts_with(kContinue) && end != std::string::npos) buffer_.erase(0, end + 4);
  return at_end_ || !buffer_.empty();
}

Result<> HttpClient::sendSource(const HttpRequest& request, Millis timeout) {
  constexpr Millis kForContinue{1'000};  // then the server is one that does not say it
  bool stop = TRY(refused(monotonicNow() + kForContinue));
  while (!stop) {
    std::string piece = TRY(request.source());
    const bool end = piece.empty();
    if (!request.length) {
      char size[24];
      std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
      piece = size + piece + "\r\n";
    }
    TRY(send(piece, monotonicNow() + timeout));
    if (end) return {};
    stop = TRY(refused(monotonicNow()));
  }
  return {};
}

Result<bool> HttpClient::fill(Monotonic deadline) {
  char chunk[65'536];
  for (;;) {
    const TlsSession::Step step = TRY(get(chunk, sizeof chunk));
    buffer_.append(chunk, static_cast<size_t>(step.bytes));
    if (step.wait == 0) {
      at_end_ = step.bytes == 0;
      return true;
    }
    bool ready = false;
    TRY(waitFor(step.wait, deadline, ready));
    if (!ready) return false;
  }
}

Result<HttpHead> HttpClient::readHead(Monotonic deadline) {
  for (;;) {
    const size_t end = buffer_.find("\r\n\r\n");
    if (end != std::string::npos) {
      auto head = parseHead(std::string_view(buffer_).substr(0, end + 2));
      if (!head) return broken(head.error().message);
      buffer_.erase(0, end + 4);
      if (head->status >= 200) return head;
      if (head->status == 101 && may_switch_) return head;
      if (head->status == 101) return broken("it switched to another protocol");
      continue;  // 100 Continue and its kind
    }
    if (buffer_.size() > kMaxHead) return broken("its answer has too large a head");
    if (at_end_) return broken(buffer_.empty() ? "it closed the connection" : "it broke off");
    if (!TRY(fill(deadline))) return broken("it does not answer in time");
  }
}

Result<> HttpClient::frame(const HttpRequest& request, const HttpHead& head) {
  const auto length = contentLength(head);
  if (!length) return broken(length.error().message);
  const std::string coding = head.header("transfer-encoding");
  const bool chunked = coding == "chunked";
  if (!coding.empty() && (!chunked || *length)) return broken("its answer's length is ambiguous");
  const bool none =
      head.status == 101 || head.status == 204 || head.status == 304 || request.method == "HEAD";
  framing_ = none      ? Framing::kNone
             : chunked ? Framing::kChunked
             : *length ? Framing::kLength
                       : Framing::kUntilClose;
  left_ = chunked ? 0 : length->value_or(0);
  in_chunk_ = false;
  trailers_ = false;
  keep_ = framing_ != Framing::kUntilClose && head.header("connection") != "close";
  return {};
}

Result<HttpHead> HttpClient::open(const HttpRequest& request, Millis timeout) {
  Monotonic deadline = monotonicNow() + timeout;
  const bool reused = socket_ && keep_ && framing_ == Framing::kNone && buffer_.empty();
  if (!reused) TRY(connect(timeout));
  keep_ = false;
  may_switch_ = request.headers.contains("Upgrade");
  std::string bytes = headOf(request, url_, key_);
  constexpr size_t kOnePacket = 65'536;
  const bool together = request.body.size() <= kOnePacket;
  if (together) bytes.append(request.body);
  TRY(send(bytes, deadline));
  if (!together) TRY(send(request.body, deadline));
  if (request.source) {
    TRY(sendSource(request, timeout));
    deadline = monotonicNow() + timeout;
  }
  // A server may close an idle connection at any time; asking again is safe where it changes
  // nothing.
  if (reused && request.method == "GET" && buffer_.empty()) {
    const bool came = TRY(fill(deadline));
    if (came && at_end_ && buffer_.empty()) {
      close();
      return open(request, timeout);
    }
  }
  HttpHead head = TRY(readHead(deadline));
  TRY(frame(request, head));
  return head;
}

Result<Fd> HttpClient::detach(std::string& rest) {
  rest = std::exchange(buffer_, {});
  std::unique_ptr<TlsSession> tls = std::move(tls_);
  Fd socket = std::move(socket_);
  close();
  if (tls) return TlsSession::passOn(std::move(tls), std::move(socket));
  return socket;
}

Result<HttpClient::Piece> HttpClient::take(std::string& out, Monotonic deadline) {
  if (buffer_.empty()) {
    if (at_end_) return broken("it broke off");
    if (!TRY(fill(deadline))) return Piece::kTimeout;
    if (buffer_.empty()) return broken("it broke off");
  }
  const size_t n = std::min<uint64_t>(left_, buffer_.size());
  out.append(buffer_, 0, n);
  buffer_.erase(0, n);
  left_ -= n;
  return Piece::kData;
}

Result<std::string> HttpClient::line(Monotonic deadline, bool& ready) {
  constexpr size_t kMaxLine = 4096;
  for (;;) {
    const size_t end = buffer_.find("\r\n");
    if (end <= kMaxLine) {  // npos is larger
      std::string text = buffer_.substr(0, end);
      buffer_.erase(0, end + 2);
      ready = true;
      return text;
    }
    if (buffer_.size() > kMaxLine) return broken("a malformed chunk");
    if (at_end_) return broken("it broke off");
    ready = TRY(fill(deadline));
    if (!ready) return std::string();
  }
}

Result<HttpClient::Piece> HttpClient::readChunked(std::string& out, Monotonic deadline) {
  constexpr int kMaxTrailers = 100;
  int trailers = 0;
  while (left_ == 0) {
    bool ready = false;
    const std::string text = TRY(line(deadline, ready));
    if (!ready) return Piece::kTimeout;
    if (trailers_) {
      if (++trailers > kMaxTrailers) return broken("too many trailers");
      if (!text.empty()) continue;
      framing_ = Framing::kNone;
      return Piece::kEnd;
    }
    if (in_chunk_) {  // the line that ends a chunk's data
      if (!text.empty()) return broken("a malformed chunk");
      in_chunk_ = false;
      continue;
    }
    const auto size = chunkSize(text);
    if (!size) return broken(size.error().message);
    left_ = *size;
    in_chunk_ = *size > 0;
    trailers_ = *size == 0;
  }
  return take(out, deadline);
}

Result<HttpClient::Piece> HttpClient::read(std::string& out, Millis timeout) {
  const Monotonic deadline = monotonicNow() + timeout;
  switch (framing_) {
    case Framing::kNone:
      return Piece::kEnd;
    case Framing::kChunked:
      return readChunked(out, deadline);
    case Framing::kLength:
      if (left_ > 0) return take(out, deadline);
      framing_ = Framing::kNone;
      return Piece::kEnd;
    case Framing::kUntilClose:
      if (at_end_ && buffer_.empty()) {
        close();
        return Piece::kEnd;
      }
      if (buffer_.empty() && !TRY(fill(deadline))) return Piece::kTimeout;
      out.append(std::exchange(buffer_, {}));
      return Piece::kData;
  }
  return Piece::kEnd;
}

Result<HttpResponse> HttpClient::exchange(const HttpRequest& request, Millis timeout) {
  const Monotonic deadline = monotonicNow() + timeout;
  HttpResponse response{TRY(open(request, timeout)), {}};
  for (;;) {
    const auto left = std::chrono::ceil<Millis>(deadline - monotonicNow());
    switch (TRY(read(response.body, std::max(left, Millis(0))))) {
      case Piece::kEnd:
        return response;
      case Piece::kTimeout:
        return broken("it does not finish its answer in time");
      case Piece::kData:
        if (response.body.size() > kMaxBody) return broken("its answer is too large");
    }
  }
}

}  // namespace cloister::cli
