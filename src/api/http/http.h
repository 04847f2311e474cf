// SPDX-License-Identifier: Apache-2.0
// HTTP for the rest of api/: plain values, no parser and no socket. http_server has parsed and
// bounded a Request; a Response is bytes, a stream of bytes, or a WebSocket. All code runs on the
// io thread.
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

#include "api/http/web_names.h"
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

// The bounds of a client's cost. A connection over a bound is answered if possible, then closed.
struct HttpLimits {
  size_t connections = 1024;
  size_t head_bytes = size_t{32} << 10;
  size_t body_bytes = size_t{32} << 20;      // a body held as a whole
  size_t bodies_bytes = size_t{256} << 20;   // all held bodies; a tenant has half
  orchestrator::Fairness fairness = {};      // between tenants, of these
  size_t answers_bytes = size_t{128} << 20;  // large answers that a tenant reads slowly
  size_t body_rate = size_t{8} << 10;        // least average bytes a second of a body
  Millis head_time{10'000};                  // from a head's first byte to its last
  Millis body_grace{10'000};                 // in addition to the time by `body_rate`
  Millis idle{60'000};                       // between requests
  Millis write_stall{60'000};                // without the peer taking a byte
};

struct Header {
  std::string name;  // lower case in a Request
  std::string value;
};

struct Route;  // router.h

// Gives a body piece by piece. Unread bytes stay with the client: memory holds a single piece.
class BodyReader {
 public:
  virtual ~BodyReader() = default;
  // The next bytes, at most 64 KiB; "" at the end. After an error nothing is left to read, and the
  // client receives the error instead of the handler's answer.
  virtual Task<Result<std::string>> read() = 0;
  // The length that the client announced; nullopt: none.
  [[nodiscard]] virtual std::optional<uint64_t> length() const = 0;
  // Ends reading: a waiting read() ends with an error.
  virtual void stop() = 0;
};

struct Request {
  std::string id;  // req_…, in every answer and log line about the request
  std::string method;
  std::string target;                                      // as sent
  std::vector<std::string> path;                           // decoded segments
  std::vector<std::pair<std::string, std::string>> query;  // decoded, no name twice
  std::vector<Header> headers;
  std::string body;
  bool http11 = true;
  bool keep_alive = true;
  bool has_body = false;
  // The listener serves a part of the paths at its root; `path` has this first segment nonetheless.
  std::string mount;
  bool local = false;               // came over a loopback or Unix listener
  bool secure = false;              // came over TLS
  std::optional<HostPort> at_port;  // named by Host, in place of the API
  // The origin by which the client reaches the service, "https://host[:port]", and the path before
  // the service's own, "" or "/prefix": of the connection, or as a trusted proxy says.
  std::string origin;
  std::string base_path;
  // The other end of the connection, or of the connection to a trusted proxy; none: Unix.
  std::optional<base::Address> peer;
  // The client's certificate, verified by TLS; null if the client showed none.
  std::shared_ptr<const auth::ClientCertificate> certificate;
  // Set by HttpHandler::admit: the handler reads the body itself, of at most so many bytes.
  std::optional<uint64_t> stream_limit;
  // There while such a handler runs and its answer is sent.
  std::shared_ptr<BodyReader> incoming;
  std::string bad_query;  // why `query` could not be read, and is empty

  // Filled by the router.
  const Route* matched = nullptr;
  std::string_view route;           // the matched pattern, for logs and metrics
  std::vector<std::string> params;  // the values of the pattern's {…}, in order
  // The request's own span; unset unless it is recorded. `caller`: its parent.
  model::TraceContext trace;
  model::TraceContext caller;
  model::Principal principal;   // set on routes with a key
  auth::Credential credential;  // the principal's, or the link maker's
  std::shared_ptr<void> place;  // a place among the tenant's requests under way

  // The handler has read `body`: its memory is free for other bodies while the answer is made.
  std::function<void()> body_read = [] {};
  // From now on the connection closes when the peer goes away. For long answers.
  std::function<void()> watch_peer = [] {};
  // The answer is for `credential`, and ends when the credential no longer stands
  // (HttpHandler::stands).
  std::function<void()> answer_for_credential = [] {};
  // Calls the function when the connection ends before the answer does.
  std::function<void(std::function<void()>)> when_closed = [](const auto&) {};

  // The first header of the (lower-case) name, "" without one.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  [[nodiscard]] size_t count(std::string_view name) const;
};

// Takes a body as the handler makes it. An error means a lost or too slow peer: stop.
class BodyWriter {
 public:
  virtual ~BodyWriter() = default;
  virtual Task<Result<>> write(std::string_view bytes) = 0;
  // The rest is not available: the message stays incomplete, so that the client sees the loss.
  virtual void cutShort() {}
};

class WebSocket {
 public:
  virtual ~WebSocket() = default;
  // Sends a text message. An error means a lost or too slow peer: stop.
  virtual Task<Result<>> send(std::string text) = 0;
};

// The connection itself, after HTTP. One reader and one writer at a time.
class Tunnel {
 public:
  virtual ~Tunnel() = default;
  // The next bytes, at most 64 KiB; "" at the end of the peer's bytes.
  virtual Task<Result<std::string>> read() = 0;
  virtual Task<Result<>> write(std::string_view bytes) = 0;
  // Ends reading: a waiting read() ends with an error.
  virtual void stop() = 0;
};

// The error behind a refusal, for interfaces with a form of their own (dialect.h).
struct Failure {
  std::string type;  // as in executions, such as INVALID_REQUEST
  std::string message;
  bool unsupported = false;  // this service does not offer what was asked for
};

struct Response {
  int status = 200;
  std::vector<Header> headers;
  std::string body;
  // When set, makes the body instead: `stream_length` bytes, or all bytes until the function
  // returns.
  std::function<Task<void>(BodyWriter&)> stream;
  std::optional<uint64_t> stream_length;
  // When set, the connection becomes a WebSocket; status and body are not used.
  std::function<Task<void>(WebSocket&)> websocket;
  // Takes the client's text messages in turn: the next is read after the previous is handled. An
  // error of the kind kInvalid ends the conversation. Without the function, a client that sends a
  // message is disconnected.
  std::function<Task<Result<>>(std::string)> websocket_input;
  // When set, with status 101: after the head, the function owns the connection.
  std::function<Task<void>(Tunnel&)> tunnel;
  std::optional<Failure> failure;  // set by problem()

  Response& with(std::string name, std::string value) &;
  Response&& with(std::string name, std::string value) &&;
};

Response jsonResponse(int status, const base::json::value& value);
std::string_view reasonPhrase(int status);

// Splits an origin-form target (RFC 9112 §3.2.1) into decoded path and query. kInvalid: another
// form, a bad escape, NUL, bytes outside of UTF-8, a repeated query name.
Result<> parseTarget(std::string_view target, Request& request);
// The query of `target`, where a name may be repeated. kInvalid as above otherwise.
Result<std::vector<std::pair<std::string, std::string>>> parseRepeatedQuery(
    std::string_view target);

// RFC 3986 percent-decoding; with `plus`, "+" is a space.
Result<std::string> percentDecode(std::string_view text, bool plus);
// Everything but RFC 5987 attr-char is escaped.
std::string percentEncode(std::string_view text);

// The credential of `Authorization: Bearer`; "" without one.
std::string_view bearerToken(const Request& request);

// ASCII only.
std::string lowerCase(std::string_view text);

}  // namespace cloister::api
