// SPDX-License-Identifier: Apache-2.0
// RequestParser: bytes of a hostile client → one Request (RFC 9110, 9112), in two halves, so that
// the body is only read for a request that was admitted. The one door for HTTP bytes: the server
// and the fuzzer use it alike.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/http/http.h"
#include "base/result.h"

namespace cloister::api {

// Why a request cannot be read; the connection ends with it.
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

  // Uses bytes from the front of `bytes` and says how many. Before the head is complete it uses
  // all of it or nothing: hand the same bytes in again, with more behind them.
  std::expected<size_t, ParseFailure> feed(std::string_view bytes);

  [[nodiscard]] bool headDone() const;
  [[nodiscard]] bool done() const;
  // The most that the body may have, once, between the head and the body. An error if it says that
  // it has more.
  std::expected<void, ParseFailure> limitBody(uint64_t bytes);
  [[nodiscard]] std::optional<uint64_t> declaredBody() const;
  // Bytes of body that are held.
  [[nodiscard]] size_t bodyBytes() const;
  [[nodiscard]] bool wantsContinue() const;  // Expect: 100-continue

  // Once the head was too large: where it is so by its credential, the same request line with a
  // credential that nobody has, so that it is refused as such; nullopt where something else is
  // large. `rest`: the bytes that were not used.
  [[nodiscard]] std::optional<Request> withUnknownCredential(std::string_view rest) const;

  // The checked head; once, after headDone().
  std::expected<Request, ParseFailure> head();
  // What has come of the body and was not taken yet.
  std::string takeBody();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A whole request from bytes, as the server would read it.
std::expected<Request, ParseFailure> parseRequest(std::string_view bytes, const HttpLimits& limits);

}  // namespace cloister::api
