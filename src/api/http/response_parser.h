// SPDX-License-Identifier: Apache-2.0
// ResponseParser: bytes of a server in a sandbox → an HTTP/1 response (RFC 9112). The bytes are
// hostile: ambiguous messages are refused, and every part is bounded. The only parser of such
// bytes: the ports of sessions and the fuzzer share the code.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/http/http.h"
#include "base/result.h"

namespace cloister::api {

struct ResponseHead {
  int status = 200;
  std::vector<Header> headers;  // names in lower case; values without control characters
  std::optional<uint64_t> length;

  // All values of the (lower-case) name, with ", " between them.
  [[nodiscard]] std::string joined(std::string_view name) const;
};

class ResponseParser {
 public:
  static constexpr size_t kHeadBytes = 65'536;
  static constexpr size_t kHeaders = 256;

  // `to_head`: the request was a HEAD, so the answer has no body, whatever the head says.
  explicit ResponseParser(bool to_head);
  ~ResponseParser();
  ResponseParser(const ResponseParser&) = delete;
  ResponseParser& operator=(const ResponseParser&) = delete;
  ResponseParser(ResponseParser&&) noexcept;
  ResponseParser& operator=(ResponseParser&&) noexcept;

  // Uses bytes from the front of `bytes` and gives their number; hand the rest in again, with more
  // behind. kInternal names the fault.
  Result<size_t> feed(std::string_view bytes);
  // No more bytes come: an error if the message is cut short.
  Result<> end();

  [[nodiscard]] bool headDone() const;
  [[nodiscard]] bool done() const;
  // The checked head; once, after headDone().
  Result<ResponseHead> head();
  // The received bytes of the body not taken yet.
  std::string takeBody();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cloister::api
