// SPDX-License-Identifier: Apache-2.0
// The requests of OpenSandbox's lifecycle API, read strictly.
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "api/compat/opensandbox/lifecycle_json.h"
#include "api/http/http.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

constexpr int64_t kLeastSeconds = 60;
constexpr int64_t kMostSeconds = int64_t{100} * 365 * 86'400;
constexpr size_t kMostArguments = 256;
constexpr double kMillis = 1000;

std::unexpected<Error> invalid(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

std::unexpected<Error> notOffered(const std::string& field, const std::string& instead) {
  return fail(Code::kUnsupported, field + ": is not offered by this service; " + instead, field);
}

Result<std::map<std::string, std::string>> textMap(base::ObjectReader& reader,
                                                   std::string_view name) {
  std::map<std::string, std::string> map;
  const json::object* object = TRY(reader.object(name));
  if (object == nullptr) return map;
  for (const auto& [key, value] : *object) {
    const json::string* text = value.if_string();
    const std::string field = reader.pathOf(name) + "." + std::string(key);
    if (text == nullptr) return invalid(field, "must be a string");
    map.emplace(key, *text);
  }
  return map;
}

Result<std::vector<std::string>> textList(base::ObjectReader& reader, std::string_view name) {
  std::vector<std::string> list;
  const json::array* items = TRY(reader.array(name));
  if (items == nullptr) return list;
  const std::string field = reader.pathOf(name);
  if (items->size() > kMostArguments) {
    return invalid(field, "at most " + std::to_string(kMostArguments) + " items are allowed");
  }
  for (const json::value& item : *items) {
    if (!item.is_string()) return invalid(field, "must be a list of strings");
    list.emplace_back(item.get_string());
  }
  return list;
}

// A number with its unit, as in Kubernetes' quantities.
struct Unit {
  std::string_view suffix;
  double factor;
};

Result<double> quantity(std::string_view text, std::string_view wanted,
                        std::initializer_list<Unit> units) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view suffix(parsed.ptr, static_cast<size_t>(end - parsed.ptr));
  const auto* const unit = std::ranges::find(units, suffix, &Unit::suffix);
  const bool good = parsed.ec == std::errc() && std::isfinite(number) && number > 0;
  if (good && unit != units.end()) return number * unit->factor;
  return fail(Code::kInvalid, "must be " + std::string(wanted));
}

Result<> readResources(const json::object& object, CreateRequest& request) {
  const std::string at = "resourceLimits";
  base::ObjectReader reader(object, at);
  const auto within = [&](std::string_view name, auto parsed) {
    parsed.error().message = at + "." + std::string(name) + ": " + parsed.error().message;
    parsed.error().field = at + "." + std::string(name);
    return std::unexpected(std::move(parsed).error());
  };
  if (const auto cpu = TRY(reader.text("cpu"))) {
    auto parsed = parseCpu(*cpu);
    if (!parsed) return within("cpu", std::move(parsed));
    request.cpu_millis = *parsed;
  }
  if (const auto memory = TRY(reader.text("memory"))) {
    auto parsed = parseMemoryMb(*memory);
    if (!parsed) return within("memory", std::move(parsed));
    request.memory_mb = *parsed;
  }
  if (reader.any("gpu") != nullptr) return notOffered(at + ".gpu", "leave it out");
  return reader.finish();
}

Result<> readImage(base::ObjectReader& reader, CreateRequest& request) {
  const json::object* image = TRY(reader.object("image"));
  if (image == nullptr) return {};
  base::ObjectReader inner(*image, "image");
  request.image = TRY(inner.text("uri")).value_or("");
  if (request.image.empty()) return invalid("image.uri", "is required");
  if (inner.any("auth") != nullptr) {
    return notOffered("image.auth", "the operator imports images; leave it out");
  }
  return inner.finish();
}

std::string_view architecture() {
  static const std::string kName = [] {
    utsname host{};
    return ::uname(&host) == 0 ? std::string(host.machine) : std::string();
  }();
  if (kName == "x86_64") return "amd64";
  return kName == "aarch64" ? std::string_view("arm64") : std::string_view(kName);
}

