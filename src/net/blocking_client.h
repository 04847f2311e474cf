// SPDX-License-Identifier: Apache-2.0
// BlockingClient: the HTTP client of a program that waits for its answers, as the command line
// does. A synchronous face over HttpConnection with an event loop of its own: no thread, except
// behind a detached connection of https. Keeps its connection between exchanges. One thread at a
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "net/http_connection.h"
#include "net/trust.h"
#include "net/url.h"

namespace cloister::net {

// A server with our API, its certificate, and our key there.
struct Endpoint {
  Url url;      // a base URL
  Trust trust;  // of https
  std::string key;
};

class BlockingClient {
 public:
  using Piece = HttpConnection::Piece;
  static constexpr size_t kMaxHead = HttpConnection::kMaxHead;
  static constexpr size_t kMaxBody = size_t{128} << 20;
  static constexpr Millis kPatience{60'000};

  // `interrupt`: a descriptor that becomes readable when waiting must end (signals); -1 for none.
  explicit BlockingClient(Endpoint endpoint, int interrupt = -1);
  ~BlockingClient();
  BlockingClient(const BlockingClient&) = delete;
  BlockingClient& operator=(const BlockingClient&) = delete;
  BlockingClient(BlockingClient&&) noexcept;
  BlockingClient& operator=(BlockingClient&&) noexcept;

  // The target of a request is below the path of the endpoint's URL.

  // A whole exchange. kUnavailable when the server cannot be reached or breaks off.
  Result<HttpResponse> exchange(const HttpRequest& request, Millis timeout = kPatience);
  // Sends the request and reads the head of the answer; then read() gives the body.
  Result<HttpHead> open(const HttpRequest& request, Millis timeout = kPatience);
  // Appends arrived bytes of the body to `out` (at most 64 KiB), waiting at most `timeout`.
  Result<Piece> read(std::string& out, Millis timeout);

  // The connection, after an answer of 101 to a request with Upgrade. `rest`: bytes behind the
  // answer. For https the descriptor is a socket to a thread, and the thread speaks TLS until both
  // sides have ended.
  Result<Fd> detach(std::string& rest);

  // True once a wait has failed because `interrupt` was readable.
  [[nodiscard]] bool interrupted() const;
  [[nodiscard]] const Url& url() const;
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cloister::net
