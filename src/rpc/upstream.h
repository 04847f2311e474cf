// SPDX-License-Identifier: Apache-2.0
// Upstream: the REST API, of which this program is a client. Keeps connections between requests. A
// kept connection that the service has just closed may lose a request: only requests that are safe
// to repeat use one, others get a connection of their own. Exchange: one request with its answer,
// which breaks off when its call ends. On the io thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>
#include <google/protobuf/message.h>

#include "base/clock.h"
#include "base/json.h"
#include "net/http_connection.h"
#include "net/url.h"
#include "rpc/call.h"
#include "rpc/refusal.h"

namespace cloister::rpc {

template <class T>
using Task = boost::asio::awaitable<T>;

struct Ask {
  std::string method = "GET";
  std::string target;  // "/v1/…", percent-encoded
  std::string body = {};
  std::string accept = "application/json";
  Headers more = {};  // beside the call's
  net::BodySource source = {};
  bool key = true;          // with the call's credential and key of idempotency
  Millis patience{60'000};  // for the answer, or for each part of it
};

class Upstream {
 public:
  Upstream(net::Url url, boost::asio::ssl::context tls, size_t message_bytes)
      : url_(std::move(url)), tls_(std::move(tls)), message_bytes_(message_bytes) {}

  // The answer's body; a refusal for any status but success.
  Task<Reply<std::string>> exchange(Call& call, Ask ask);
  // The answer as a message.
  Task<Reply<>> exchange(Call& call, Ask ask, google::protobuf::Message& answer);

  // Sets a message from the body of an answer. RESOURCE_EXHAUSTED for a message over the bound.
  [[nodiscard]] Reply<> read(std::string_view body, google::protobuf::Message& answer) const;
  // In JSON a byte can have six, and a message has names.
  [[nodiscard]] size_t maxAnswer() const { return message_bytes_ * 6 + (size_t{1} << 20); }

 private:
  friend class Exchange;

  Task<Result<std::unique_ptr<net::HttpConnection>>> connect(base::Monotonic deadline);
  std::unique_ptr<net::HttpConnection> kept();
  void keep(std::unique_ptr<net::HttpConnection> connection);

  net::Url url_;
  boost::asio::ssl::context tls_;
  size_t message_bytes_;
  std::vector<std::unique_ptr<net::HttpConnection>> idle_;
};

class Exchange {
 public:
  // `breaks`: false after the end of the call, to cancel its execution.
  Exchange(Upstream& upstream, Call& call, bool breaks = true)
      : upstream_(upstream), call_(call), breaks_(breaks) {}
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  Exchange(Exchange&&) = delete;
  Exchange& operator=(Exchange&&) = delete;

  // Sends the request, and reads the head of the answer.
  Task<Reply<net::HttpHead>> open(const Ask& ask, base::Monotonic deadline);
  // The same; a refusal for any status but success.
  Task<Reply<net::HttpHead>> succeed(const Ask& ask, base::Monotonic deadline);
  // Appends arrived bytes of the body, at most 64 KiB.
  Task<Reply<net::HttpConnection::Piece>> read(std::string& out, base::Monotonic deadline);
  Task<Reply<std::string>> rest(base::Monotonic deadline);

 private:
  [[nodiscard]] bool over() const { return breaks_ && call_.ended() != Call::End::kNone; }
  Refusal broken(const Error& error) const;
  Task<Result<net::HttpHead>> send(const Ask& ask, base::Monotonic deadline);
  void hold(std::unique_ptr<net::HttpConnection> connection);
  void release();

  Upstream& upstream_;
  Call& call_;
  bool breaks_;
  std::unique_ptr<net::HttpConnection> connection_;
};

// "/v1/sessions/{id}" with the id as one part. kInvalid for "".
Result<std::string> partOf(std::string_view text, std::string_view field);
// The parts of a path, with slashes between them.
Result<std::string> pathOf(std::string_view text, std::string_view field);

// A query, from the members that are there.
class Query {
 public:
  template <class T>
  Query& add(std::string_view name, bool there, const T& value) {
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      if (there) append(name, value);
    } else {
      if (there) append(name, std::to_string(value));
    }
    return *this;
  }
  Query& flag(std::string_view name, bool set) {
    if (set) append(name, "true");
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void append(std::string_view name, std::string_view value);

  std::string text_;
};

}  // namespace cloister::rpc
