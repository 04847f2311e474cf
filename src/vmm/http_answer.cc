// SPDX-License-Identifier: Apache-2.0
#include "vmm/http_answer.h"

namespace cloister::vmm {
namespace {

constexpr std::string_view kLine = "\r\n";
constexpr std::string_view kEnd = "\r\n\r\n";
constexpr int kNoContent = 204;

// Replaces substr(), which throws: `begin` must be within the text, and `count` may exceed the
// rest.
std::string_view part(std::string_view text, size_t begin, size_t count = std::string_view::npos) {
  text.remove_prefix(begin);
  return {text.data(), count < text.size() ? count : text.size()};
}

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

// "HTTP/1.1 204 No Content"; 0 for other text.
int statusOf(std::string_view line) {
  if (!line.starts_with("HTTP/1.0 ") && !line.starts_with("HTTP/1.1 ")) return 0;
  line.remove_prefix(9);
  if (line.size() < 3 || !isDigit(line[0]) || !isDigit(line[1]) || !isDigit(line[2])) return 0;
  if (line.size() > 3 && line[3] != ' ') return 0;
  const int status = (line[0] - '0') * 100 + (line[1] - '0') * 10 + (line[2] - '0');
  return status >= 200 && status < 600 ? status : 0;
}

bool isNamed(std::string_view name, std::string_view wanted) {
  if (name.size() != wanted.size()) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i] >= 'A' && name[i] <= 'Z' ? static_cast<char>(name[i] + 32) : name[i];
    if (c != wanted[i]) return false;
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

// Parses a permitted length; false otherwise.
bool parseLength(std::string_view text, size_t& length) {
  if (text.empty() || text.size() > 6) return false;
  length = 0;
  for (const char c : text) {
    if (!isDigit(c)) return false;
    length = length * 10 + static_cast<size_t>(c - '0');
  }
  return length <= kMostAnswer;
}

struct Head {
  bool said = false;  // how long the body is
  size_t length = 0;
};

bool takeHeader(std::string_view line, Head& head) {
  const size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos) return false;
  const std::string_view name = part(line, 0, colon);
  if (isNamed(name, "transfer-encoding")) return false;
  if (!isNamed(name, "content-length")) return true;
  if (head.said) return false;
  head.said = true;
  return parseLength(trimmed(part(line, colon + 1)), head.length);
}

// The header lines of `text` after the first line; `text` ends without a line end.
bool takeHeaders(std::string_view text, Head& head) {
  for (size_t at = text.find(kLine); at != std::string_view::npos;) {
    text.remove_prefix(at + kLine.size());
    at = text.find(kLine);
    if (!takeHeader(part(text, 0, at), head)) return false;
  }
  return true;
}

}  // namespace

Parsed parseAnswer(std::string_view bytes, Answer& answer) {
  if (bytes.size() > kMostAnswer) return Parsed::kMalformed;
  const size_t end = bytes.find(kEnd);
  if (end == std::string_view::npos) {
    return bytes.size() < kMostAnswer ? Parsed::kMore : Parsed::kMalformed;
  }
  const std::string_view text = part(bytes, 0, end);
  answer.status = statusOf(part(text, 0, text.find(kLine)));
  Head head;
  if (answer.status == 0 || !takeHeaders(text, head)) return Parsed::kMalformed;
  const size_t begin = end + kEnd.size();
  if (answer.status == kNoContent && head.length != 0) return Parsed::kMalformed;
  if (begin + head.length > kMostAnswer) return Parsed::kMalformed;
  if (bytes.size() < begin + head.length) return Parsed::kMore;
  if (bytes.size() > begin + head.length) return Parsed::kMalformed;
  answer.body = part(bytes, begin);
  return Parsed::kWhole;
}

}  // namespace cloister::vmm
