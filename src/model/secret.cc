// SPDX-License-Identifier: Apache-2.0
#include "model/secret.h"

#include <algorithm>
#include <set>
#include <utility>

#include "model/network.h"
#include "model/run_request.h"
#include "model/shown_text.h"

namespace cloister::model {
namespace {

namespace json = base::json;
using base::ObjectReader;

constexpr std::array<std::string_view, 3> kWays = {"env", "file", "broker"};
constexpr size_t kMaxSecretPath = 512;
constexpr size_t kMaxHeader = 128;
constexpr size_t kMaxFormat = 1024;
constexpr size_t kMaxPlaceholder = 128;
constexpr size_t kMaxId = 64;
constexpr size_t kMaxGrants = 64;
constexpr size_t kMaxGrantHosts = 64;
constexpr uint16_t kTlsPort = 443;
constexpr std::string_view kHole = "{}";

// cloister-egress makes these itself, or they decide where a request goes (RFC 9110, RFC 9112).
constexpr std::array<std::string_view, 13> kOwnHeaders = {"accept-encoding",
                                                          "connection",
                                                          "content-encoding",
                                                          "content-length",
                                                          "expect",
                                                          "host",
                                                          "keep-alive",
                                                          "proxy-connection",
                                                          "te",
                                                          "trailer",
                                                          "transfer-encoding",
                                                          "upgrade",
                                                          "via"};

std::unexpected<Error> refusedSecret(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

bool isNamePart(char c) {
  return isLetter(c) || isDigit(c) || c == '_' || c == '-' || c == '.';
}

// token of RFC 9110 section 5.6.2.
bool isToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return isLetter(c) || isDigit(c) || std::string_view("!#$%&'*+-.^_`|~").contains(c);
  });
}

bool isPrintable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// Below /run/secrets, or relative to the home folder; each component is a plain name.
bool isPlace(std::string_view path) {
  if (path.size() > kMaxSecretPath || !isPrintable(path)) return false;
  if (path.starts_with('/')) {
    if (!path.starts_with(kSecretsFolder)) return false;
    path.remove_prefix(kSecretsFolder.size());
  }
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  return true;
}

Result<> refuseMembers(ObjectReader& reader, SecretAs as,
                       std::initializer_list<std::string_view> others) {
  for (const std::string_view name : others) {
    if (reader.any(name) == nullptr) continue;
    return refusedSecret(
        reader.pathOf(name),
        "is not a member of a secret as \"" + std::string(secretAsName(as)) + "\"; leave it out");
  }
  return {};
}

Result<std::string> readSecretVariable(ObjectReader& reader) {
  auto variable = TRY(reader.text("variable")).value_or("");
  if (variable.empty() || isEnvironmentName(variable)) return variable;
  return refusedSecret(reader.pathOf("variable"),
                       "a variable is letters, digits and _, and does not begin with a digit");
}

Result<> readEnv(ObjectReader& reader, SecretUse& use) {
  use.variable = TRY(readSecretVariable(reader));
  if (!use.variable.empty()) return {};
  if (!isEnvironmentName(use.name)) {
    return refusedSecret(reader.pathOf("variable"),
                         "is required, since \"" + use.name + "\" is no name of a variable");
  }
  use.variable = use.name;
  return {};
}

Result<> readFilePlace(ObjectReader& reader, SecretUse& use) {
  use.path = TRY(reader.text("path")).value_or(std::string(kSecretsFolder) + use.name);
  if (isPlace(use.path)) return {};
  return refusedSecret(reader.pathOf("path"),
                       "must be below /run/secrets/, such as /run/secrets/" + use.name +
                           ", or relative to the home folder, without \"..\"");
}

