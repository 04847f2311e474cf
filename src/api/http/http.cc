// SPDX-License-Identifier: Apache-2.0
#include "api/http/http.h"

#include <algorithm>
#include <array>

namespace cloister::api {
namespace {

int hexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<> parsePath(std::string_view path, Request& request) {
  path.remove_prefix(1);
  while (true) {
    const size_t slash = path.find('/');
    request.path.push_back(TRY(percentDecode(path.substr(0, slash), false)));
    if (slash == std::string_view::npos) return {};
    path.remove_prefix(slash + 1);
  }
}

using Query = std::vector<std::pair<std::string, std::string>>;

Result<> parseQuery(std::string_view query, bool repeated, Query& into) {
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    const size_t equals = pair.find('=');
    std::string name = TRY(percentDecode(pair.substr(0, equals), true));
    std::string value = equals == std::string_view::npos
                            ? std::string()
                            : TRY(percentDecode(pair.substr(equals + 1), true));
    if (!repeated && std::ranges::any_of(into, [&](const auto& q) { return q.first == name; })) {
      return fail(Code::kInvalid, "query parameter given twice: " + name, "query." + name);
    }
    into.emplace_back(std::move(name), std::move(value));
    query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
  }
  return {};
}

}  // namespace

std::string_view Request::header(std::string_view name) const {
  const auto it = std::ranges::find(headers, name, &Header::name);
  return it == headers.end() ? std::string_view() : std::string_view(it->value);
}

size_t Request::count(std::string_view name) const {
  return static_cast<size_t>(std::ranges::count(headers, name, &Header::name));
}

Response& Response::with(std::string name, std::string value) & {
  headers.push_back({std::move(name), std::move(value)});
  return *this;
}

Response&& Response::with(std::string name, std::string value) && {
  headers.push_back({std::move(name), std::move(value)});
  return std::move(*this);
}

Response jsonResponse(int status, const base::json::value& value) {
  Response response;
  response.status = status;
  response.with("Content-Type", "application/json");
  response.body = base::toJson(value);
  return response;
}

std::string_view reasonPhrase(int status) {
  struct Phrase {
    int status;
    std::string_view text;
  };
  static constexpr auto kPhrases = std::to_array<Phrase>({
      {101, "Switching Protocols"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {206, "Partial Content"},
      {304, "Not Modified"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {411, "Length Required"},
      {412, "Precondition Failed"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {416, "Range Not Satisfiable"},
      {417, "Expectation Failed"},
      {421, "Misdirected Request"},
      {422, "Unprocessable Content"},
      {426, "Upgrade Required"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
      {507, "Insufficient Storage"},
  });
  const auto* it = std::ranges::find(kPhrases, status, &Phrase::status);
  return it == kPhrases.end() ? "Unknown" : it->text;
}

Result<> parseTarget(std::string_view target, Request& request) {
  if (target.empty() || target.front() != '/') {
    return fail(Code::kInvalid, "request target: must begin with /");
  }
  request.target = target;
  const size_t question = target.find('?');
  TRY(parsePath(target.substr(0, question), request));
  if (question == std::string_view::npos) return {};
  return parseQuery(target.substr(question + 1), false, request.query);
}

Result<Query> parseRepeatedQuery(std::string_view target) {
  Query query;
  const size_t question = target.find('?');
  if (question == std::string_view::npos) return query;
  TRY(parseQuery(target.substr(question + 1), true, query));
  return query;
}

Result<std::string> percentDecode(std::string_view text, bool plus) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hexDigit(text[i + 1]) : -1;
      const int low = high >= 0 ? hexDigit(text[i + 2]) : -1;
      if (low < 0) return fail(Code::kInvalid, "request target: a % escape is malformed");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus) {
      c = ' ';
    }
    if (c == '\0') return fail(Code::kInvalid, "request target: contains NUL");
    out.push_back(c);
  }
  if (!base::isUtf8(out)) return fail(Code::kInvalid, "request target: is not UTF-8");
  return out;
}

std::string percentEncode(std::string_view text) {
  static constexpr std::string_view kPlain = "!#$&+-.^_`|~";
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (alnum || kPlain.contains(c)) {
      out.push_back(c);
    } else {
      out += {'%', kDigits[static_cast<uint8_t>(c) >> 4], kDigits[static_cast<uint8_t>(c) & 15]};
    }
  }
  return out;
}

std::string_view bearerToken(const Request& request) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view authorization = request.header("authorization");
  if (lowerCase(authorization.substr(0, kScheme.size())) != kScheme) return {};
  return authorization.substr(kScheme.size());
}

std::string lowerCase(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace cloister::api
