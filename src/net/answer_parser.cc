// SPDX-License-Identifier: Apache-2.0
#include "net/answer_parser.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

namespace cloister::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kBadChunk = "a malformed chunk";
constexpr std::string_view kAmbiguous = "its answer's length is ambiguous";

std::unexpected<Error> bad(std::string_view what) {
  return fail(Code::kUnavailable, "reading the server's answer: " + std::string(what));
}

std::string lower(string_view text) {
  std::string out(text.data(), text.size());
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return out;
}

class Parser final : public http::basic_parser<false> {
 public:
  explicit Parser(bool to_head) {
    skip(to_head);
    header_limit(UINT32_MAX);  // the caller has a bound
    body_limit(boost::none);
  }

  // Whether a chunk may begin so.
  [[nodiscard]] bool mayBeChunk(std::string_view bytes) const {
    constexpr std::string_view kLineEnd = "\r\n";
    const std::string_view expected = kLineEnd.substr(0, any_chunk_ ? bytes.size() : 0);
    if (!bytes.starts_with(expected)) return false;
    bytes.remove_prefix(expected.size());
    return bytes.empty() || std::isxdigit(static_cast<unsigned char>(bytes.front())) != 0;
  }

  HttpHead head;
  bool http11 = false;
  bool too_many_fields = false;
  std::string* body = nullptr;  // takes bytes of the body
  uint64_t chunk_left = 0;      // of the present chunk

 private:
  void on_request_impl(http::verb, string_view, string_view, int, error_code&) override {}
  void on_response_impl(int code, string_view reason, int version, error_code&) override {
    constexpr int kHttp11 = 11;
    head.status = code;
    head.reason.assign(reason.data(), reason.size());
    http11 = version == kHttp11;
  }
  void on_field_impl(http::field, string_view name, string_view value, error_code& error) override {
    too_many_fields = ++fields_ > AnswerParser::kMaxFields;
    if (too_many_fields) error = http::error::header_limit;
    if (too_many_fields || is_header_done()) return;  // fields behind the last chunk are dropped
    head.fields.emplace_back(std::string(name.data(), name.size()),
                             std::string(value.data(), value.size()));
    auto [at, fresh] = head.headers.emplace(lower(name), std::string(value.data(), value.size()));
    if (!fresh) at->second.append(", ").append(value.data(), value.size());
  }
  void on_header_impl(error_code&) override { fields_ = 0; }
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
  size_t on_body_impl(string_view bytes, error_code&) override {
    body->append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(uint64_t size, string_view, error_code& error) override {
    if (size > UINT32_MAX) error = http::error::bad_chunk;
    chunk_left = size;
    any_chunk_ = true;
  }
  size_t on_chunk_body_impl(uint64_t left, string_view bytes, error_code&) override {
    body->append(bytes.data(), bytes.size());
    chunk_left = left - bytes.size();
    return bytes.size();
  }
  void on_finish_impl(error_code&) override {}

  size_t fields_ = 0;
  bool any_chunk_ = false;  // the end of a chunk's line is due
};

std::unexpected<Error> badHead(const Parser& parser, const error_code& error) {
  if (parser.too_many_fields) return bad("too many header fields");
  if (error == http::error::bad_content_length || error == http::error::multiple_content_length) {
    return bad("its Content-Length is malformed");
  }
  if (error == http::error::bad_transfer_encoding) {
    return fail(Code::kUnavailable, std::string(kAmbiguous));
  }
  if (error == http::error::bad_value) return bad("a control character in a header field");
  if (parser.head.status > 0) return bad("a malformed header field");
  return bad("it is not HTTP/1.1");
}

// Refuses heads that Beast accepts.
Result<> checkHead(const Parser& parser) {
  if (parser.head.status < 100 || parser.head.status > 599)
    return bad("its status is out of range");
  const std::string coding = lower(parser.head.header("transfer-encoding"));
  if (!coding.empty() && (coding != "chunked" || !parser.http11)) {
    return fail(Code::kUnavailable, std::string(kAmbiguous));
  }
  return {};
}

}  // namespace

struct AnswerParser::State {
  explicit State(bool to_head) : parser(to_head) {}

  Result<size_t> feedHead(std::string_view bytes) {
    const size_t from = std::exchange(searched, bytes.size());
    const size_t end = bytes.find(kHeadEnd, from - std::min(from, kHeadEnd.size()));
    if (end == std::string_view::npos) return 0;
    bytes = bytes.substr(0, end + kHeadEnd.size());
    if (bytes.contains("\r\n ") || bytes.contains("\r\n\t")) return bad("a malformed header field");
    error_code error;
    parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
    if (error || !parser.is_header_done()) return badHead(parser, error);
    TRY(checkHead(parser));
    return bytes.size();
  }

  Parser parser;
  size_t searched = 0;  // bytes that were searched for the end of the head
};

std::string HttpHead::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

AnswerParser::AnswerParser(bool to_head) : state_(std::make_unique<State>(to_head)) {}
AnswerParser::~AnswerParser() = default;
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;

Result<size_t> AnswerParser::feed(std::string_view bytes, std::string& body) {
  // Beast asserts that the end of the last chunk comes as a whole.
  constexpr size_t kLastChunk = 5;
  if (!headDone()) return state_->feedHead(bytes);
  Parser& parser = state_->parser;
  if (done() || bytes.empty()) return 0;
  if (parser.chunked() && parser.chunk_left == 0 && bytes.size() < kLastChunk) {
    if (parser.mayBeChunk(bytes)) return 0;
    return bad(kBadChunk);
  }
  parser.body = &body;
  error_code error;
  const size_t used = parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  if (error && error != http::error::need_more) {
    return bad(parser.too_many_fields ? "too many trailers" : kBadChunk);
  }
  return used;
}

bool AnswerParser::end() {
  if (done()) return true;
  if (!headDone()) return false;
  error_code error;
  state_->parser.put_eof(error);
  return !error;
}

bool AnswerParser::headDone() const {
  return state_->parser.is_header_done();
}

bool AnswerParser::done() const {
  return state_->parser.is_done();
}

HttpHead& AnswerParser::head() {
  return state_->parser.head;
}

std::optional<uint64_t> AnswerParser::length() const {
  const auto length = state_->parser.content_length();
  return length ? std::optional<uint64_t>(*length) : std::nullopt;
}

bool AnswerParser::keepAlive() const {
  return state_->parser.keep_alive();
}

}  // namespace cloister::net
