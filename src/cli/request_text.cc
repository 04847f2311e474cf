// SPDX-License-Identifier: Apache-2.0
#include "cli/request_text.h"

#include <algorithm>
#include <string_view>

#include "base/crypto.h"
#include "cli/api.h"
#include "cli/render/terminal.h"
#include "model/shown_text.h"

namespace cloister::cli {
namespace {

constexpr std::string_view kIndent = "     ";

std::string marked(const json::value& value) {
  return value.is_string() ? "\"" + model::markedText(std::string_view(value.get_string())) + "\""
                           : model::markedText(base::toJson(value));
}

// Each line gets a bar in front, so that no line can be mistaken for ours.
std::string block(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out += std::string(kIndent) + "| " + model::markedText(text.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  if (!text.ends_with('\n')) out += std::string(kIndent) + "(no line end)\n";
  return out;
}

std::string bytes(std::string_view name, const json::object& object, std::string_view field) {
  std::string text = textOf(object, field);
  const bool coded = textOf(object, "encoding") == "base64";
  const std::string content = coded ? base::fromBase64(text).value_or(text) : text;
  std::string out = "   " + std::string(name) + " (" + std::to_string(content.size()) +
                    " bytes, sha256 " + base::sha256Hex(content) + ")";
  if (content.empty()) return out + "\n";
  const bool is_text = base::isUtf8(content);
  return out + (is_text ? ":\n" : ", no text, as base64:\n") + block(is_text ? content : text);
}

std::string member(std::string_view name, const json::value& value) {
  const std::string head = "   " + model::markedText(name) + ":";
  if (const json::array* items = value.if_array()) {
    if (items->empty()) return head + " none\n";
    std::string out = head + "\n";
    for (const json::value& item : *items)
      out += std::string(kIndent) + marked(item) + "\n";
    return out;
  }
  if (const json::object* object = value.if_object()) {
    if (object->empty()) return head + " none\n";
    std::string out = head + "\n";
    for (const auto& [inner, text] : *object)
      out += std::string(kIndent) + model::markedText(std::string_view(inner)) + " = " +
             marked(text) + "\n";
    return out;
  }
  return head + " " + marked(value) + "\n";
}

std::string filesText(const json::array& files) {
  std::string out;
  for (const json::value& item : files) {
    if (!item.is_object()) continue;
    const json::object& file = item.get_object();
    out += bytes("file \"" + model::markedText(textOf(file, "path")) + "\"" +
                     (boolOf(file, "executable") ? ", executable" : ""),
                 file, "content");
  }
  return out;
}

std::string nameText(const json::object& name) {
  std::string out = std::string(kIndent) + printable(textOf(name, "mode")) + " " +
                    printable(textOf(name, "type")) + " " + printable(textOf(name, "path"));
  if (!textOf(name, "target").empty()) out += " -> " + printable(textOf(name, "target"));
  if (!textOf(name, "sha256").empty()) {
    out += " (" + std::to_string(integerOf(name, "bytes")) + " bytes, sha256 " +
           printable(textOf(name, "sha256"));
    if (!textOf(name, "modified").empty())
      out += ", modified " + printable(textOf(name, "modified"));
    if (!textOf(name, "hard_link_of").empty())
      out += ", hard link of " + printable(textOf(name, "hard_link_of"));
    out += ")";
  }
  return out + "\n";
}

// The service has written paths and targets as escapes already.
std::string workspaceText(const json::object& workspace) {
  std::string out =
      "   The workspace that it is bound to, as it was when this was asked for; what "
      "is read there now may differ:\n" +
      std::string(kIndent) + std::to_string(integerOf(workspace, "files")) +
      " files and directories, " + std::to_string(integerOf(workspace, "bytes")) +
      " bytes, sha256 " + printable(textOf(workspace, "sha256")) + "\n";
  for (const json::value& item : arrayOf(workspace, "names"))
    if (item.is_object()) out += nameText(item.get_object());
  const int64_t more = integerOf(workspace, "left_out");
  if (more > 0) {
    out += std::string(kIndent) + "and " + std::to_string(more) +
           " more that are not listed, which it is bound to as well\n";
  }
  return out;
}

std::string unusualText(const json::object& shown) {
  std::string out;
  for (const json::value& item : arrayOf(shown, "unusual")) {
    if (!item.is_object()) continue;
    const json::object& one = item.get_object();
    out += std::string(kIndent) + model::markedText(textOf(one, "at")) + ", byte " +
           textOf(one, "offset") + ": " + printable(textOf(one, "codepoint")) + ", " +
           printable(textOf(one, "what")) + "\n";
  }
  if (out.empty()) return "   Unusual characters: none\n";
  const int64_t more = integerOf(shown, "unusual_left_out");
  if (more > 0) out += std::string(kIndent) + "and " + std::to_string(more) + " more\n";
  return "   Unusual characters, written as escapes above:\n" + out;
}

}  // namespace

std::string requestText(const json::object& shown) {
  std::string out = "   The whole request (a backslash is written as \\\\):\n";
  const json::object& request = objectOf(shown, "request");
  for (const auto& [name, value] : request) {
    if (name == "code" || name == "input") {
      out += bytes(std::string_view(name), name == "code" ? json::object{{"code", value}} : request,
                   std::string_view(name));
    } else if (name == "files" && value.is_array()) {
      out += filesText(value.get_array());
    } else if (name != "encoding") {
      out += member(std::string_view(name), value);
    }
  }
  const json::value* workspace = shown.if_contains("workspace");
  if (workspace != nullptr && workspace->is_object()) out += workspaceText(workspace->get_object());
  return out + unusualText(shown);
}

}  // namespace cloister::cli
