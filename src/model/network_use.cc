// SPDX-License-Identifier: Apache-2.0
// What a sandbox did with its network: the `network` member of results.
#include <algorithm>
#include <tuple>

#include "model/network.h"

namespace cloister::model {
namespace {

namespace json = base::json;
using base::ObjectReader;

constexpr size_t kMaxName = 256;                 // hosts, rules
constexpr size_t kMaxSentence = 2048;            // reasons, remedies, hints
constexpr int64_t kMaxCount = int64_t{1} << 53;  // exact in JSON (RFC 8259 section 6)
constexpr std::array<std::string_view, 5> kTransports = {"tcp", "udp", "dns", "icmp", "other"};

json::value textOrNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::object toJsonObject(const DeniedDestination& denied) {
  return {{"host", denied.host},           {"port", denied.port},
          {"transport", denied.transport}, {"rule", textOrNull(denied.rule)},
          {"reason", denied.reason},       {"remedy", denied.remedy},
          {"count", denied.count}};
}

std::unexpected<Error> refused(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

Result<std::string> readText(ObjectReader& reader, std::string_view name, size_t most) {
  auto text = TRY(reader.text(name)).value_or("");
  if (text.size() > most) return refused(reader.pathOf(name), "is too long");
  return text;
}

Result<uint64_t> readCount(ObjectReader& reader, std::string_view name) {
  const auto count = TRY(reader.integer(name, 0, kMaxCount));
  if (!count) return refused(reader.pathOf(name), "is required");
  return static_cast<uint64_t>(*count);
}

Result<DeniedDestination> readDenied(const json::value& value, const std::string& path) {
  const json::object* object = value.if_object();
  if (object == nullptr) return refused(path, "must be an object");
  ObjectReader reader(*object, path);
  DeniedDestination denied;
  denied.host = TRY(readText(reader, "host", kMaxName));
  const auto port = TRY(reader.integer("port", 0, UINT16_MAX));
  denied.port = static_cast<uint16_t>(port.value_or(0));
  denied.transport = TRY(readText(reader, "transport", kMaxName));
  if (std::ranges::find(kTransports, denied.transport) == kTransports.end()) {
    return refused(reader.pathOf("transport"), "is unknown");
  }
  denied.rule = TRY(readText(reader, "rule", kMaxName));
  denied.reason = TRY(readText(reader, "reason", kMaxSentence));
  denied.remedy = TRY(readText(reader, "remedy", kMaxSentence));
  denied.count = TRY(readCount(reader, "count"));
  TRY(reader.finish());
  return denied;
}

auto destinationOf(const DeniedDestination& denied) {
  return std::tie(denied.host, denied.port, denied.transport, denied.rule);
}

// Whether the counts began anew in between, as they do with a restart of cloister-egress.
bool beganAnew(const NetworkUse& now, const NetworkUse& before) {
  return now.connections < before.connections || now.bytes_in < before.bytes_in ||
         now.bytes_out < before.bytes_out || now.denied_left_out < before.denied_left_out;
}

uint64_t earlierCount(const NetworkUse& before, const DeniedDestination& denied) {
  const auto found = std::ranges::find_if(before.denied, [&](const DeniedDestination& each) {
    return destinationOf(each) == destinationOf(denied);
  });
  const bool known = found != before.denied.end() && found->count <= denied.count;
  return known ? found->count : 0;
}

}  // namespace

json::object toJsonObject(const NetworkUse& use) {
  json::array denied;
  for (const DeniedDestination& each : use.denied)
    denied.push_back(toJsonObject(each));
  return {{"connections", use.connections},
          {"bytes_in", use.bytes_in},
          {"bytes_out", use.bytes_out},
          {"denied", std::move(denied)},
          {"denied_left_out", use.denied_left_out},
          {"hint", use.hint ? json::value(*use.hint) : json::value(nullptr)}};
}

Result<NetworkUse> readNetworkUse(const json::object& object) {
  ObjectReader reader(object, "network");
  NetworkUse use;
  use.connections = TRY(readCount(reader, "connections"));
  use.bytes_in = TRY(readCount(reader, "bytes_in"));
  use.bytes_out = TRY(readCount(reader, "bytes_out"));
  const json::array* denied = TRY(reader.array("denied"));
  if (denied == nullptr || denied->size() > kMaxDeniedShown) {
    return refused(reader.pathOf("denied"),
                   "must have at most " + std::to_string(kMaxDeniedShown) + " destinations");
  }
  for (size_t i = 0; i < denied->size(); ++i) {
    const std::string path = reader.pathOf("denied") + "[" + std::to_string(i) + "]";
    use.denied.push_back(TRY(readDenied((*denied)[i], path)));
  }
  use.denied_left_out = TRY(readCount(reader, "denied_left_out"));
  if (auto hint = TRY(reader.text("hint"))) {
    if (hint->size() > kMaxSentence) return refused(reader.pathOf("hint"), "is too long");
    use.hint = std::move(hint);
  }
  TRY(reader.finish());
  return use;
}

NetworkUse useSince(const NetworkUse& now, const NetworkUse& before) {
  if (beganAnew(now, before)) return now;
  NetworkUse since = now;
  since.connections -= before.connections;
  since.bytes_in -= before.bytes_in;
  since.bytes_out -= before.bytes_out;
  since.denied_left_out -= before.denied_left_out;
  for (DeniedDestination& denied : since.denied)
    denied.count -= earlierCount(before, denied);
  std::erase_if(since.denied, [](const DeniedDestination& denied) { return denied.count == 0; });
  return since;
}

}  // namespace cloister::model
