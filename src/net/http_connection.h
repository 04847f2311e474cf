// SPDX-License-Identifier: Apache-2.0
// HttpConnection: HTTP/1.1 (RFC 9112) over a connection to another service, one exchange after the
// other. All HTTP clients stand on this class: fetch.h makes single exchanges, Service keeps
// connections, BlockingClient serves programs that wait. The peer may be hostile: heads and chunks
// are bounded here, kept bodies by exchange(), and anything ambiguous is an error. Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "net/answer_parser.h"
#include "net/client_stream.h"
#include "net/url.h"

namespace cloister::net {

// Gives the next bytes of a body, "" at the end.
using BodySource = std::function<boost::asio::awaitable<Result<std::string>>()>;
// A source from a function. The function runs on the connection's thread and may block.
BodySource sourceOf(std::function<Result<std::string>()> next);

struct HttpRequest {
  std::string_view method;
  std::string target;                          // already percent-encoded
  std::string_view body = {};                  // sent with POST and PUT
  std::string_view type = "application/json";  // of the body
  std::string_view accept = "application/json";
  std::map<std::string, std::string> headers = {};  // without line ends
  // Sent instead of `body`, in chunks without a `length`. A server that refuses does not get all
  // bytes.
  BodySource source = {};
  std::optional<uint64_t> length = {};
  Millis patience{60'000};  // with `source`: for each of its pieces, and for the answer at the end
};

struct HttpResponse {
  HttpHead head;
  std::string body;
};

class HttpConnection {
 public:
  static constexpr size_t kMaxHead = 65'536;
  enum class Piece { kData, kEnd, kTimeout };

  // Over a connected stream. `host` is sent; errors begin with `doing`, as "reaching login.test".
  HttpConnection(ClientStream stream, std::string host, std::string doing);
  ~HttpConnection() = default;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;
  HttpConnection(HttpConnection&&) noexcept = default;
  HttpConnection& operator=(HttpConnection&&) noexcept = default;

  // Each operation is kUnavailable when the peer breaks off, and then the connection is closed.
  // Keep the request until its end.

  // The whole answer, with a body of at most `max_bytes`. The caller judges its status.
  boost::asio::awaitable<Result<HttpResponse>> exchange(const HttpRequest& request,
                                                        size_t max_bytes, base::Monotonic deadline);
  // Sends the request and reads the head of the answer; then read() gives the body.
  boost::asio::awaitable<Result<HttpHead>> open(const HttpRequest& request,
                                                base::Monotonic deadline);
  // Appends arrived bytes of the body to `out` (at most 64 KiB). kTimeout: nothing arrived before
  // the deadline; the answer continues.
  boost::asio::awaitable<Result<Piece>> read(std::string& out, base::Monotonic deadline);
  // The rest of the body, of at most `max_bytes`.
  boost::asio::awaitable<Result<std::string>> rest(size_t max_bytes, base::Monotonic deadline);

  // The stream, after an answer of 101 to a request with Upgrade. `rest`: bytes behind the answer.
  ClientStream detach(std::string& rest) &&;
  void close();

  // After an exchange: some bytes of an answer came; another exchange may follow.
  [[nodiscard]] bool answered() const { return answered_; }
  [[nodiscard]] bool reusable() const;

 private:
  using Monotonic = base::Monotonic;

  std::unexpected<Error> broken(std::string_view what);
  [[nodiscard]] std::string headOf(const HttpRequest& request) const;
  [[nodiscard]] std::string_view unread() const { return {buffer_.get() + begin_, end_ - begin_}; }
  boost::asio::awaitable<Result<>> send(std::string_view bytes, Monotonic deadline);
  boost::asio::awaitable<Result<>> sendSource(const HttpRequest& request);
  boost::asio::awaitable<Result<bool>> refused(Monotonic until);
  boost::asio::awaitable<Result<bool>> fill(Monotonic deadline);
  boost::asio::awaitable<Result<HttpHead>> readHead(const HttpRequest& request, Monotonic deadline);

  ClientStream stream_;
  std::string host_;
  std::string doing_;
  std::unique_ptr<char[]> buffer_;  // received, not yet used: [begin_, end_)
  size_t begin_ = 0;
  size_t end_ = 0;
  std::optional<AnswerParser> parser_;  // of the present answer
  bool at_end_ = false;                 // the peer has closed its side
  bool closed_ = false;
  bool cut_ = false;  // not in good order
  bool answered_ = false;
};

// Connected, with the certificate verified. kUnavailable.
boost::asio::awaitable<Result<HttpConnection>> connect(const Url& url,
                                                       boost::asio::ssl::context& tls,
                                                       base::Monotonic deadline);

// "reaching HOST: what"
std::unexpected<Error> unreached(const Url& url, std::string_view what);

}  // namespace cloister::net
