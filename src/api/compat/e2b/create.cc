// SPDX-License-Identifier: Apache-2.0
// POST /sandboxes: E2B's request as a request for a session.
#include <algorithm>
#include <array>

#include "api/compat/e2b/control.h"
#include "api/compat/e2b/paths.h"
#include "base/id.h"
#include "base/network.h"
#include "model/snapshot.h"

namespace cloister::api::compat::e2b {
namespace {

namespace json = base::json;

constexpr Millis kDefaultTimeout{300'000};
// E2B's smallest template has as much.
constexpr uint64_t kMemoryBytes = uint64_t{512} << 20;
constexpr uint32_t kPids = 256;
constexpr size_t kMostNames = 64;
constexpr std::string_view kAllTraffic = "0.0.0.0/0";

// Members that would change what the sandbox may do, and that this service does not have.
Result<> checkAbsent(const json::object& body) {
  static constexpr auto kAbsent = std::to_array<std::string_view>({"mcp", "iam", "volumeMounts"});
  static constexpr auto kAbsentOfNetwork =
      std::to_array<std::string_view>({"rules", "egressProxy", "maskRequestHost"});
  const auto has = [](const json::object& object, std::string_view name) {
    const json::value* value = object.if_contains(name);
    if (value == nullptr || value->is_null()) return false;
    if (const json::array* array = value->if_array()) return !array->empty();
    if (const json::object* inner = value->if_object()) return !inner->empty();
    return true;
  };
  const auto absent = [](const std::string& name) {
    return fail(Code::kUnsupported, name + ": this service does not offer it; leave it out", name);
  };
  for (const std::string_view name : kAbsent) {
    if (has(body, name)) return absent(std::string(name));
  }
  const json::value* network = body.if_contains("network");
  if (network == nullptr || !network->is_object()) return {};
  for (const std::string_view name : kAbsentOfNetwork) {
    if (has(network->get_object(), name)) return absent("network." + std::string(name));
  }
  return {};
}

// Error fields in E2B's words.
Error inTheirWords(Error error) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"ttl_seconds", "timeout"}, {"env", "envVars"}};
  for (const auto& [ours, theirs] : kWords) {
    if (!error.field.starts_with(ours)) continue;
    if (error.message.starts_with(ours)) error.message.replace(0, ours.size(), theirs);
    error.field.replace(0, ours.size(), theirs);
  }
  return error;
}

Result<std::vector<std::string>> readNames(const json::object& network, std::string_view name) {
  std::vector<std::string> names;
  const json::value* value = network.if_contains(name);
  if (value == nullptr || value->is_null()) return names;
  const std::string field = "network." + std::string(name);
  const json::array* array = value->if_array();
  if (array == nullptr || array->size() > kMostNames) {
    return fail(Code::kInvalid, field + ": must be a list of at most 64 texts", field);
  }
  for (const json::value& item : *array) {
    if (!item.is_string()) return fail(Code::kInvalid, field + ": must be a list of texts", field);
    names.emplace_back(item.get_string());
  }
  return names;
}

// A wish for a network.
struct Wish {
  bool internet = true;
  std::vector<std::string> allow;  // host names and networks; empty: any
  std::vector<std::string> deny;
};

Result<Wish> readWish(const json::object& body) {
  Wish wish;
  base::ObjectReader reader(body, "");
  wish.internet = TRY(reader.boolean("allow_internet_access")).value_or(true);
  const json::object* network = TRY(reader.object("network"));
  if (network == nullptr) return wish;
  wish.allow = TRY(readNames(*network, "allowOut"));
  wish.deny = TRY(readNames(*network, "denyOut"));
  return wish;
}

Task<Result<bool>> granted(RestParts& parts, const model::Principal& who,
                           model::SessionRequest request, model::NetworkRequest network) {
  request.settings.network = std::move(network);
  co_return co_await parts.sessions.wouldGrant(who, std::move(request));
}