Result<> readHeader(ObjectReader& reader, SecretUse& use) {
  use.header = TRY(reader.text("header")).value_or("");
  const std::string field = reader.pathOf("header");
  if (!use.header.empty() && (!isToken(use.header) || use.header.size() > kMaxHeader)) {
    return refusedSecret(field, "must be the name of a header, such as Authorization");
  }
  if (std::ranges::find(kOwnHeaders, lower(use.header)) != kOwnHeaders.end()) {
    return refusedSecret(field, use.header + " is set by the service; name another");
  }
  const auto format = TRY(reader.text("format"));
  if (!format) return {};
  const std::string place = reader.pathOf("format");
  if (use.header.empty()) {
    return refusedSecret(place, "is the value of `header`; name the header, or leave it out");
  }
  const size_t hole = format->find(kHole);
  const bool one = hole != std::string::npos && format->find(kHole, hole + 1) == std::string::npos;
  if (!one || format->size() > kMaxFormat || !isPrintable(*format)) {
    return refusedSecret(place, "must have {} once, where the secret goes, such as \"Bearer {}\"");
  }
  use.format = *format;
  return {};
}

// The members that a brokered use has in common with an inspected destination.
Result<NetworkEntry> destinationOf(const json::object& object, const std::string& path,
                                   const std::string& host, uint16_t port) {
  json::object entry{
      {"inspect", true}, {"name", host}, {"ports", json::array{port}}, {"protocol", "tls"}};
  for (const std::string_view name : {"methods", "paths"}) {
    const json::value* list = object.if_contains(name);
    if (list != nullptr && !(list->is_array() && list->get_array().empty())) entry[name] = *list;
  }
  return readNetworkEntry(entry, path, true);
}

Result<> readBroker(ObjectReader& reader, const json::object& object, const std::string& path,
                    SecretUse& use) {
  const auto host = TRY(reader.text("host"));
  const std::string field = reader.pathOf("host");
  if (!host) {
    return refusedSecret(field,
                         "is required: the only host that gets the secret, such as "
                         "api.example.com");
  }
  auto name = hostName(*host);
  if (!name) return refusedSecret(field, name.error().message);
  use.host = *std::move(name);
  const auto port = TRY(reader.integer("port", 1, UINT16_MAX));
  use.port = static_cast<uint16_t>(port.value_or(kTlsPort));
  use.variable = TRY(readSecretVariable(reader));
  TRY(readHeader(reader, use));
  if (use.header.empty() && use.variable.empty()) {
    return refusedSecret(reader.pathOf("header"),
                         "is required, such as \"Authorization\" with the format \"Bearer {}\"; or "
                         "name a `variable`, which gets a placeholder for the secret");
  }
  const NetworkEntry entry = TRY(destinationOf(object, path, use.host, use.port));
  use.methods = entry.methods;
  use.paths = entry.paths;
  std::ignore = reader.any("methods");
  std::ignore = reader.any("paths");
  return {};
}

Result<SecretUse> readUse(const json::value& value, const std::string& path) {
  const json::object* object = value.if_object();
  if (object == nullptr) {
    return refusedSecret(path, R"(must be an object, such as {"name": "KEY", "as": "env"})");
  }
  ObjectReader reader(*object, path);
  SecretUse use;
  use.name = TRY(reader.text("name")).value_or("");
  if (!isSecretName(use.name)) {
    return refusedSecret(reader.pathOf("name"),
                         "must be the name of a secret: a letter, and then letters, digits, \"_\", "
                         "\"-\" and \".\", at most 64");
  }
  const auto as = secretAsFromName(TRY(reader.text("as")).value_or(""));
  if (!as) return refusedSecret(reader.pathOf("as"), "must be one of env, file, broker");
  use.as = *as;
  if (use.as == SecretAs::kEnv) {
    TRY(refuseMembers(reader, use.as,
                      {"path", "host", "port", "header", "format", "methods", "paths"}));
    TRY(readEnv(reader, use));
  } else if (use.as == SecretAs::kFile) {
    TRY(refuseMembers(reader, use.as,
                      {"variable", "host", "port", "header", "format", "methods", "paths"}));
    TRY(readFilePlace(reader, use));
  } else {
    TRY(refuseMembers(reader, use.as, {"path"}));
    TRY(readBroker(reader, *object, path, use));
  }
  TRY(reader.finish());
  return use;
}

