// SPDX-License-Identifier: Apache-2.0
#include "api/http/response_parser.h"

#include <algorithm>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>

#include "api/http/piece_body.h"

namespace cloister::api {
namespace {

namespace http = boost::beast::http;

std::unexpected<Error> bad(const std::string& what) {
  return fail(Code::kInternal, "the server's answer: " + what);
}

size_t count(const ResponseHead& head, std::string_view name) {
  return static_cast<size_t>(std::ranges::count(head.headers, name, &Header::name));
}

// Refuses heads that two readers could take for messages of different lengths.
Result<> checkFraming(const ResponseHead& head, bool http11) {
  const size_t lengths = count(head, "content-length");
  const size_t encodings = count(head, "transfer-encoding");
  if (lengths > 1) return bad("Content-Length is given twice");
  if (lengths + encodings > 1) return bad("Content-Length and Transfer-Encoding contradict");
  if (encodings > 0 && (!http11 || lowerCase(head.joined("transfer-encoding")) != "chunked")) {
    return bad("its Transfer-Encoding is not understood");
  }
  return {};
}

bool isControl(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
}

}  // namespace

struct ResponseParser::State {
  http::response_parser<PieceBody> parser;
};

std::string ResponseHead::joined(std::string_view name) const {
  std::string all;
  for (const Header& header : headers) {
    if (header.name == name) all += (all.empty() ? "" : ", ") + header.value;
  }
  return all;
}

ResponseParser::ResponseParser(bool to_head) : state_(std::make_unique<State>()) {
  state_->parser.header_limit(kHeadBytes);
  state_->parser.body_limit(boost::none);
  state_->parser.skip(to_head);
}

ResponseParser::~ResponseParser() = default;
ResponseParser::ResponseParser(ResponseParser&&) noexcept = default;
ResponseParser& ResponseParser::operator=(ResponseParser&&) noexcept = default;

Result<size_t> ResponseParser::feed(std::string_view bytes) {
  // As in RequestParser::feed: the parser wants the last chunk as a whole.
  constexpr size_t kLastChunk = 5;
  if (bytes.empty()) return 0;
  if (headDone() && state_->parser.chunked() && bytes.size() < kLastChunk) return 0;
  boost::system::error_code error;
  const size_t used = state_->parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  if (error == http::error::need_more) error = {};
  if (error) return bad(error.message());
  return used;
}

Result<> ResponseParser::end() {
  if (done()) return {};
  if (!headDone()) return bad("it ended before its head was complete");
  boost::system::error_code error;
  state_->parser.put_eof(error);
  if (error) return bad("it was cut short");
  return {};
}

bool ResponseParser::headDone() const {
  return state_->parser.is_header_done();
}

bool ResponseParser::done() const {
  return state_->parser.is_done();
}

Result<ResponseHead> ResponseParser::head() {
  const auto& message = state_->parser.get();
  ResponseHead head;
  head.status = static_cast<int>(message.result_int());
  if (head.status < 100 || head.status > 599) return bad("its status is none of HTTP's");
  for (const auto& field : message) {
    if (head.headers.size() == kHeaders) return bad("it has too many headers");
    const std::string_view value(field.value().data(), field.value().size());
    if (std::ranges::any_of(value, isControl)) return bad("a header has a control character");
    head.headers.push_back(
        {lowerCase({field.name_string().data(), field.name_string().size()}), std::string(value)});
  }
  TRY(checkFraming(head, message.version() == 11));
  // Also for an answer to HEAD, whose Content-Length the parser ignores.
  if (const std::string length = head.joined("content-length"); !length.empty()) {
    constexpr size_t kDigits = 18;
    if (length.size() > kDigits || length.find_first_not_of("0123456789") != std::string::npos) {
      return bad("its Content-Length is no number");
    }
    head.length = std::stoull(length);
  }
  return head;
}

std::string ResponseParser::takeBody() {
  return std::exchange(state_->parser.get().body().bytes, {});
}

}  // namespace cloister::api