// Names of the wish as entries; addresses are left out, since policy is about names.
std::vector<model::NetworkEntry> entriesOf(const Wish& wish) {
  std::vector<model::NetworkEntry> entries;
  for (const std::string& name : wish.allow) {
    if (base::Network::parse(name)) continue;
    for (const uint16_t port : {uint16_t{443}, uint16_t{80}}) {
      auto entry = model::readNetworkEntry(json::string(name + ":" + std::to_string(port)),
                                           "network.allowOut", false);
      if (entry) entries.push_back(*std::move(entry));
    }
  }
  return entries;
}

// The part of the wish that policy grants; nothing is refused for a wish.
Task<Result<model::NetworkRequest>> cutNetwork(RestParts& parts, const model::Principal& who,
                                               const model::SessionRequest& request, Wish wish) {
  const auto is_all = [](const std::string& name) { return name == kAllTraffic; };
  const bool any = wish.allow.empty() || std::ranges::any_of(wish.allow, is_all);
  const bool denies_all = std::ranges::any_of(wish.deny, is_all);
  const bool denies_some = !wish.deny.empty() && !denies_all;
  model::NetworkRequest none;
  // A plan has no list of forbidden addresses, so a wish with one gets no network.
  if (!wish.internet || denies_some || (any && denies_all)) co_return none;
  if (any) {
    for (const std::string_view tier : {"full", "restricted"}) {
      model::NetworkRequest network;
      network.tier = tier;
      if (CO_TRY(co_await granted(parts, who, request, network))) co_return network;
    }
    co_return none;
  }
  model::NetworkRequest named;
  named.tier = "restricted";
  for (model::NetworkEntry& entry : entriesOf(wish)) {
    const model::NetworkRequest one{.tier = "restricted", .allow = {entry}};
    if (CO_TRY(co_await granted(parts, who, request, one))) named.allow.push_back(std::move(entry));
  }
  co_return named.allow.empty() ? none : named;
}

// The end of a sandbox's time.
struct Lifecycle {
  bool pauses = false;   // instead of an end
  bool resumes = false;  // at the next request
};

// A pause keeps the memory, so `autoPauseMemory: false` cannot be had.
Result<Lifecycle> readLifecycle(const json::object& body) {
  base::ObjectReader reader(body, "");
  Lifecycle lifecycle{.pauses = TRY(reader.boolean("autoPause")).value_or(false)};
  if (!TRY(reader.boolean("autoPauseMemory")).value_or(true)) {
    return fail(Code::kUnsupported,
                "autoPauseMemory: a pause of this service keeps the memory; leave it out",
                "autoPauseMemory");
  }
  if (const json::object* resume = TRY(reader.object("autoResume"))) {
    base::ObjectReader inner(*resume, "autoResume");
    lifecycle.resumes = TRY(inner.boolean("enabled")).value_or(false);
  }
  return lifecycle;
}

// The members of a session's request with the same meaning.
Result<model::SessionRequest> readRequest(const RestParts& parts, const json::object& body,
                                          Millis timeout, const std::string& template_id) {
  const bool snapshot = base::isId(model::kSnapshotPrefix, template_id);
  const double seconds = static_cast<double>(timeout.count()) / 1000;
  json::object ours{{"ttl_seconds", seconds}, {"idle_ttl_seconds", seconds}};
  if (const json::value* metadata = body.if_contains("metadata")) ours["metadata"] = *metadata;
  if (const json::value* env = body.if_contains("envVars")) ours["env"] = *env;
  if (snapshot) ours["from_snapshot"] = template_id;
  if (!snapshot) {
    const std::string image = TRY(imageOf(parts, template_id));
    if (!image.empty()) ours["image"] = image;
  }
  auto request = model::parseSessionRequest(ours, parts.bounds, parts.session_bounds);
  if (!request) return std::unexpected(inTheirWords(std::move(request).error()));
  // Not named by the client: policy may lower these limits.
  model::Limits& limits = request->settings.limits;
  limits.memory_bytes = std::min(kMemoryBytes, parts.bounds.max.memory_bytes);
  limits.pids = std::min(kPids, parts.bounds.max.pids);
  return request;
}

}  // namespace

