// SPDX-License-Identifier: Apache-2.0
#include "api/compat/multipart.h"

#include <utility>

namespace cloister::api::compat {
namespace {

constexpr size_t kMaxHead = 8192;     // of a part's headers
constexpr size_t kMaxBoundary = 200;  // RFC 2046 permits 70
constexpr size_t kMaxPreamble = 8192;

std::unexpected<Error> malformed(std::string_view why) {
  return fail(Code::kInvalid, "request body: not multipart/form-data: " + std::string(why));
}

// The value of a parameter such as `name="a\"b"`; nullopt without the parameter.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  size_t at = header.find(';');
  while (at != std::string_view::npos) {
    at = header.find_first_not_of(" \t;", at);
    if (at == std::string_view::npos) break;
    const size_t equals = header.find('=', at);
    if (equals == std::string_view::npos) break;
    const bool found = lowerCase(header.substr(at, equals - at)) == name;
    std::string value;
    size_t end = equals + 1;
    if (end < header.size() && header[end] == '"') {
      for (++end; end < header.size() && header[end] != '"'; ++end) {
        if (header[end] == '\\' && end + 1 < header.size() && header[end + 1] == '"') ++end;
        value.push_back(header[end]);
      }
      at = header.find(';', end);
    } else {
      at = header.find(';', end);
      value = header.substr(end, at == std::string_view::npos ? at : at - end);
      while (value.ends_with(' '))
        value.pop_back();
    }
    if (found) return value;
  }
  return std::nullopt;
}

// Browsers and fetch() escape a quote and line breaks of a name (WHATWG HTML, "multipart/form-data
// encoding algorithm").
std::string unescaped(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {
      {"%22", "\""}, {"%0D", "\r"}, {"%0A", "\n"}};
  for (const auto& [escape, plain] : kEscapes) {
    for (size_t at = text.find(escape); at != std::string::npos; at = text.find(escape, at + 1))
      text.replace(at, escape.size(), plain);
  }
  return text;
}

Result<MultipartReader::Part> readHead(std::string_view head) {
  MultipartReader::Part part;
  bool disposed = false;
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(std::min(head.size(), line.size() + 2));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return malformed("a header of a part has no colon");
    const std::string name = lowerCase(line.substr(0, colon));
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.size(), value.find_first_not_of(" \t")));
    if (name == "content-type") part.content_type = value;
    if (name != "content-disposition") continue;
    disposed = true;
    part.name = unescaped(parameter(value, "name").value_or(""));
    if (auto file = parameter(value, "filename")) part.filename = unescaped(*std::move(file));
  }
  if (!disposed) return malformed("a part has no Content-Disposition");
  return part;
}

}  // namespace

Result<MultipartReader> MultipartReader::make(std::string_view content_type, Source source) {
  auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > kMaxBoundary) {
    return fail(Code::kInvalid, "Content-Type: must name a boundary of at most 200 bytes",
                "header.Content-Type");
  }
  return MultipartReader(*std::move(boundary), std::move(source));
}

Task<Result<>> MultipartReader::more() {
  const std::string piece = CO_TRY(co_await source_());
  if (piece.empty()) co_return malformed("it ends before its last delimiter");
  held_ += piece;
  co_return Result<>{};
}

// Content may have the delimiter with other text behind it. Without two bytes behind it, whether it
// is one is not known yet.
MultipartReader::Found MultipartReader::findDelimiter() const {
  const std::string_view held = held_;
  size_t at = held.find(delimiter_);
  while (at != std::string_view::npos) {
    const std::string_view behind = held.substr(at + delimiter_.size(), 2);
    const bool known = behind == "\r\n" || behind == "--";
    if (known || behind.size() < 2) return {.at = at, .known = known};
    at = held.find(delimiter_, at + 1);
  }
  return {};
}

Task<Result<std::optional<MultipartReader::Part>>> MultipartReader::next() {
  while (in_part_) {
    const std::string skipped = CO_TRY(co_await read());
    if (skipped.empty()) break;
  }
  if (ended_) co_return std::nullopt;
  // The preamble, or nothing: read() stops before a delimiter.
  Found delimiter = findDelimiter();
  while (!delimiter.known) {
    if (begun_ || held_.size() > kMaxPreamble) co_return malformed("the delimiter is missing");
    CO_TRY(co_await more());
    delimiter = findDelimiter();
  }
  held_.erase(0, delimiter.at + delimiter_.size());
  begun_ = true;
  if (held_.starts_with("--")) {
    ended_ = true;
    while (!CO_TRY(co_await source_()).empty()) {
    }
    co_return std::nullopt;
  }
  size_t end = 0;
  while ((end = held_.find("\r\n\r\n")) == std::string::npos) {
    if (held_.size() > kMaxHead) co_return malformed("the headers of a part are too large");
    CO_TRY(co_await more());
  }
  if (end > kMaxHead) co_return malformed("the headers of a part are too large");
  const std::string_view head =
      end == 0 ? std::string_view() : std::string_view(held_).substr(2, end - 2);
  const Part part = CO_TRY(readHead(head));
  held_.erase(0, end + 4);
  in_part_ = true;
  co_return part;
}

Task<Result<std::string>> MultipartReader::read() {
  if (!in_part_) co_return std::string();
  while (true) {
    const auto [at, known] = findDelimiter();
    if (at == 0 && known) {
      in_part_ = false;
      co_return std::string();
    }
    // Without a delimiter, the end may be the beginning of one.
    const size_t given = at != std::string::npos            ? at
                         : held_.size() < delimiter_.size() ? 0
                                                            : held_.size() - delimiter_.size() + 1;
    if (given > 0) {
      std::string piece = held_.substr(0, given);
      held_.erase(0, given);
      co_return piece;
    }
    CO_TRY(co_await more());
  }
}

}  // namespace cloister::api::compat
