// SPDX-License-Identifier: Apache-2.0
#include "policy/agent/network.h"

#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

#include "model/shown_text.h"

namespace cloister::policy {
namespace {

using model::NetworkEntry;
using model::Protocol;

constexpr std::string_view kNetwork = "network";

struct Scheme {
  std::string_view prefix;
  Protocol protocol;
  uint16_t port;
};
constexpr std::array<Scheme, 2> kSchemes = {{
    {"https://", Protocol::kTls, 443},
    {"http://", Protocol::kHttp, 80},
}};
// A port without a known protocol, for approvals that the service asks for itself.
constexpr Scheme kAnyBytes = {"tcp://", Protocol::kTcp, 0};

std::optional<uint16_t> portOf(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

std::optional<NetworkEntry> entryOf(std::string_view name, uint16_t port, Protocol protocol) {
  const auto pattern = model::hostPattern(name);
  if (!pattern) return std::nullopt;
  NetworkEntry entry;
  entry.name = *pattern;
  entry.ports = {port};
  entry.protocol = protocol;
  return entry;
}

// "host" or "host:port", without a scheme.
std::vector<NetworkEntry> entriesOfHost(std::string_view host) {
  std::vector<NetworkEntry> entries;
  const auto add = [&](std::string_view name, uint16_t port) {
    auto entry = entryOf(name, port, model::protocolOfPort(port));
    if (entry) entries.push_back(*std::move(entry));
  };
  const size_t colon = host.find(':');
  if (colon == std::string_view::npos) {
    for (const Scheme& scheme : kSchemes)
      add(host, scheme.port);
  } else if (const auto port = portOf(host.substr(colon + 1))) {
    add(host.substr(0, colon), *port);
  }
  return entries;
}

// "host[:port][/path]" after a scheme.
std::optional<NetworkEntry> entryOfUrl(std::string_view rest, const Scheme& scheme) {
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view path = rest.substr(slash);
  std::string_view host = rest.substr(0, slash);
  uint16_t port = scheme.port;
  if (const size_t colon = host.find(':'); colon != std::string_view::npos) {
    const auto named = portOf(host.substr(colon + 1));
    if (!named) return std::nullopt;
    port = *named;
    host = host.substr(0, colon);
  }
  if (port == 0) return std::nullopt;
  auto entry = entryOf(host, port, scheme.protocol);
  const bool whole = path.empty() || path == "/" || path == "/*";
  if (!entry || whole) return entry;
  if (scheme.protocol != Protocol::kHttp || path.find_first_of("?#") != std::string_view::npos)
    return std::nullopt;
  entry->paths = {std::string(path)};
  return entry;
}

std::string accessOf(const AgentRules& rules) {
  // Zero requests a minute are none, and never "no bound".
  if (rules.revoked.contains(kNetwork) || rules.limits.requests_per_minute == 0U) return "denied";
  return rules.granted.contains(kNetwork) ? "allowed" : rules.level.network_access;
}

}  // namespace

std::vector<NetworkEntry> destinationsOf(std::string_view pattern) {
  for (const Scheme& scheme : {kSchemes[0], kSchemes[1], kAnyBytes}) {
    if (!pattern.starts_with(scheme.prefix)) continue;
    auto entry = entryOfUrl(pattern.substr(scheme.prefix.size()), scheme);
    if (!entry) return {};
    return {*std::move(entry)};
  }
  return entriesOfHost(pattern);
}

Result<> opensDestination(const AgentRules* rules, std::string_view pattern) {
  const auto nothing = [](const std::string& why) {
    return fail(Code::kInvalid, "host: an approval would open nothing: " + why, "host");
  };
  if (rules != nullptr && rules->revoked.contains(kNetwork)) {
    return nothing("network was revoked for agent " + rules->agent +
                   "; have it granted (cloister agent grant)");
  }
  if (!destinationsOf(pattern).empty()) return {};
  constexpr size_t kMostShown = 200;
  return nothing("\"" + model::markedText(pattern, kMostShown) +
                 "\" is no destination of a rule; name a host, as example.org, *.example.org or "
                 "example.org:443, and neither an address nor a path of https");
}

AgentNetwork networkOf(const AgentRules& rules, int64_t now) {
  AgentNetwork network;
  network.access = accessOf(rules);
  network.requests_per_minute = rules.limits.requests_per_minute.value_or(0);
  if (rules.revoked.contains(kNetwork) || rules.limits.requests_per_minute == 0U) return network;
  for (const model::TemporaryPermission& one : rules.temporary) {
    // No table of safe operations has a network, so a rule's approval opens none.
    if (one.operation != kNetwork || one.by_rule || one.expires_at <= now) continue;
    for (NetworkEntry& entry : destinationsOf(one.pattern))
      network.approved.push_back({std::move(entry), one.escalation_id, one.expires_at});
  }
  return network;
}

}  // namespace cloister::policy