Result<> readPlatform(base::ObjectReader& reader, CreateRequest& request) {
  const json::object* platform = TRY(reader.object("platform"));
  if (platform == nullptr) return {};
  base::ObjectReader inner(*platform, "platform");
  const std::string os = TRY(inner.text("os")).value_or("");
  const std::string arch = TRY(inner.text("arch")).value_or("");
  TRY(inner.finish());
  if (os != "linux") return invalid("platform.os", "must be linux");
  if (arch != architecture()) {
    return invalid("platform.arch", "this service runs on " + std::string(architecture()));
  }
  request.platform = *platform;
  return {};
}

Result<> readExtensions(base::ObjectReader& reader, CreateRequest& request) {
  constexpr std::string_view kPool = "poolRef";
  constexpr std::string_view kRenew = "access.renew.extend.seconds";
  for (const auto& [name, value] : TRY(textMap(reader, "extensions"))) {
    const std::string field = "extensions." + name;
    if (name == kPool) {
      request.pool = value;
    } else if (name == kRenew) {
      int64_t seconds = 0;
      const char* end = value.data() + value.size();
      const auto parsed = std::from_chars(value.data(), end, seconds);
      if (parsed.ec != std::errc() || parsed.ptr != end || seconds < 1 || seconds > kMostSeconds) {
        return invalid(field, "must be a whole number of seconds, as a string");
      }
      request.extend_seconds = seconds;
    } else {
      return notOffered(field, "this service knows poolRef and access.renew.extend.seconds");
    }
  }
  return {};
}

Result<> readUnoffered(base::ObjectReader& reader) {
  if (const json::array* volumes = TRY(reader.array("volumes"));
      volumes != nullptr && !volumes->empty()) {
    return notOffered("volumes", "upload files, or begin with a snapshot");
  }
  const json::object* proxy = TRY(reader.object("credentialProxy"));
  if (proxy == nullptr) return {};
  base::ObjectReader inner(*proxy, "credentialProxy");
  if (TRY(inner.boolean("enabled")).value_or(false)) {
    return notOffered("credentialProxy.enabled",
                      "brokered secrets of this service do the same (PUT /v1/secrets/{name})");
  }
  return inner.finish();
}

Result<> checkSource(const CreateRequest& request, bool has_limits) {
  if (!request.metadata.empty()) {
    const auto reserved = request.metadata.lower_bound(std::string(kReserved));
    if (reserved != request.metadata.end() && reserved->first.starts_with(kReserved)) {
      return invalid("metadata." + reserved->first,
                     "names that begin with opensandbox.io/ are reserved");
    }
  }
  if (!request.image.empty() && !request.snapshot.empty()) {
    return invalid("snapshotId", "not together with image");
  }
  if (!request.pool.empty() && !request.snapshot.empty()) {
    return invalid("snapshotId", "not together with extensions.poolRef");
  }
  if (request.image.empty() && request.snapshot.empty() && request.pool.empty()) {
    return invalid("image", "is required, or snapshotId, or extensions.poolRef");
  }
  if (request.image.empty()) return {};
  if (request.entrypoint.empty()) return invalid("entrypoint", "is required with image");
  if (!has_limits) return invalid("resourceLimits", "is required with image");
  return {};
}

}  // namespace

Result<uint32_t> parseCpu(std::string_view text) {
  constexpr double kMost = 1'000'000;
  const double millis = TRY(quantity(text, "a number of processors such as \"500m\" or \"2\"",
                                     {{"", kMillis}, {"m", 1}}));
  if (millis > kMost) return fail(Code::kInvalid, "must be at most 1000 processors");
  return static_cast<uint32_t>(std::ceil(millis));
}

Result<uint64_t> parseMemoryMb(std::string_view text) {
  constexpr double kKi = 1024;
  constexpr double kK = 1000;
  const double bytes = TRY(quantity(text, "an amount of memory such as \"512Mi\" or \"2Gi\"",
                                    {{"", 1},
                                     {"k", kK},
                                     {"K", kK},
                                     {"M", kK * kK},
                                     {"G", kK * kK * kK},
                                     {"T", kK * kK * kK * kK},
                                     {"Ki", kKi},
                                     {"Mi", kKi * kKi},
                                     {"Gi", kKi * kKi * kKi},
                                     {"Ti", kKi * kKi * kKi * kKi}}));
  constexpr double kMost = 1e15;
  if (bytes > kMost) return fail(Code::kInvalid, "must be at most a petabyte");
  return static_cast<uint64_t>(std::ceil(bytes / (kKi * kKi)));
}

