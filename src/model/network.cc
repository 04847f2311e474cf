// SPDX-License-Identifier: Apache-2.0
#include "model/network.h"

#include <algorithm>
#include <charconv>

#include "model/shown_text.h"

namespace cloister::model {
namespace {

namespace json = base::json;
using base::ObjectReader;

constexpr size_t kMaxPath = 512;
constexpr size_t kMaxMethod = 32;
constexpr size_t kMaxWhy = 1000;
constexpr size_t kMaxQuoted = 80;
constexpr int64_t kMostBytes = int64_t{1} << 50;
constexpr std::string_view kExample = "\"api.example.com:443\"";

constexpr std::array<std::string_view, 3> kProtocols = {"tls", "http", "tcp"};
constexpr std::array<std::string_view, 3> kOnDenied = {"deny", "escalate", "ask"};
// A and AAAA need no entry; the other types could carry data of the program.
constexpr std::array<std::string_view, 3> kRecordTypes = {"MX", "SRV", "TXT"};
constexpr std::array<std::string_view, 5> kOfPolicies = {"dns", "max_bytes", "inspect", "on_denied",
                                                         "why"};

std::unexpected<Error> refused(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

std::string inQuotes(std::string_view text) {
  return "\"" + safeText(text, kMaxQuoted) + "\"";
}

template <class Names>
std::string oneOf(const Names& names) {
  std::string text = "must be one of ";
  for (const std::string_view name : names)
    text += (name == *names.begin() ? "" : ", ") + std::string(name);
  return text;
}

template <class Value, class Names>
std::optional<Value> valueOf(const Names& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Value>(found - names.begin());
}

template <class List, class T>
bool isOf(const List& list, const T& item) {
  return std::ranges::find(list, item) != list.end();
}

Result<std::string> readName(std::string_view text, const std::string& field, bool granting) {
  if (text == kAnyName && granting) return std::string(kAnyName);
  auto name = hostPattern(text);
  if (!name) return refused(field, name.error().message);
  return name;
}

// "443": no sign, no zero in front.
std::optional<uint16_t> portOf(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || text.starts_with('0')) return std::nullopt;
  return port;
}

// "name:port".
Result<NetworkEntry> readShort(std::string_view text, const std::string& path, bool granting) {
  const std::string form = "must be NAME:PORT, such as " + std::string(kExample);
  if (text.contains('/')) return refused(path, form + ", without scheme and path");
  if (text.contains('[') || std::ranges::count(text, ':') > 1) {
    return refused(path, form + "; destinations are allowed by name, not by address");
  }
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return refused(path, form);
  NetworkEntry entry;
  entry.name = TRY(readName(text.substr(0, colon), path, granting));
  const auto port = portOf(text.substr(colon + 1));
  if (!port) return refused(path, form + "; a port is a number from 1 to 65535");
  entry.ports = {*port};
  entry.protocol = protocolOfPort(*port);
  return entry;
}

Result<> readPorts(ObjectReader& reader, NetworkEntry& entry) {
  const std::string field = reader.pathOf("ports");
  const json::array* ports = TRY(reader.array("ports"));
  if (ports == nullptr && entry.name == kAnyName) return {};
  if (ports == nullptr || ports->empty() || ports->size() > kMaxEntryPorts) {
    return refused(field, "must be a list of 1 to " + std::to_string(kMaxEntryPorts) +
                              " ports, such as [443]");
  }
  for (const json::value& item : *ports) {
    boost::system::error_code error;
    const auto port = item.to_number<int64_t>(error);  // of a value that was parsed, or was made
    if (error || port < 1 || port > UINT16_MAX) {
      return refused(field, "a port is a whole number from 1 to 65535");
    }
    if (isOf(entry.ports, port)) return refused(field, "names " + std::to_string(port) + " twice");
    entry.ports.push_back(static_cast<uint16_t>(port));
  }
  std::ranges::sort(entry.ports);
  return {};
}

// The protocol that the ports suggest; nullopt if they differ.
std::optional<Protocol> protocolOf(const std::vector<uint16_t>& ports) {
  if (ports.empty()) return Protocol::kTcp;
  const Protocol first = protocolOfPort(ports.front());
  const bool same =
      std::ranges::all_of(ports, [&](uint16_t port) { return protocolOfPort(port) == first; });
  return same ? std::optional(first) : std::nullopt;
}

Result<> readProtocol(ObjectReader& reader, NetworkEntry& entry) {
  const std::string field = reader.pathOf("protocol");
  const auto named = TRY(reader.text("protocol"));
  const auto protocol = named ? protocolFromName(*named) : protocolOf(entry.ports);
  if (named && !protocol) return refused(field, oneOf(kProtocols));
  if (!protocol) {
    return refused(field,
                   "is required, because the ports suggest different ones (80 is http, 443 is tls, "
                   "others are tcp); name it, or write an entry for each port");
  }
  entry.protocol = *protocol;
  return {};
}

// A list of texts. `why` answers "" for an acceptable one.
template <class Why>
Result<std::vector<std::string>> readItems(ObjectReader& reader, std::string_view name, Why why) {
  const std::string field = reader.pathOf(name);
  std::vector<std::string> items;
  const json::array* array = TRY(reader.array(name));
  if (array == nullptr) return items;
  if (array->empty() || array->size() > kMaxEntryItems) {
    return refused(field, "must have 1 to " + std::to_string(kMaxEntryItems) +
                              " items; leave it out for no bound");
  }
  for (const json::value& value : *array) {
    const json::string* text = value.if_string();
    if (text == nullptr) return refused(field, "must be a list of text");
    std::string item(*text);
    if (const std::string wrong = why(item); !wrong.empty()) return refused(field, wrong);
    if (isOf(items, item)) return refused(field, "names " + inQuotes(item) + " twice");
    items.push_back(std::move(item));
  }
  return items;
}

std::string whyNoMethod(std::string_view method) {
  const bool upper = std::ranges::all_of(
      method, [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; });  // RFC 9110 section 9.1
  if (method.empty() || method.size() > kMaxMethod || !upper) {
    return inQuotes(method) + " is no method in upper case, such as GET";
  }
  if (method == "CONNECT") return "CONNECT is a request to a proxy; leave it out";
  return "";
}

std::string whyNoPath(std::string_view path) {
  if (path.size() > kMaxPath) {
    return "a path has at most " + std::to_string(kMaxPath) + " bytes";
  }
  if (isPlainPath(path)) return "";
  return inQuotes(path) +
         " covers no request: a path begins with \"/\", and has no query, no \"..\", \"//\", \";\" "
         "or "
         "escape of one of them; \"*\" stands for any characters";
}

std::string whyNoRecordType(std::string_view type) {
  return isOf(kRecordTypes, type) ? "" : oneOf(kRecordTypes);
}

Result<> readRequestBounds(ObjectReader& reader, NetworkEntry& entry) {
  entry.methods = TRY(readItems(reader, "methods", whyNoMethod));
  entry.paths = TRY(readItems(reader, "paths", whyNoPath));
  return {};
}

Result<> readGrant(ObjectReader& reader, NetworkEntry& entry) {
  entry.dns = TRY(readItems(reader, "dns", whyNoRecordType));
  const auto bytes = TRY(reader.integer("max_bytes", 1, kMostBytes));
  entry.max_bytes = static_cast<uint64_t>(bytes.value_or(0));
  entry.inspect = TRY(reader.boolean("inspect")).value_or(false);
  if (entry.inspect && entry.protocol != Protocol::kTls) {
    return refused(reader.pathOf("inspect"), "is for the protocol tls alone; leave it out");
  }
  if (const auto named = TRY(reader.text("on_denied"))) {
    entry.on_denied = onDeniedFromName(*named);
    if (!entry.on_denied) return refused(reader.pathOf("on_denied"), oneOf(kOnDenied));
  }
  entry.why = TRY(reader.text("why")).value_or("");
  if (entry.why.size() > kMaxWhy) {
    return refused(reader.pathOf("why"), "has at most " + std::to_string(kMaxWhy) + " bytes");
  }
  return {};
}

Result<> refuseGrant(const ObjectReader& reader, const json::object& object) {
  for (const std::string_view name : kOfPolicies) {
    if (object.contains(name)) {
      return refused(reader.pathOf(name), "is for a policy's rule alone; leave it out");
    }
  }
  return {};
}

Result<> requireReadable(const ObjectReader& reader, const NetworkEntry& entry) {
  const bool readable = entry.protocol == Protocol::kHttp || entry.inspect;
  if (readable || (entry.methods.empty() && entry.paths.empty())) return {};
  return refused(reader.pathOf(entry.methods.empty() ? "paths" : "methods"),
                 "needs readable HTTP: the protocol http, or `inspect: true` in the entry of a "
                 "policy; leave it out to allow the whole host");
}

Result<NetworkEntry> readLong(const json::object& object, const std::string& path, bool granting) {
  ObjectReader reader(object, path);
  NetworkEntry entry;
  const auto name = TRY(reader.text("name"));
  if (!name) return refused(reader.pathOf("name"), "is required, such as api.example.com");
  entry.name = TRY(readName(*name, reader.pathOf("name"), granting));
  TRY(readPorts(reader, entry));
  TRY(readProtocol(reader, entry));
  TRY(readRequestBounds(reader, entry));
  TRY(granting ? readGrant(reader, entry) : refuseGrant(reader, object));
  TRY(reader.finish());
  TRY(requireReadable(reader, entry));
  return entry;
}

Result<> readAllow(ObjectReader& reader, NetworkRequest& request) {
  const std::string field = reader.pathOf("allow");
  const json::array* entries = TRY(reader.array("allow"));
  if (entries == nullptr) return {};
  if (request.tier == "none") {
    return refused(field, "needs a tier other than none, such as \"tier\": \"restricted\"");
  }
  if (entries->empty() || entries->size() > kMaxNetworkEntries) {
    return refused(field, "must have 1 to " + std::to_string(kMaxNetworkEntries) +
                              " entries; leave it out for all that policy grants");
  }
  for (size_t i = 0; i < entries->size(); ++i) {
    const std::string path = field + "[" + std::to_string(i) + "]";
    request.allow.push_back(TRY(readNetworkEntry((*entries)[i], path, false)));
  }
  return {};
}

}  // namespace

std::string_view protocolName(Protocol protocol) {
  return kProtocols.at(static_cast<size_t>(protocol));
}

std::optional<Protocol> protocolFromName(std::string_view name) {
  return valueOf<Protocol>(kProtocols, name);
}

Protocol protocolOfPort(uint16_t port) {
  constexpr uint16_t kHttpPort = 80;
  constexpr uint16_t kHttpsPort = 443;
  if (port == kHttpPort) return Protocol::kHttp;
  return port == kHttpsPort ? Protocol::kTls : Protocol::kTcp;
}

std::string_view onDeniedName(OnDenied value) {
  return kOnDenied.at(static_cast<size_t>(value));
}

std::optional<OnDenied> onDeniedFromName(std::string_view name) {
  return valueOf<OnDenied>(kOnDenied, name);
}

Result<NetworkEntry> readNetworkEntry(const json::value& value, const std::string& path,
                                      bool granting) {
  if (const json::string* text = value.if_string()) {
    return readShort(std::string_view(*text), path, granting);
  }
  if (const json::object* object = value.if_object()) return readLong(*object, path, granting);
  return refused(path, "must be text such as " + std::string(kExample) +
                           ", or an object with `name` and `ports`");
}

Result<NetworkRequest> readNetworkRequest(const json::object& object, const std::string& path) {
  ObjectReader reader(object, path);
  NetworkRequest request;
  request.tier = TRY(reader.text("tier")).value_or(request.tier);
  if (!isOf(kNetworkTiers, request.tier)) {
    return refused(reader.pathOf("tier"), oneOf(kNetworkTiers));
  }
  TRY(readAllow(reader, request));
  if (const auto named = TRY(reader.text("on_denied"))) {
    const auto value = onDeniedFromName(*named);
    if (!value) return refused(reader.pathOf("on_denied"), oneOf(kOnDenied));
    request.on_denied = *value;
  }
  if (request.tier == "none" && request.on_denied != OnDenied::kDeny) {
    return refused(reader.pathOf("on_denied"), "needs a tier other than none");
  }
  TRY(reader.finish());
  return request;
}

json::object toJsonObject(const NetworkEntry& entry) {
  const auto array = [](const auto& items) { return json::array(items.begin(), items.end()); };
  json::object object;
  if (!entry.dns.empty()) object["dns"] = array(entry.dns);
  if (entry.inspect) object["inspect"] = true;
  if (entry.max_bytes != 0) object["max_bytes"] = entry.max_bytes;
  if (!entry.methods.empty()) object["methods"] = array(entry.methods);
  object["name"] = entry.name;
  if (entry.on_denied) object["on_denied"] = onDeniedName(*entry.on_denied);
  if (!entry.paths.empty()) object["paths"] = array(entry.paths);
  if (!entry.ports.empty()) object["ports"] = array(entry.ports);
  if (protocolOf(entry.ports) != entry.protocol) object["protocol"] = protocolName(entry.protocol);
  if (!entry.why.empty()) object["why"] = entry.why;
  return object;
}

json::object toJsonObject(const NetworkRequest& request) {
  json::object object;
  if (!request.allow.empty()) {
    json::array& allow = object["allow"].emplace_array();
    for (const NetworkEntry& entry : request.allow)
      allow.push_back(toJsonObject(entry));
  }
  if (request.on_denied != OnDenied::kDeny) object["on_denied"] = onDeniedName(request.on_denied);
  object["tier"] = request.tier;
  return object;
}

}  // namespace cloister::model
