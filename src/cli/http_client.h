// SPDX-License-Identifier: Apache-2.0
// A small synchronous HTTP/1.1 client (RFC 9112) over TCP for our own API: keep-alive, fixed and
// chunked bodies, bodies read as they come. The server may be anyone: heads, chunks and kept bodies
// are bounded, and anything ambiguous is an error. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <netdb.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "cli/tls_session.h"

namespace cloister::cli {

struct Url {
  std::string host;  // a name or an address, without brackets
  uint16_t port = 80;
  std::string prefix;             // path before "/v1", "" if none
  std::optional<Trust> tls = {};  // of https

  [[nodiscard]] std::string authority() const;  // for Host, and for messages
  [[nodiscard]] std::string origin() const;     // "https://host:port", and the prefix
};

// http[s]://host[:port][/prefix]; anything else is kInvalid. What https trusts and shows is of the
// environment (tls_session.h).
Result<Url> parseUrl(std::string_view text);

struct HttpRequest {
  std::string_view method;
  std::string target;          // "/v1/…", already percent-encoded
  std::string_view body = {};  // sent as JSON when the method carries one
  std::string_view accept = "application/json";
  std::map<std::string, std::string> headers = {};
  // Sent instead of `body`: gives the next bytes, "" at the end. Where `length` does not say how
  // many there are, they are sent in chunks. A server that refuses is not sent all of them.
  std::function<Result<std::string>()> source = {};
  std::optional<uint64_t> length = {};
};

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case

  [[nodiscard]] std::string header(std::string_view name) const;  // "" if absent
};

struct HttpResponse {
  HttpHead head;
  std::string body;
};

class HttpClient {
 public:
  static constexpr size_t kMaxHead = 65'536;
  static constexpr size_t kMaxBody = size_t{128} << 20;

  // `interrupt`: a descriptor that becomes readable when waiting must end (signals); -1 for none.
  HttpClient(Url url, std::string key, int interrupt = -1);

  // A whole exchange. kUnavailable when the server cannot be reached or breaks off.
  Result<HttpResponse> exchange(const HttpRequest& request, Millis timeout = Millis(60'000));

  // Sends the request and reads the head of the answer; then read() gives the body.
  Result<HttpHead> open(const HttpRequest& request, Millis timeout = Millis(60'000));

  enum class Piece { kData, kEnd, kTimeout };
  // Appends what has come of the body to `out` (at most 64 KiB), waiting at most `timeout`.
  Result<Piece> read(std::string& out, Millis timeout);

  // The connection, after an answer of 101 to a request with Upgrade; `rest` is what came behind
  // it. Of https it is a socket of ours, with a thread behind that speaks TLS.
  Result<Fd> detach(std::string& rest);

  // True once `interrupt` was readable during a wait, which then failed.
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  [[nodiscard]] const Url& url() const { return url_; }
  void close();

 private:
  enum class Framing { kNone, kLength, kChunked, kUntilClose };

  Result<> connect(Millis timeout);
  Result<int> connectTo(const addrinfo& address, base::Monotonic deadline);
  Result<> secure(base::Monotonic deadline);
  Result<> send(std::string_view bytes, base::Monotonic deadline);
  Result<TlsSession::Step> put(std::string_view bytes);
  Result<TlsSession::Step> get(char* into, size_t size);
  Result<> sendSource(const HttpRequest& request, Millis timeout);
  Result<bool> refused(base::Monotonic until);
  Result<bool> fill(base::Monotonic deadline);  // false: the deadline passed
  Result<> waitFor(short events, base::Monotonic deadline, bool& ready);
  Result<HttpHead> readHead(base::Monotonic deadline);
  Result<> frame(const HttpRequest& request, const HttpHead& head);
  Result<Piece> readChunked(std::string& out, base::Monotonic deadline);
  Result<Piece> take(std::string& out, base::Monotonic deadline);
  Result<std::string> line(base::Monotonic deadline, bool& ready);
  std::unexpected<Error> broken(std::string_view what);

  Url url_;
  std::string key_;
  int interrupt_;
  bool interrupted_ = false;
  Fd socket_;
  std::unique_ptr<TlsSession> tls_;  // on it
  std::string buffer_;               // received, not yet consumed
  bool at_end_ = false;              // the server has closed its side
  bool keep_ = false;                // the connection may carry another exchange
  bool in_chunk_ = false;
  bool trailers_ = false;
  bool may_switch_ = false;  // the request asks for another protocol
  Framing framing_ = Framing::kNone;
  uint64_t left_ = 0;  // of the body, or of the chunk
};

// Percent-encodes everything but RFC 3986's unreserved characters.
std::string percentEncode(std::string_view text);

}  // namespace cloister::cli
