// SPDX-License-Identifier: Apache-2.0
// AnswerParser: bytes of a server → one HTTP/1.1 answer (RFC 9112), over Boost.Beast. The server
// may be hostile: bytes with two possible readings are refused. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cloister::net {

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case
  std::string reason = {};                                  // phrase behind the status
  // All fields in order, with the names as spelled, for a relay.
  std::vector<std::pair<std::string, std::string>> fields = {};

  [[nodiscard]] std::string header(std::string_view name) const;  // "" if absent
};

class AnswerParser {
 public:
  static constexpr size_t kMaxFields = 100;

  // `to_head`: the request was a HEAD, so the answer has no body.
  explicit AnswerParser(bool to_head);
  ~AnswerParser();
  AnswerParser(const AnswerParser&) = delete;
  AnswerParser& operator=(const AnswerParser&) = delete;
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;

  // Uses bytes from the front of `bytes`, appends their part of the body to `body`, and returns the
  // number of used bytes. 0: more bytes must follow. Refused: another protocol, a status out of
  // range, folded lines, bad field names, control characters, more than kMaxFields fields, lengths
  // that contradict each other, malformed chunks.
  Result<size_t> feed(std::string_view bytes, std::string& body);
  // No more bytes come. False: the answer is cut short.
  bool end();

  [[nodiscard]] bool headDone() const;
  [[nodiscard]] bool done() const;
  [[nodiscard]] HttpHead& head();
  // After the head: the length of the body, if the head has it.
  [[nodiscard]] std::optional<uint64_t> length() const;
  // After the head: another answer may follow this one.
  [[nodiscard]] bool keepAlive() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cloister::net
