// SPDX-License-Identifier: Apache-2.0
#include "policy/network_grants.h"

#include <algorithm>

#include "base/glob.h"

namespace cloister::policy {
namespace {

using model::NetworkEntry;
using Texts = std::vector<std::string>;

constexpr std::string_view kNone = "none";
constexpr std::string_view kRestricted = "restricted";
constexpr std::string_view kInternal = "internal";

bool has(const Texts& list, const std::string& value) {
  return std::ranges::find(list, value) != list.end();
}

bool coversPorts(const NetworkEntry& outer, const NetworkEntry& inner) {
  if (outer.ports.empty()) return true;  // of kAnyName: every port
  return !inner.ports.empty() && std::ranges::includes(outer.ports, inner.ports);
}

bool coversMethods(const Texts& outer, const Texts& inner) {
  return outer.empty() ||
         std::ranges::all_of(inner, [&](const std::string& each) { return has(outer, each); });
}

// A glob that matches the text of another glob matches all that the other does: its asterisk takes
// the place of the other's.
bool coversPaths(const Texts& outer, const Texts& inner) {
  if (outer.empty()) return true;
  return std::ranges::all_of(inner, [&](const std::string& path) {
    return std::ranges::any_of(
        outer, [&](const std::string& glob) { return base::globMatches(glob, path); });
  });
}

std::string listed(const Texts& texts) {
  std::string all;
  for (const std::string& text : texts)
    all += (all.empty() ? "" : ",") + text;
  return all;
}

}  // namespace

bool accessPermits(std::string_view access, std::string_view tier) {
  if (tier == kNone) return true;
  if (access == "internal_only") return tier == kInternal;
  return access == "allowed" || access == "allowed_with_monitoring";
}

std::vector<ApprovedDestination> approvedAt(const AgentNetwork& agent, int64_t now) {
  std::vector<ApprovedDestination> valid;
  for (const ApprovedDestination& each : agent.approved) {
    if (each.expires_at > now) valid.push_back(each);
  }
  return valid;
}

bool agentMayHave(const AgentNetwork& agent, const model::NetworkRequest& request, int64_t now) {
  if (accessPermits(agent.access, request.tier)) return true;
  const auto approved = approvedAt(agent, now);
  if (request.tier != kRestricted || approved.empty()) return false;
  return std::ranges::all_of(request.allow, [&](const NetworkEntry& asked) {
    return std::ranges::any_of(
        approved, [&](const ApprovedDestination& each) { return liesWithin(asked, each.entry); });
  });
}

bool liesWithin(const NetworkEntry& inner, const NetworkEntry& outer) {
  const bool any_name = outer.name == model::kAnyName;
  const bool name =
      any_name || (inner.name != model::kAnyName && model::coversPattern(outer.name, inner.name));
  // Any bytes are more than those of a known protocol.
  const bool protocol = outer.protocol == inner.protocol || outer.protocol == model::Protocol::kTcp;
  return name && protocol && coversPorts(outer, inner) &&
         coversMethods(outer.methods, inner.methods) && coversPaths(outer.paths, inner.paths);
}

std::string destinationText(const NetworkEntry& entry) {
  std::string text = entry.name + ":";
  if (entry.ports.empty()) text += "*";
  for (size_t i = 0; i < entry.ports.size(); ++i)
    text += (i == 0 ? "" : ",") + std::to_string(entry.ports[i]);
  text += " " + std::string(model::protocolName(entry.protocol));
  if (!entry.methods.empty()) text += " " + listed(entry.methods);
  if (!entry.paths.empty()) text += " " + listed(entry.paths);
  return text;
}

}  // namespace cloister::policy