// Two uses that cannot both hold: the same variable, file, or header of a destination.
Result<> checkDistinctUses(const std::vector<SecretUse>& uses, const std::string& path) {
  std::set<std::string> seen;
  for (size_t i = 0; i < uses.size(); ++i) {
    const SecretUse& use = uses[i];
    const std::string at = path + "[" + std::to_string(i) + "]";
    const std::string place = use.host + ":" + std::to_string(use.port);
    const std::pair<std::string_view, std::string> claims[] = {
        {".variable", use.variable},
        {".path", use.path},
        {".header", use.header.empty() ? "" : place + " " + lower(use.header)}};
    for (const auto& [member, claim] : claims) {
      if (claim.empty() || seen.insert(std::string(member) + claim).second) continue;
      // Different paths or methods of one host may have different values for one header.
      if (member == ".header" && (!use.paths.empty() || !use.methods.empty())) continue;
      return refusedSecret(at + std::string(member), "is used by another secret of the request");
    }
  }
  return {};
}

Result<SecretGrant> readGrant(const json::value& value, const std::string& path) {
  const json::object* object = value.if_object();
  if (object == nullptr) {
    return refusedSecret(path, R"(must be an object, such as {"name": "KEY", "as": ["env"]})");
  }
  ObjectReader reader(*object, path);
  SecretGrant grant;
  grant.name = TRY(reader.text("name")).value_or("");
  const bool glob =
      std::ranges::all_of(grant.name, [](char c) { return isNamePart(c) || c == '*'; });
  if (grant.name.empty() || grant.name.size() > kMaxSecretName || !glob) {
    return refusedSecret(reader.pathOf("name"),
                         "must be the name of a secret, in which * stands for any characters");
  }
  const json::array* ways = TRY(reader.array("as"));
  for (size_t i = 0; ways != nullptr && i < ways->size(); ++i) {
    const json::string* text = (*ways)[i].if_string();
    const auto as =
        secretAsFromName(text == nullptr ? std::string_view() : std::string_view(*text));
    if (!as || std::ranges::find(grant.as, *as) != grant.as.end()) {
      grant.as.clear();
      break;
    }
    grant.as.push_back(*as);
  }
  if (grant.as.empty()) {
    return refusedSecret(reader.pathOf("as"), "must be a list of env, file and broker, each once");
  }
  const bool brokers = std::ranges::find(grant.as, SecretAs::kBroker) != grant.as.end();
  const json::array* hosts = TRY(reader.array("hosts"));
  const std::string field = reader.pathOf("hosts");
  if (hosts != nullptr && !brokers) {
    return refusedSecret(field, "is for secrets as broker; add broker to `as`, or leave it out");
  }
  if (brokers && (hosts == nullptr || hosts->empty() || hosts->size() > kMaxGrantHosts)) {
    return refusedSecret(field, "must have 1 to " + std::to_string(kMaxGrantHosts) +
                                    " hosts that may get the secret, such as api.example.com");
  }
  for (size_t i = 0; hosts != nullptr && i < hosts->size(); ++i) {
    const json::string* text = (*hosts)[i].if_string();
    auto host = text == nullptr ? fail(Code::kInvalid, "must be text")
                                : hostPattern(std::string_view(*text));
    if (!host) return refusedSecret(field + "[" + std::to_string(i) + "]", host.error().message);
    grant.hosts.push_back(*std::move(host));
  }
  TRY(reader.finish());
  return grant;
}

template <class T, class Read>
Result<std::vector<T>> readList(const json::value& value, const std::string& path, size_t most,
                                Read read) {
  const json::array* items = value.if_array();
  if (items == nullptr || items->empty() || items->size() > most) {
    return refusedSecret(
        path, "must have 1 to " + std::to_string(most) + " members; leave it out for none");
  }
  std::vector<T> list;
  for (size_t i = 0; i < items->size(); ++i)
    list.push_back(TRY(read((*items)[i], path + "[" + std::to_string(i) + "]")));
  return list;
}

json::array arrayOf(const std::vector<std::string>& texts) {
  return json::array(texts.begin(), texts.end());
}

}  // namespace

std::string_view secretAsName(SecretAs as) {
  return kWays.at(static_cast<size_t>(as));
}

std::optional<SecretAs> secretAsFromName(std::string_view name) {
  const auto found = std::ranges::find(kWays, name);
  if (found == kWays.end()) return std::nullopt;
  return static_cast<SecretAs>(found - kWays.begin());
}

