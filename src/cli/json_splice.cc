// SPDX-License-Identifier: Apache-2.0
#include "cli/json_splice.h"

#include <algorithm>
#include <optional>

#include "base/json.h"

namespace cloister::cli {
namespace {

constexpr size_t kMostDepth = 64;
constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kStep = "  ";

// An object in the text, as far as needed for a splice.
struct ObjectSpan {
  size_t open = 0;  // after the brace
  bool empty = true;
  size_t first = 0;  // where its first member begins
  // The value of the requested member: [begin, end).
  std::optional<std::pair<size_t, size_t>> value = {};
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Reads the object at this position, noting the member `name`.
  Result<ObjectSpan> object(std::string_view name, size_t depth);
  // White space and comments.
  Result<> space();
  [[nodiscard]] bool ended() const { return at_ == text_.size(); }
  void seek(size_t at) { at_ = at; }
  [[nodiscard]] size_t at() const { return at_; }

 private:
  [[nodiscard]] char peek() const { return ended() ? '\0' : text_[at_]; }
  [[nodiscard]] Error wrong(std::string_view what) const {
    return {.code = Code::kInvalid,
            .message = std::string(what) + " at byte " + std::to_string(at_),
            .field = {}};
  }
  Result<> expect(char c) {
    if (peek() != c || ended()) return std::unexpected(wrong(std::string("expected '") + c + "'"));
    ++at_;
    return {};
  }
  Result<std::string> string();
  Result<> value(size_t depth);
  Result<> array(size_t depth);
  Result<> scalar();

  std::string_view text_;
  size_t at_ = 0;
};

Result<> Scanner::space() {
  for (;;) {
    at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (rest.starts_with("/*")) {
      const size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) return std::unexpected(wrong("a comment without an end"));
      at_ = end + 2;
    } else {
      return {};
    }
  }
}

Result<std::string> Scanner::string() {
  const size_t begin = at_;
  TRY(expect('"'));
  while (!ended() && text_[at_] != '"')
    at_ = std::min(at_ + (text_[at_] == '\\' ? 2 : 1), text_.size());
  if (at_ >= text_.size()) {
    at_ = begin;
    return std::unexpected(wrong("a string without an end"));
  }
  ++at_;
  const auto parsed = base::parseJson(text_.substr(begin, at_ - begin));
  if (!parsed || !parsed->is_string()) return std::unexpected(wrong("a malformed string before"));
  return std::string(parsed->get_string());
}

Result<> Scanner::scalar() {
  const size_t end = text_.find_first_of(" \t\r\n,]}/", at_);
  const std::string_view word = text_.substr(at_, std::min(end, text_.size()) - at_);
  if (!base::parseJson(word)) return std::unexpected(wrong("expected a value"));
  at_ += word.size();
  return {};
}

Result<> Scanner::array(size_t depth) {
  TRY(expect('['));
  for (;;) {
    TRY(space());
    if (peek() == ']') return expect(']');
    TRY(value(depth));
    TRY(space());
    if (peek() != ']') TRY(expect(','));
  }
}

Result<> Scanner::value(size_t depth) {
  if (depth >= kMostDepth) return std::unexpected(wrong("nested too deep"));
  switch (peek()) {
    case '{':
      TRY(object({}, depth + 1));
      return {};
    case '[':
      return array(depth + 1);
    case '"':
      TRY(string());
      return {};
    default:
      return scalar();
  }
}

Result<ObjectSpan> Scanner::object(std::string_view name, size_t depth) {
  TRY(expect('{'));
  ObjectSpan place{.open = at_};
  for (;;) {
    TRY(space());
    if (peek() == '}') break;
    if (place.empty) place.first = at_;
    place.empty = false;
    const bool wanted = TRY(string()) == name && !name.empty();
    if (wanted && place.value) {
      return std::unexpected(wrong("\"" + std::string(name) + "\" is there twice, again"));
    }
    TRY(space());
    TRY(expect(':'));
    TRY(space());
    const size_t begin = at_;
    TRY(value(depth));
    if (wanted) place.value = {begin, at_};
    TRY(space());
    if (peek() != '}') TRY(expect(','));
  }
  TRY(expect('}'));
  return place;
}

// `value` with each of its lines but the first moved right.
std::string indented(std::string_view value, const std::string& indent) {
  std::string out;
  for (const char c : value) {
    out += c;
    if (c == '\n') out += indent;
  }
  return out;
}

// The white space before `at`, if nothing else precedes `at` on its line.
std::optional<std::string> indentAt(std::string_view text, size_t at) {
  const size_t line = text.substr(0, at).find_last_of('\n');
  if (line == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(line + 1, at - line - 1);
  if (before.find_first_not_of(" \t") != std::string_view::npos) return std::nullopt;
  return std::string(before);
}

// A new first member of an object whose members would usually be indented by `usual`.
std::string inserted(std::string_view text, const ObjectSpan& place, std::string_view name,
                     std::string_view value, const std::string& usual) {
  const std::string indent = place.empty ? usual : indentAt(text, place.first).value_or(usual);
  std::string member = "\n" + indent + quotedJson(name) + ": " + indented(value, indent);
  std::string_view rest = text.substr(place.open);
  if (!place.empty) {
    member += ',';
    if (!indentAt(text, place.first)) member += "\n" + indent;
  } else {
    member += "\n" + usual.substr(0, usual.size() - kStep.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(kSpace), rest.size()));
  }
  return std::string(text.substr(0, place.open)) + member + std::string(rest);
}

}  // namespace

std::string quotedJson(std::string_view text) {
  return base::toJson(base::json::string(text));
}

Result<std::string> spliceMember(std::string_view text, const Splice& splice) {
  if (text.find_first_not_of(kSpace) == std::string_view::npos) text = "{}\n";
  Scanner scanner(text);
  if (text.starts_with("\xEF\xBB\xBF"))
    scanner.seek(3);  // a byte order mark, as some editors write
  TRY(scanner.space());
  const ObjectSpan root = TRY(scanner.object(splice.group, 0));
  TRY(scanner.space());
  if (!scanner.ended()) {
    return fail(Code::kInvalid, "text after the object, at byte " + std::to_string(scanner.at()));
  }
  const std::string one(kStep);
  if (!root.value) {
    const std::string group =
        "{\n" + one + quotedJson(splice.name) + ": " + indented(splice.value, one) + "\n}";
    return inserted(text, root, splice.group, group, one);
  }
  if (text[root.value->first] != '{') {
    return fail(Code::kInvalid, "\"" + std::string(splice.group) + "\" is not an object");
  }
  scanner.seek(root.value->first);
  const ObjectSpan group = TRY(scanner.object(splice.name, 1));
  const std::string two = indentAt(text, root.first).value_or(one) + one;
  if (!group.value) return inserted(text, group, splice.name, splice.value, two);
  const auto [begin, end] = *group.value;
  const std::string indent = indentAt(text, group.first).value_or(two);
  return std::string(text.substr(0, begin)) + indented(splice.value, indent) +
         std::string(text.substr(end));
}

}  // namespace cloister::cli