Result<std::optional<Millis>> readSeconds(const RestParts& parts, const json::object& body,
                                          std::string_view name) {
  base::ObjectReader reader(body, "");
  constexpr double kAny = 1e9;
  const auto seconds = TRY(reader.number(name, 0, kAny));
  if (!seconds) return std::nullopt;
  const Millis time(static_cast<int64_t>(*seconds * 1000));
  if (time <= parts.session_bounds.max_ttl) return time;
  const std::string field(name);
  return fail(Code::kInvalid,
              field + ": at most " + std::to_string(parts.session_bounds.max_ttl.count() / 1000) +
                  " seconds are allowed (session.max_ttl_seconds)",
              field);
}

Task<Result<model::NetworkRequest>> networkFor(RestParts& parts, const model::Principal& who,
                                               const json::object& body) {
  json::object wish_body{{"network", body}};
  CO_TRY(checkAbsent(wish_body));
  if (const json::value* internet = body.if_contains("allow_internet_access")) {
    wish_body["allow_internet_access"] = *internet;
  }
  const Wish wish = CO_TRY(readWish(wish_body));
  const auto request = CO_TRY(model::parseSessionRequest({}, parts.bounds, parts.session_bounds));
  co_return co_await cutNetwork(parts, who, request, wish);
}

Task<Result<model::Session>> createSandbox(Desk& desk, Request& request, const json::object& body) {
  RestParts& parts = desk.parts;
  base::ObjectReader reader(body, "");
  const auto name = CO_TRY(reader.text("templateID"));
  if (!name || name->empty()) co_return fail(Code::kInvalid, "templateID: required", "templateID");
  CO_TRY(checkAbsent(body));
  const auto timeout = CO_TRY(readSeconds(parts, body, "timeout"));
  const Millis life = std::min(timeout.value_or(kDefaultTimeout), parts.session_bounds.max_ttl);
  const Lifecycle lifecycle = CO_TRY(readLifecycle(body));
  const Millis ttl = lifecycle.pauses ? parts.session_bounds.max_ttl : life;
  model::SessionRequest wanted = CO_TRY(readRequest(parts, body, ttl, *name));
  const Wish wish = CO_TRY(readWish(body));
  auto network = co_await cutNetwork(parts, request.principal, wanted, wish);
  wanted.settings.network = CO_TRY(std::move(network));
  wanted.settings.metadata[std::string(kTemplateMember)] = *name;
  wanted.cwd = resolvedPath("");
  if (lifecycle.pauses) {
    wanted.settings.metadata[std::string(kTimeoutMember)] = kPauses;
    wanted.settings.metadata[std::string(kResumeMember)] = lifecycle.resumes ? "true" : "false";
  }
  if (body.contains("allow_internet_access")) {
    wanted.settings.metadata[std::string(kInternetMember)] = wish.internet ? "true" : "false";
  }
  model::Session session;
  if (wanted.from_snapshot.empty()) {
    session = CO_TRY(co_await parts.sessions.create(request.principal, std::move(wanted), ""));
  } else {
    session = CO_TRY(co_await parts.snapshots.restore(request.principal, std::move(wanted), ""));
  }
  if (lifecycle.pauses) {
    co_await desk.auto_pause.begin(parts, request.principal, session.id, life);
  }
  if (session.status != model::SessionStatus::kBlocked) co_return session;
  co_return fail(Code::kDenied, "the sandbox " + session.id + " waits for an approval" +
                                    (session.error ? ": " + session.error->message : "") +
                                    "; connect to it after the approval");
}

}  // namespace cloister::api::compat::e2b
