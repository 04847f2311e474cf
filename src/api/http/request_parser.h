// SPDX-License-Identifier: Apache-2.0
// RequestParser: bytes of a hostile client → a Request (RFC 9110, 9112), in two halves, so that
// only an admitted request has its body read. The only parser of HTTP requests: the server and the
// fuzzer share the code.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/http/http.h"
#include "base/result.h"

namespace cloister::api {

// The reason why a request is unreadable; the connection ends.
struct ParseFailure {
  int status = 400;
  std::string message;
};

class RequestParser {
 public:
  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Uses bytes from the front of `bytes` and gives their number. Before the head is complete, the
  // parser uses all bytes or none: hand the same bytes in again, with more behind them.
  std::expected<size_t, ParseFailure> feed(std::string_view bytes);

  [[nodiscard]] bool headDone() const;
  [[nodiscard]] bool done() const;
  // Sets the most bytes of the body, once, between the head and the body. An error if the announced
  // length is larger.
  std::expected<void, ParseFailure> limitBody(uint64_t bytes);
  [[nodiscard]] std::optional<uint64_t> declaredBody() const;
  // The held bytes of the body.
  [[nodiscard]] size_t bodyBytes() const;
  [[nodiscard]] bool wantsContinue() const;  // Expect: 100-continue

  // After a too large head: if the credential is too large, the same request line with a credential
  // that nobody has, so that the request is refused as unauthorized; nullopt if another part is
  // large. `rest`: the unused bytes.
  [[nodiscard]] std::optional<Request> withUnknownCredential(std::string_view rest) const;

  // The checked head; once, after headDone().
  std::expected<Request, ParseFailure> head();
  // The received bytes of the body not taken yet.
  std::string takeBody();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Parses a whole request the way the server does.
std::expected<Request, ParseFailure> parseRequest(std::string_view bytes, const HttpLimits& limits);

}  // namespace cloister::api