bool isSecretName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxSecretName && isLetter(name.front()) &&
         std::ranges::all_of(name, isNamePart);
}

Result<std::vector<SecretUse>> readSecretUses(const json::value& value, const std::string& path) {
  auto uses = TRY(readList<SecretUse>(value, path, kMaxSecretUses, readUse));
  TRY(checkDistinctUses(uses, path));
  return uses;
}

Result<std::vector<SecretGrant>> readSecretGrants(const json::value& value,
                                                  const std::string& path) {
  return readList<SecretGrant>(value, path, kMaxGrants, readGrant);
}

json::object toJsonObject(const SecretUse& use) {
  json::object object{{"as", secretAsName(use.as)}};
  if (use.as == SecretAs::kBroker) {
    if (!use.header.empty()) object["format"] = use.format;
    if (!use.header.empty()) object["header"] = use.header;
    object["host"] = use.host;
    if (!use.methods.empty()) object["methods"] = arrayOf(use.methods);
  }
  object["name"] = use.name;
  if (use.as == SecretAs::kFile) object["path"] = use.path;
  if (use.as == SecretAs::kBroker) {
    if (!use.paths.empty()) object["paths"] = arrayOf(use.paths);
    object["port"] = use.port;
  }
  if (!use.variable.empty()) object["variable"] = use.variable;
  return object;
}

json::object toJsonObject(const SecretGrant& grant) {
  json::array ways;
  for (const SecretAs as : grant.as)
    ways.emplace_back(secretAsName(as));
  json::object object{{"as", std::move(ways)}};
  if (!grant.hosts.empty()) object["hosts"] = arrayOf(grant.hosts);
  object["name"] = grant.name;
  return object;
}

json::object toJsonObject(const PlanSecret& secret) {
  json::object object{{"format", secret.format},
                      {"header", secret.header},
                      {"host", secret.host},
                      {"id", secret.id}};
  if (!secret.methods.empty()) object["methods"] = arrayOf(secret.methods);
  object["name"] = secret.name;
  if (!secret.paths.empty()) object["paths"] = arrayOf(secret.paths);
  object["placeholder"] = secret.placeholder;
  object["port"] = secret.port;
  object["version"] = secret.version;
  return object;
}

Result<PlanSecret> readPlanSecret(const json::object& object) {
  const std::string path = "secrets";
  ObjectReader reader(object, path);
  PlanSecret secret;
  secret.id = TRY(reader.text("id")).value_or("");
  secret.name = TRY(reader.text("name")).value_or("");
  const auto version = TRY(reader.integer("version", 1, INT64_MAX));
  secret.version = static_cast<uint64_t>(version.value_or(0));
  const auto host = TRY(reader.text("host"));
  secret.host = TRY(hostName(host.value_or("")));
  const auto port = TRY(reader.integer("port", 1, UINT16_MAX));
  secret.port = static_cast<uint16_t>(port.value_or(0));
  secret.header = TRY(reader.text("header")).value_or("");
  secret.format = TRY(reader.text("format")).value_or("");
  secret.placeholder = TRY(reader.text("placeholder")).value_or("");
  const NetworkEntry entry = TRY(destinationOf(object, path, secret.host, secret.port));
  secret.methods = entry.methods;
  secret.paths = entry.paths;
  std::ignore = reader.any("methods");
  std::ignore = reader.any("paths");
  TRY(reader.finish());
  const bool header =
      secret.header.empty() || (isToken(secret.header) && lower(secret.header) == secret.header &&
                                secret.header.size() <= kMaxHeader);
  const bool sound = !secret.id.empty() && secret.id.size() <= kMaxId && isPrintable(secret.id) &&
                     isSecretName(secret.name) && secret.version != 0 && header &&
                     secret.format.size() <= kMaxFormat && isPrintable(secret.format) &&
                     secret.format.contains(kHole) && isPrintable(secret.placeholder) &&
                     secret.placeholder.size() <= kMaxPlaceholder &&
                     !(secret.header.empty() && secret.placeholder.empty());
  if (!sound) return refusedSecret(path, "is not a plan's");
  return secret;
}

}  // namespace cloister::model
