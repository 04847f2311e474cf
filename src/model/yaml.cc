// SPDX-License-Identifier: Apache-2.0
#include "model/yaml.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <vector>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

namespace cloister::model {
namespace {

namespace json = base::json;

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxPath = 256;

template <class T>
std::optional<T> number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

json::value plainScalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null") return nullptr;
  if (text == "true" || text == "false") return text == "true";
  if (const auto whole = number<int64_t>(text)) return *whole;
  // Only text that begins like a number: "inf" and "nan" are words here.
  if (text.find_first_of("0123456789") <= 2) {
    if (const auto real = number<double>(text); real && std::isfinite(*real)) return *real;
  }
  return json::value(text);
}

// Builds a JSON value from yaml-cpp's events. The first fault is kept and ends all building.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(YamlLines* lines = nullptr) : lines_(lines) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (plain(mark, "?", anchor)) add(mark, nullptr);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases are not allowed");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!plain(mark, tag, anchor)) return;
    if (!base::isUtf8(value)) return refuse(mark, "is not UTF-8");
    if (!open_.empty() && open_.back().value.is_object() && !open_.back().key) {
      open_.back().key = value;
      if (lines_ != nullptr) note(mark, nextPath());
      return;
    }
    if (lines_ != nullptr) note(mark, nextPath());
    add(mark, tag == "!" ? json::value(value) : plainScalar(value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, json::array());
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, json::object());
  }
  void OnMapEnd() override { end(); }

  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] json::value& result() { return result_; }

 private:
  struct Open {
    YAML::Mark mark;
    json::value value;
    std::optional<std::string> key = {};  // of a map, read and waiting for its value
    std::string path = {};
  };

  // The path of the next node.
  [[nodiscard]] std::string nextPath() const {
    if (open_.empty()) return "";
    const Open& top = open_.back();
    if (const json::array* array = top.value.if_array()) {
      return top.path + "[" + std::to_string(array->size()) + "]";
    }
    if (!top.key || top.path.size() + top.key->size() > kMaxPath) return "";
    return top.path.empty() ? *top.key : top.path + "." + *top.key;
  }

  void note(const YAML::Mark& mark, const std::string& path) {
    if (lines_ != nullptr && !path.empty() && path.size() <= kMaxPath) {
      lines_->emplace(path, mark.line + 1);
    }
  }

  void refuse(const YAML::Mark& mark, const std::string& why) {
    if (error_.empty()) error_ = "line " + std::to_string(mark.line + 1) + ": " + why;
  }

  bool plain(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) refuse(mark, "anchors are not allowed");
    if (!tag.empty() && tag != "?" && tag != "!") refuse(mark, "tags are not allowed");
    return error_.empty();
  }

  void start(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
             json::value value) {
    if (!plain(mark, tag, anchor)) return;
    if (open_.size() >= kMaxDepth) return refuse(mark, "nested too deeply");
    std::string path = lines_ == nullptr ? "" : nextPath();
    note(mark, path);
    open_.push_back({.mark = mark, .value = std::move(value), .path = std::move(path)});
  }

  void end() {
    if (!error_.empty()) return;
    Open closed = std::move(open_.back());
    open_.pop_back();
    add(closed.mark, std::move(closed.value));
  }

  void add(const YAML::Mark& mark, json::value value) {
    if (open_.empty()) {
      result_ = std::move(value);
      return;
    }
    Open& top = open_.back();
    if (json::array* array = top.value.if_array()) {
      array->push_back(std::move(value));
    } else if (!top.key) {
      refuse(mark, "a key must be text");
    } else if (!top.value.get_object().emplace(*top.key, std::move(value)).second) {
      refuse(mark, *top.key + ": given twice");
    } else {
      top.key.reset();
    }
  }

  YamlLines* lines_;
  std::vector<Open> open_;
  json::value result_;
  std::string error_;
};

constexpr const char* kMoreThanOne = "has more than one document";

// yaml-cpp throws on unreadable text; the exception stops here.
std::string build(std::string_view yaml, Builder& builder) {
  try {
    std::istringstream stream{std::string(yaml)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return "is empty";
    if (!builder.error().empty()) return builder.error();
    Builder rest;
    if (parser.HandleNextDocument(rest)) return kMoreThanOne;
  } catch (const YAML::Exception& error) {
    return error.what();
  }
  return builder.result().is_object() ? "" : "must be a map";
}

}  // namespace

Result<> requireOneDocument(std::string_view yaml) {
  try {
    std::istringstream stream{std::string(yaml)};
    YAML::Parser parser(stream);
    Builder first;
    Builder rest;
    if (parser.HandleNextDocument(first) && parser.HandleNextDocument(rest)) {
      return fail(Code::kInvalid, kMoreThanOne);
    }
  } catch (const YAML::Exception& error) {
    return fail(Code::kInvalid, error.what());
  }
  return {};
}

int lineOf(const YamlLines& lines, std::string_view path) {
  while (!path.empty()) {
    if (const auto found = lines.find(path); found != lines.end()) return found->second;
    const size_t cut = path.find_last_of(".[");
    path = path.substr(0, cut == std::string_view::npos ? 0 : cut);
  }
  return 0;
}

Result<json::object> parseYaml(std::string_view yaml, std::string_view name, YamlLines* lines) {
  const std::string file(name);
  if (yaml.size() > kMaxYamlBytes) {
    return fail(Code::kTooLarge,
                file + ": larger than " + std::to_string(kMaxYamlBytes) + " bytes");
  }
  Builder builder(lines);
  if (const std::string error = build(yaml, builder); !error.empty()) {
    return fail(Code::kInvalid, file + ": " + error);
  }
  return std::move(builder.result().get_object());
}

Result<std::vector<std::string>> textList(base::ObjectReader& reader, std::string_view name) {
  constexpr size_t kMaxItems = 256;
  const std::string path = reader.pathOf(name);
  const json::array* items = TRY(reader.array(name));
  std::vector<std::string> texts;
  if (items == nullptr) return texts;
  if (items->size() > kMaxItems) return fail(Code::kInvalid, path + ": too many items", path);
  for (const json::value& item : *items) {
    if (!item.is_string() || item.get_string().find('\0') != std::string_view::npos) {
      return fail(Code::kInvalid, path + ": must be a list of text (quote numbers)", path);
    }
    texts.emplace_back(item.get_string());
  }
  return texts;
}

Result<std::string> requiredText(base::ObjectReader& reader, std::string_view name) {
  const std::string path = reader.pathOf(name);
  const auto text = TRY(reader.text(name));
  if (!text || text->empty()) return fail(Code::kInvalid, path + ": is required", path);
  if (text->find('\0') != std::string::npos) {
    return fail(Code::kInvalid, path + ": must not contain NUL", path);
  }
  return *text;
}

}  // namespace cloister::model
