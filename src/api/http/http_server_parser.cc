// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>

#include "api/http/piece_body.h"
#include "api/http/request_parser.h"
#include "base/id.h"

namespace cloister::api {
namespace {

namespace http = boost::beast::http;

ParseFailure failureOf(const boost::system::error_code& error) {
  if (error == http::error::header_limit) return {431, "request head: too large"};
  if (error == http::error::body_limit) return {413, "request body: too large"};
  if (error == http::error::bad_version) return {505, "request head: not HTTP/1.0 or 1.1"};
  return {400, "request: " + error.message()};
}

// Whether the text is a host with or without a port (RFC 9110 §7.2). Readers that split at
// different colons would see different hosts.
bool isAuthority(std::string_view host) {
  constexpr std::string_view kAlnum =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::string_view kMarks = "-._~%!$&'()*+,;=";
  const bool literal = host.starts_with('[');  // an address of IPv6
  if (literal) host.remove_prefix(1);
  const auto end = std::ranges::find_if_not(host, [&](char c) {
    return kAlnum.contains(c) || kMarks.contains(c) || (literal && c == ':');
  });
  host.remove_prefix(static_cast<size_t>(end - host.begin()));
  if (literal && !host.starts_with(']')) return false;
  if (literal) host.remove_prefix(1);
  if (host.empty()) return true;
  constexpr size_t kPortDigits = 5;
  return host.starts_with(':') && host.size() <= 1 + kPortDigits &&
         host.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

// Refuses heads that the parser accepts but two parties could read differently (request smuggling).
std::expected<void, ParseFailure> checkFraming(const Request& request) {
  if (request.count("host") > 1) return std::unexpected(ParseFailure{400, "Host: given twice"});
  if (request.http11 && request.count("host") == 0) {
    return std::unexpected(ParseFailure{400, "Host: missing"});
  }
  if (!isAuthority(request.header("host"))) {
    return std::unexpected(ParseFailure{400, "Host: not a host, or a host and a port"});
  }
  // Credentials, and names of a sandbox: two readers must not see two.
  for (const char* name : {"authorization", "x-api-key", "x-access-token", "e2b-sandbox-id",
                           "e2b-sandbox-port", "e2b-traffic-access-token", "open-sandbox-api-key",
                           "x-execd-access-token", "opensandbox-egress-auth"}) {
    if (request.count(name) <= 1) continue;
    return std::unexpected(ParseFailure{400, std::string(name) + ": given twice"});
  }
  if (request.count("transfer-encoding") > 0 &&
      (request.count("transfer-encoding") > 1 ||
       lowerCase(request.header("transfer-encoding")) != "chunked" || !request.http11)) {
    return std::unexpected(ParseFailure{400, "Transfer-Encoding: only \"chunked\" is understood"});
  }
  if (request.count("content-length") > 1) {
    return std::unexpected(ParseFailure{400, "Content-Length: given twice"});
  }
  const std::string_view expect = request.header("expect");
  if (!expect.empty() && lowerCase(expect) != "100-continue") {
    return std::unexpected(ParseFailure{417, "Expect: only 100-continue is understood"});
  }
  return {};
}

// A line with a leading blank continues the previous line (obs-fold, RFC 9112 §5.2). The parser
// joins the lines, other parsers see two.
bool isFolded(std::string_view head) {
  return head.contains("\r\n ") || head.contains("\r\n\t");
}

constexpr size_t kEnoughHead = 256;  // room for the headers from withUnknownCredential()

// Takes the first line off `text`.
std::string_view takeLine(std::string_view& text) {
  constexpr std::string_view kEnd = "\r\n";
  const std::string_view line = text.substr(0, text.find(kEnd));
  text.remove_prefix(std::min(line.size() + kEnd.size(), text.size()));
  return line;
}

// Whether a credential takes most of a head, or the head is cut off inside a credential.
bool isCredentialLarge(std::string_view lines, size_t head_bytes) {
  constexpr std::string_view kName = "authorization:";
  while (!lines.empty()) {
    const std::string_view line = takeLine(lines);
    const bool large = line.size() > head_bytes / 2 || lines.empty();
    if (large && lowerCase(line.substr(0, kName.size())) == kName) return true;
  }
  return false;
}

}  // namespace

struct RequestParser::State {
  http::request_parser<PieceBody> parser;
  size_t head_bytes = 0;
};

RequestParser::RequestParser(const HttpLimits& limits) : state_(std::make_unique<State>()) {
  state_->head_bytes = limits.head_bytes;
  state_->parser.header_limit(static_cast<uint32_t>(limits.head_bytes));
  state_->parser.body_limit(boost::none);  // until limitBody()
  state_->parser.get().body().whole = limits.body_bytes;
}

RequestParser::~RequestParser() = default;

std::expected<size_t, ParseFailure> RequestParser::feed(std::string_view bytes) {
  // The parser asserts that the last chunk is present as a whole ("0 CRLF CRLF"), and the last
  // chunk follows any other.
  constexpr size_t kLastChunk = 5;
  if (headDone() && state_->parser.chunked() && bytes.size() < kLastChunk) return 0;
  const bool in_head = !headDone();
  boost::system::error_code error;
  const size_t used = state_->parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  if (error == http::error::need_more) error = {};
  if (error) return std::unexpected(failureOf(error));
  if (in_head && isFolded(bytes.substr(0, used))) {
    return std::unexpected(ParseFailure{400, "request head: a header goes on in the next line"});
  }
  return used;
}

bool RequestParser::headDone() const {
  return state_->parser.is_header_done();
}

bool RequestParser::done() const {
  return state_->parser.is_done();
}

std::expected<void, ParseFailure> RequestParser::limitBody(uint64_t bytes) {
  if (declaredBody().value_or(0) > bytes) {
    return std::unexpected(failureOf(http::error::body_limit));
  }
  state_->parser.body_limit(bytes);
  return {};
}

std::optional<uint64_t> RequestParser::declaredBody() const {
  const auto length = state_->parser.content_length();
  return length ? std::optional<uint64_t>(*length) : std::nullopt;
}

size_t RequestParser::bodyBytes() const {
  return state_->parser.get().body().bytes.size();
}

bool RequestParser::wantsContinue() const {
  return !done() && !state_->parser.get()[http::field::expect].empty();
}

std::expected<Request, ParseFailure> RequestParser::head() {
  const auto& message = state_->parser.get();
  Request request;
  request.id = base::newId("req");
  request.method = std::string_view(message.method_string().data(), message.method_string().size());
  request.http11 = message.version() == 11;
  request.keep_alive = state_->parser.keep_alive();
  request.has_body = !state_->parser.is_done();
  for (const auto& field : message) {
    request.headers.push_back({lowerCase({field.name_string().data(), field.name_string().size()}),
                               std::string(field.value().data(), field.value().size())});
  }
  if (auto sound = checkFraming(request); !sound) return std::unexpected(sound.error());
  const std::string_view target(message.target().data(), message.target().size());
  if (const auto parsed = parseTarget(target, request); !parsed) {
    // The route decides whether the query is for itself, and about the query's form.
    Request without;
    const bool path_good = parseTarget(target.substr(0, target.find('?')), without).has_value();
    if (!path_good) return std::unexpected(ParseFailure{400, parsed.error().message});
    request.path = std::move(without.path);
    request.query.clear();
    request.bad_query = parsed.error().message;
    request.target = target;
  }
  return request;
}

std::string RequestParser::takeBody() {
  return std::exchange(state_->parser.get().body().bytes, {});
}

std::optional<Request> RequestParser::withUnknownCredential(std::string_view rest) const {
  const auto& message = state_->parser.get();
  const std::string_view target(message.target().data(), message.target().size());
  std::string line(message.method_string().data(), message.method_string().size());
  if (target.empty()) {  // the first line is not used yet
    line = takeLine(rest);
  } else {
    line += " " + std::string(target) + " HTTP/1.1";
  }
  if (!isCredentialLarge(rest, state_->head_bytes)) return std::nullopt;
  line += "\r\nHost: localhost\r\nAuthorization: Bearer too-large\r\n\r\n";
  auto request = parseRequest(line, {.head_bytes = state_->head_bytes + kEnoughHead});
  return request ? std::optional(*std::move(request)) : std::nullopt;
}

std::expected<Request, ParseFailure> parseRequest(std::string_view bytes,
                                                  const HttpLimits& limits) {
  RequestParser parser(limits);
  std::optional<Request> request;
  while (!parser.done()) {
    const auto used = parser.feed(bytes);
    if (!used) return std::unexpected(used.error());
    bytes.remove_prefix(*used);
    if (parser.headDone() && !request) {
      auto head = parser.head();
      if (!head) return std::unexpected(head.error());
      request = std::move(*head);
      if (auto small = parser.limitBody(limits.body_bytes); !small) {
        return std::unexpected(small.error());
      }
    } else if (*used == 0) {
      return std::unexpected(ParseFailure{400, "request: ends early"});
    }
  }
  request->body = parser.takeBody();
  return std::move(*request);
}

}  // namespace cloister::api