Result<std::vector<EgressRule>> parseEgressRules(const json::array& rules, const std::string& at) {
  if (rules.size() > kMostRules) {
    return invalid(at, "at most " + std::to_string(kMostRules) + " rules are allowed");
  }
  std::vector<EgressRule> parsed;
  for (const json::value& rule : rules) {
    const std::string place = at + "[" + std::to_string(parsed.size()) + "]";
    const json::object* object = rule.if_object();
    if (object == nullptr) return invalid(place, "must be an object with action and target");
    base::ObjectReader reader(*object, place);
    const std::string action = TRY(reader.text("action")).value_or("");
    if (action != "allow" && action != "deny") {
      return invalid(place + ".action", "must be allow or deny");
    }
    const std::string target = TRY(reader.text("target")).value_or("");
    auto name = model::hostPattern(lowerCase(target));
    if (!name) {
      return invalid(place + ".target",
                     "must be a host name, or a pattern such as \"*.example.com\"");
    }
    TRY(reader.finish());
    parsed.push_back({action == "allow", *std::move(name)});
  }
  return parsed;
}

Result<EgressPolicy> parseEgressPolicy(const json::object& object, const std::string& at) {
  base::ObjectReader reader(object, at);
  EgressPolicy policy;
  const auto otherwise = TRY(reader.text("defaultAction"));
  const json::array* rules = TRY(reader.array("egress"));
  TRY(reader.finish());
  // An empty policy allows everything, and a policy with rules denies the rest.
  policy.allow_by_default = otherwise ? *otherwise == "allow" : rules == nullptr;
  if (otherwise && *otherwise != "allow" && *otherwise != "deny") {
    return invalid(reader.pathOf("defaultAction"), "must be allow or deny");
  }
  if (rules != nullptr) policy.rules = TRY(parseEgressRules(*rules, reader.pathOf("egress")));
  return policy;
}

Result<CreateRequest> parseCreate(const json::object& body) {
  base::ObjectReader reader(body, "");
  CreateRequest request;
  TRY(readImage(reader, request));
  request.snapshot = TRY(reader.text("snapshotId")).value_or("");
  request.entrypoint = TRY(textList(reader, "entrypoint"));
  const json::object* limits = TRY(reader.object("resourceLimits"));
  if (limits != nullptr) TRY(readResources(*limits, request));
  // The share that a scheduler reserves; the limits hold here.
  TRY(reader.object("resourceRequests"));
  request.timeout_seconds = TRY(reader.integer("timeout", kLeastSeconds, kMostSeconds));
  request.env = TRY(textMap(reader, "env"));
  request.metadata = TRY(textMap(reader, "metadata"));
  if (const json::object* network = TRY(reader.object("networkPolicy"))) {
    request.network = TRY(parseEgressPolicy(*network, "networkPolicy"));
  }
  // Every access needs a credential here.
  TRY(reader.boolean("secureAccess"));
  TRY(readPlatform(reader, request));
  TRY(readExtensions(reader, request));
  TRY(readUnoffered(reader));
  TRY(reader.finish());
  TRY(checkSource(request, limits != nullptr));
  if (request.entrypoint.empty()) request.entrypoint = {"tail", "-f", "/dev/null"};
  return request;
}

bool onlyKeepsAlive(const std::vector<std::string>& entrypoint) {
  using Argv = std::vector<std::string>;
  static const std::array<Argv, 5> kIdle = {Argv{"tail", "-f", "/dev/null"},
                                            Argv{"sleep", "infinity"}, Argv{"sleep", "inf"},
                                            Argv{"/bin/sh", "-c", "sleep infinity"},
                                            // The interpreters of code are the service's.
                                            Argv{"/opt/opensandbox/code-interpreter.sh"}};
  return std::ranges::find(kIdle, entrypoint) != kIdle.end();
}

json::object metadataOf(const CreateRequest& request) {
  json::object metadata;
  for (const auto& [name, value] : request.metadata)
    metadata[name] = value;
  if (!request.image.empty()) metadata[kImage] = request.image;
  metadata[kEntrypoint] =
      base::toJson(json::array(request.entrypoint.begin(), request.entrypoint.end()));
  if (request.platform) metadata[kPlatform] = base::toJson(*request.platform);
  if (request.extend_seconds) metadata[kExtend] = std::to_string(*request.extend_seconds);
  return metadata;
}

}  // namespace cloister::api::compat::opensandbox
