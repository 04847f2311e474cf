// SPDX-License-Identifier: Apache-2.0
// HTTP as the rest of api/ sees it: plain values, no parser and no socket. A Request has been
// parsed and bounded by http_server; a Response is bytes, a stream of bytes, or a WebSocket.
// Everything happens on the io thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "auth/certificates.h"
#include "auth/credential.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/network.h"
#include "base/result.h"
#include "model/principal.h"
#include "orchestrator/core/fair_share.h"

namespace cloister::api {

template <class T>
using Task = boost::asio::awaitable<T>;

// What one client may cost. A connection that oversteps is answered where that is possible, then
// closed.
struct HttpLimits {
  size_t connections = 1024;
  size_t head_bytes = size_t{32} << 10;
  size_t body_bytes = size_t{32} << 20;      // of a body that is held as a whole
  size_t bodies_bytes = size_t{256} << 20;   // all bodies being held at once; half, of one tenant
  orchestrator::Fairness fairness = {};      // between tenants, of these
  size_t answers_bytes = size_t{128} << 20;  // large answers that one tenant is slow to read
  size_t body_rate = size_t{8} << 10;        // bytes a second that a body must keep up, on average
  Millis head_time{10'000};                  // from a head's first byte to its last
  Millis body_grace{10'000};                 // on top of what `body_rate` allows
  Millis idle{60'000};                       // between requests
  Millis write_stall{60'000};                // without the peer taking a byte
};

struct Header {
  std::string name;  // lower case in a Request
  std::string value;
};

struct Route;  // router.h

// Gives a body as it comes. What is not asked for stays with the client: memory holds one piece.
class BodyReader {
 public:
  virtual ~BodyReader() = default;
  // The next bytes, at most 64 KiB; "" at the end. After an error there is no more to read, and the
  // client is told that instead of whatever the handler answers.
  virtual Task<Result<std::string>> read() = 0;
  // What the client says it will send; nullopt: it does not say.
  [[nodiscard]] virtual std::optional<uint64_t> length() const = 0;
  // Nothing more will be read: a read() that waits ends, with an error.
  virtual void stop() = 0;
};

struct Request {
  std::string id;  // req_…, in every answer and log line about it
  std::string method;
  std::string target;                                      // as sent
  std::vector<std::string> path;                           // decoded segments
  std::vector<std::pair<std::string, std::string>> query;  // decoded, no name twice
  std::vector<Header> headers;
  std::string body;
  bool http11 = true;
  bool keep_alive = true;
  bool has_body = false;
  bool local = false;                 // came over a loopback or Unix listener
  std::optional<base::Address> peer;  // whoever is at the other end of the connection; none: Unix
  // Of the client, verified by TLS; null if it showed none.
  std::shared_ptr<const auth::ClientCertificate> certificate;
  // Set by HttpHandler::admit: the handler reads the body itself, of at most so many bytes.
  std::optional<uint64_t> stream_limit;
  // There while such a handler runs and its answer is sent.
  std::shared_ptr<BodyReader> incoming;
  std::string bad_query;  // why `query` could not be read, and is empty

  // Filled by the router.
  const Route* matched = nullptr;
  std::string_view route;           // the pattern that matched, for logs and metrics
  std::vector<std::string> params;  // what the pattern's {…} stand for, in order
  model::Principal principal;       // of a route that needs a key
  auth::Credential credential;      // its own, or that a link was made with
  std::shared_ptr<void> place;      // among those of its tenant that are under way

  // What was in `body` has been read: it takes no room from other bodies while the answer is made.
  std::function<void()> body_read = [] {};
  // From now on, close the connection when the peer goes away. For answers that take long.
  std::function<void()> watch_peer = [] {};
  // The answer is for `credential`: it ends when that no longer stands (HttpHandler::stands).
  std::function<void()> answer_for_credential = [] {};
  // Calls this when the connection ends before the answer does.
  std::function<void(std::function<void()>)> when_closed = [](const auto&) {};

  // The first header of that (lower-case) name, "" if there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  [[nodiscard]] size_t count(std::string_view name) const;
};

// Takes a body as it is made. An error means that the peer is gone or too slow: stop.
class BodyWriter {
 public:
  virtual ~BodyWriter() = default;
  virtual Task<Result<>> write(std::string_view bytes) = 0;
  // The rest cannot be had: the message is left incomplete, so that the client sees it.
  virtual void cutShort() {}
};

class WebSocket {
 public:
  virtual ~WebSocket() = default;
  // One text message. An error means that the peer is gone or too slow: stop.
  virtual Task<Result<>> send(std::string text) = 0;
};

// The connection itself, once it no longer speaks HTTP. One reader and one writer at a time.
class Tunnel {
 public:
  virtual ~Tunnel() = default;
  // The next bytes, at most 64 KiB; "" at the end of what the peer sends.
  virtual Task<Result<std::string>> read() = 0;
  virtual Task<Result<>> write(std::string_view bytes) = 0;
  // Nothing more will be read: a read() that waits ends, with an error.
  virtual void stop() = 0;
};

struct Response {
  int status = 200;
  std::vector<Header> headers;
  std::string body;
  // When set, makes the body instead: of `stream_length` bytes, or until it returns.
  std::function<Task<void>(BodyWriter&)> stream;
  std::optional<uint64_t> stream_length;
  // When set, the connection becomes a WebSocket; status and body are not used.
  std::function<Task<void>(WebSocket&)> websocket;
  // Takes the client's text messages, one after the other: the next is read when it is done. An
  // error of the kind kInvalid ends the conversation. Without it a client that sends is told to go.
  std::function<Task<Result<>>(std::string)> websocket_input;
  // When set, with status 101: after the head, the connection is this one's.
  std::function<Task<void>(Tunnel&)> tunnel;

  Response& with(std::string name, std::string value) &;
  Response&& with(std::string name, std::string value) &&;
};

Response jsonResponse(int status, const base::json::value& value);
std::string_view reasonPhrase(int status);

// Splits an origin-form target (RFC 9112 §3.2.1) into decoded path and query. kInvalid: another
// form, a bad escape, NUL, bytes that are not UTF-8, a query name given twice.
Result<> parseTarget(std::string_view target, Request& request);

// RFC 3986 percent-decoding; with `plus`, "+" is a space.
Result<std::string> percentDecode(std::string_view text, bool plus);
// Everything but RFC 5987 attr-char is escaped.
std::string percentEncode(std::string_view text);

// ASCII only.
std::string lowerCase(std::string_view text);

}  // namespace cloister::api
