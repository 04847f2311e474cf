// SPDX-License-Identifier: Apache-2.0
#include "cli/http_head.h"

#include <algorithm>
#include <charconv>

namespace cloister::cli {
namespace {

std::unexpected<Error> bad(std::string_view what) {
  return fail(Code::kUnavailable, "reading the server's answer: " + std::string(what));
}

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

bool isToken(char c) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kMarks.find(c) != std::string_view::npos;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return out;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Takes one CRLF-ended line off the front.
std::string_view takeLine(std::string_view& text) {
  const size_t end = text.find("\r\n");
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
  return line;
}

Result<int> parseStatus(std::string_view line) {
  const bool version = line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ");
  if (!version || line.size() < 12 || !std::ranges::all_of(line.substr(9, 3), isDigit) ||
      (line.size() > 12 && line[12] != ' ')) {
    return bad("it is not HTTP/1.1");
  }
  const int status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
  if (status < 100 || status > 599) return bad("its status is out of range");
  return status;
}

}  // namespace

Result<HttpHead> parseHead(std::string_view text) {
  constexpr size_t kMaxFields = 100;
  HttpHead head;
  head.status = TRY(parseStatus(takeLine(text)));
  size_t fields = 0;
  while (!text.empty()) {
    const std::string_view line = takeLine(text);
    const size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    if (colon == std::string_view::npos || name.empty() || !std::ranges::all_of(name, isToken)) {
      return bad("a malformed header field");
    }
    const std::string_view value = trim(line.substr(colon + 1));
    const auto control = [](char c) {
      return (static_cast<uint8_t>(c) < 0x20 && c != '\t') || c == 0x7f;
    };
    if (std::ranges::any_of(value, control)) return bad("a control character in a header field");
    if (++fields > kMaxFields) return bad("too many header fields");
    auto [at, fresh] = head.headers.emplace(lower(name), value);
    if (!fresh) at->second.append(", ").append(value);
  }
  return head;
}

std::string HttpHead::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

Result<std::optional<uint64_t>> contentLength(const HttpHead& head) {
  const std::string text = head.header("content-length");
  if (text.empty()) return std::nullopt;
  std::optional<uint64_t> length;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = trim(std::string_view(text).substr(at, comma - at));
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (item.empty() || error != std::errc() || end != item.data() + item.size() ||
        (length && *length != value)) {
      return bad("its Content-Length is malformed");
    }
    length = value;
    at = comma + 1;
  }
  return length;
}

Result<uint64_t> chunkSize(std::string_view line) {
  const std::string_view digits = trim(line.substr(0, line.find(';')));
  constexpr size_t kMaxDigits = 8;
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
  if (digits.empty() || digits.size() > kMaxDigits || error != std::errc() ||
      end != digits.data() + digits.size()) {
    return bad("a malformed chunk");
  }
  return size;
}

}  // namespace cloister::cli
