// SPDX-License-Identifier: Apache-2.0
#include "cli/secret_uses.h"

#include <charconv>
#include <string>
#include <utility>

namespace cloister::cli {
namespace {

namespace json = base::json;

std::unexpected<Error> misused(const std::string& why) {
  return fail(Code::kInvalid, "--secret: " + why, "--secret");
}

// The part before the separator, which is removed from `text` with it.
std::string_view cut(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

Result<> putPlace(std::string_view place, json::object& use) {
  const size_t colon = place.rfind(':');
  use["host"] = std::string(place.substr(0, colon));
  if (colon == std::string_view::npos) return {};
  const std::string_view text = place.substr(colon + 1);
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) {
    return misused("\"" + std::string(text) + "\" is no port");
  }
  use["port"] = port;
  return {};
}

Result<> putOption(std::string_view option, json::object& use) {
  std::string_view value = option;
  const std::string_view name = cut(value, '=');
  if (name == "header" || name == "format" || name == "variable") {
    use[name] = std::string(value);
    return {};
  }
  if (name == "method" || name == "path") {
    json::value& list = use[std::string(name) + "s"];
    if (!list.is_array()) list.emplace_array();
    list.get_array().push_back(json::string(value));
    return {};
  }
  return misused("\"" + std::string(name) +
                 "\" is none of header, format, variable, method and path");
}

Result<> putBroker(std::string_view rest, json::object& use) {
  TRY(putPlace(cut(rest, ','), use));
  while (!rest.empty())
    TRY(putOption(cut(rest, ','), use));
  if (!use.contains("header") && !use.contains("variable")) {
    use["header"] = "Authorization";
    if (!use.contains("format")) use["format"] = "Bearer {}";
  }
  return {};
}

}  // namespace

Result<json::object> secretUse(std::string_view text) {
  json::object use;
  use["name"] = std::string(cut(text, '='));
  const std::string_view way = cut(text, ':');
  use["as"] = std::string(way.empty() ? "env" : way);
  if (way.empty() || way == "env") {
    if (!text.empty()) use["variable"] = std::string(text);
  } else if (way == "file") {
    if (!text.empty()) use["path"] = std::string(text);
  } else if (way == "broker" && !text.empty()) {
    TRY(putBroker(text, use));
  } else {
    return misused(
        "must be NAME=env:VARIABLE, NAME=file:PATH or NAME=broker:HOST[:PORT][,header=…]; the "
        "value "
        "is set with `cloister secret set`");
  }
  return use;
}

Result<> putSecrets(const base::Flags& flags, json::object& body) {
  json::array uses;
  for (const std::string& text : flags.all("secret"))
    uses.push_back(TRY(secretUse(text)));
  if (!uses.empty()) body["secrets"] = std::move(uses);
  return {};
}

}  // namespace cloister::cli
