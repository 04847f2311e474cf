// SPDX-License-Identifier: Apache-2.0
#include "model/request_shown.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/crypto.h"
#include "model/shown_text.h"

namespace cloister::model {
namespace {

namespace json = base::json;

std::string textOf(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

// The bytes of a member, decoded by the member `encoding`.
std::string bytesOf(const json::object& object, std::string_view name) {
  std::string text = textOf(object, name);
  if (textOf(object, "encoding") != "base64") return text;
  return base::fromBase64(text).value_or(text);
}

class Finder {
 public:
  void look(const json::value& value, const std::string& at) {
    if (value.is_string()) return text(std::string_view(value.get_string()), at, at == "code");
    if (const json::array* items = value.if_array()) {
      for (size_t i = 0; i < items->size(); ++i)
        look((*items)[i], at + "[" + std::to_string(i) + "]");
    } else if (const json::object* object = value.if_object()) {
      members(*object, at);
    }
  }

  void members(const json::object& object, const std::string& at) {
    for (const auto& [name, value] : object) {
      const std::string path = (at.empty() ? "" : at + ".") + std::string(name);
      text(std::string_view(name), path + " (name)", false);
      const bool bytes = name == "input" || (name == "content" && at.starts_with("files["));
      if (bytes && value.is_string()) {
        const std::string content = bytesOf(object, name);
        if (base::isUtf8(content)) text(content, path, true);
      } else {
        look(value, path);
      }
    }
  }

  json::array take() { return std::move(found_); }
  [[nodiscard]] uint64_t leftOut() const { return left_out_; }

 private:
  void text(std::string_view text, const std::string& at, bool lines) {
    for (const Unusual& each : unusualIn(text, lines, kMostUnusual - found_.size(), left_out_)) {
      found_.push_back(json::object{{"at", at},
                                    {"offset", each.offset},
                                    {"codepoint", codepointName(each.point)},
                                    {"what", each.what}});
    }
  }

  json::array found_;
  uint64_t left_out_ = 0;
};

json::array filesOf(const json::object& request) {
  json::array files;
  const json::value* given = request.if_contains("files");
  if (given == nullptr || !given->is_array()) return files;
  for (const json::value& item : given->get_array()) {
    if (!item.is_object()) continue;
    const json::object& file = item.get_object();
    const std::string content = bytesOf(file, "content");
    const json::value* runs = file.if_contains("executable");
    files.push_back(json::object{{"path", textOf(file, "path")},
                                 {"bytes", content.size()},
                                 {"sha256", base::sha256Hex(content)},
                                 {"executable", runs != nullptr && *runs == json::value(true)},
                                 {"text", base::isUtf8(content)}});
  }
  return files;
}

json::value textOrNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

}  // namespace

json::object shownRequest(const Escalation& escalation, const json::object& request,
                          json::value workspace) {
  Finder finder;
  finder.members(request, "");
  json::array files = filesOf(request);
  return {{"escalation_id", escalation.id},
          {"operation", escalation.operation},
          {"session_id", textOrNull(escalation.session_id)},
          {"digest", textOrNull(escalation.digest)},
          {"request", request},
          {"files", std::move(files)},
          {"workspace", std::move(workspace)},
          {"unusual", finder.take()},
          {"unusual_left_out", finder.leftOut()}};
}

bool withholdEnv(json::object& request) {
  json::value* env = request.if_contains("env");
  json::object* variables = env == nullptr ? nullptr : env->if_object();
  if (variables == nullptr || variables->empty()) return false;
  for (auto& [name, value] : *variables)
    value = nullptr;
  return true;
}

}  // namespace cloister::model
