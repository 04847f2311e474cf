// SPDX-License-Identifier: Apache-2.0
#include "model/packages.h"

#include <algorithm>

#include "base/clock.h"
#include "model/advisory.h"
#include "model/image_name.h"
#include "model/network.h"
#include "model/package_selector.h"

namespace cloister::model {
namespace {

namespace json = base::json;
using base::ObjectReader;

constexpr std::array kEcosystems = {Ecosystem::kPypi, Ecosystem::kNpm};
constexpr size_t kMostItems = 256;
constexpr size_t kMaxItem = 256;
constexpr int64_t kMostDays = 36'500;
constexpr int64_t kMostBytes = int64_t{1} << 40;

std::unexpected<Error> wrong(const std::string& key, const std::string& why) {
  return fail(Code::kInvalid, key + ": " + why, key);
}

json::array textsOf(const std::vector<std::string>& texts) {
  return json::array(texts.begin(), texts.end());
}

Result<std::vector<std::string>> readTexts(ObjectReader& reader, std::string_view name) {
  std::vector<std::string> texts;
  const json::array* array = TRY(reader.array(name));
  if (array == nullptr) return texts;
  for (const json::value& value : *array) {
    const json::string* text = value.if_string();
    if (text == nullptr) return wrong(reader.pathOf(name), "must be a list of text");
    texts.emplace_back(*text);
  }
  return texts;
}

// "refuse" or "allow".
Result<bool> readAllowed(ObjectReader& reader, std::string_view name) {
  const auto word = TRY(reader.text(name));
  if (!word || *word == "refuse") return false;
  if (*word == "allow") return true;
  return wrong(reader.pathOf(name), "must be refuse or allow");
}

template <class Read>
Result<> checkItems(const std::vector<std::string>& items, const std::string& path, Read read) {
  if (items.size() > kMostItems) {
    return wrong(path, "has more than " + std::to_string(kMostItems) +
                           " items; use names with a *, as acme-*");
  }
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = path + "[" + std::to_string(i) + "]";
    if (items[i].size() > kMaxItem) return wrong(item, "is too long");
    if (const auto good = read(items[i]); !good) return wrong(item, good.error().message);
  }
  return {};
}

bool isAbsolutePath(std::string_view text) {
  return text.starts_with('/');
}

// "http[s]://host[:port][/path]", without credentials, query and fragment.
bool isUrl(std::string_view text) {
  const bool tls = text.starts_with("https://");
  if (!tls && !text.starts_with("http://")) return false;
  text.remove_prefix(text.find("//") + 2);
  const auto odd = [](char c) {
    return c <= ' ' || c >= 0x7f || c == '@' || c == '?' || c == '#' || c == '\\' || c == '%';
  };
  const size_t host = std::min(text.find('/'), text.size());
  return host > 0 && std::ranges::none_of(text, odd) && text.find("/../") == std::string_view::npos;
}

Result<> checkSource(const PackageSource& source, const std::string& key, const std::string& of) {
  const std::string index = key + "." + of;
  if (!source.index.empty() && !isUrl(source.index) && !isAbsolutePath(source.index)) {
    return wrong(index,
                 "must be an https:// or http:// URL without credentials, or the absolute path of "
                 "a folder");
  }
  const bool remote = isUrl(source.index);
  if (!source.credentials_file.empty() && !remote) {
    return wrong(key + ".credentials_file", "is for " + index + ", which is no URL");
  }
  for (size_t i = 0; i < source.file_hosts.size(); ++i) {
    const auto host = hostName(source.file_hosts[i]);
    if (host && *host == source.file_hosts[i]) continue;
    return wrong(key + ".file_hosts[" + std::to_string(i) + "]",
                 "must be the name of a host, as files.example.com");
  }
  return {};
}

}  // namespace

std::string_view ecosystemName(Ecosystem ecosystem) {
  return ecosystem == Ecosystem::kPypi ? "pypi" : "npm";
}

bool isPackageRule(std::string_view name) {
  return name == kAdvisoryRule ||
         std::ranges::find(kPackageRuleNames, name) != kPackageRuleNames.end();
}

std::optional<Ecosystem> ecosystemFromName(std::string_view name) {
  const auto* found = std::ranges::find(kEcosystems, name, ecosystemName);
  return found == kEcosystems.end() ? std::nullopt : std::optional(*found);
}

std::string_view gatewayName(Ecosystem ecosystem) {
  return ecosystem == Ecosystem::kPypi ? kPypiName : kNpmName;
}

std::optional<Ecosystem> ecosystemOfGateway(std::string_view name) {
  const auto* found = std::ranges::find(kEcosystems, name, gatewayName);
  return found == kEcosystems.end() ? std::nullopt : std::optional(*found);
}

std::vector<Ecosystem> PackageSettings::ecosystems() const {
  std::vector<Ecosystem> all;
  for (const Ecosystem each : kEcosystems) {
    if (!source(each).index.empty()) all.push_back(each);
  }
  return all;
}

const PackageRules& PackageSettings::rulesOf(const std::string& tenant) const {
  const auto own = tenants.find(tenant);
  return own == tenants.end() ? rules : own->second;
}

std::string PackageSettings::weakness() const {
  std::string keys;
  for (const Ecosystem each : kEcosystems) {
    if (!source(each).index.starts_with("http://")) continue;
    keys += keys.empty() ? "" : ", ";
    keys += each == Ecosystem::kPypi ? "packages.pypi.index" : "packages.npm.registry";
  }
  return keys.empty() ? "" : "packages come over plain HTTP, which others can change: " + keys;
}

Result<> checkPackageRules(const PackageRules& rules, const std::string& path) {
  TRY(checkItems(rules.allow, path + ".allow", readPackageSelector));
  TRY(checkItems(rules.deny, path + ".deny", readPackageSelector));
  TRY(checkItems(rules.pins, path + ".pins", readPackagePin));
  if (rules.max_bytes == 0) return wrong(path + ".max_bytes", "must be at least 1");
  return {};
}

Result<> checkPackages(const PackageSettings& packages) {
  TRY(checkSource(packages.pypi, "packages.pypi", "index"));
  TRY(checkSource(packages.npm, "packages.npm", "registry"));
  for (const auto& [key, path] : {std::pair("packages.advisories", &packages.advisories),
                                  std::pair("packages.ca_file", &packages.ca_file)}) {
    if (!path->empty() && !isAbsolutePath(*path)) return wrong(key, "must be an absolute path");
  }
  TRY(checkPackageRules(packages.rules, "packages.rules"));
  for (const auto& [tenant, rules] : packages.tenants)
    TRY(checkPackageRules(rules, "packages.tenants." + tenant + ".rules"));
  return {};
}

std::vector<std::pair<std::string, std::string>> packageEnvironment(
    const std::vector<Ecosystem>& ecosystems) {
  // PIP_USER and npm_config_global would change what a person's command means, so neither is set.
  constexpr const char* kBase = "/home/user/.local";
  const std::string pypi = "http://" + std::string(kPypiName);
  const std::string npm = "http://" + std::string(kNpmName) + "/";
  std::vector<std::pair<std::string, std::string>> env;
  if (ecosystems.empty()) return env;
  env.emplace_back("PATH", std::string(kDefaultPath) + std::string(kInstalledPath));
  for (const Ecosystem each : ecosystems) {
    if (each == Ecosystem::kPypi) {
      env.insert(env.end(), {{"PIP_BREAK_SYSTEM_PACKAGES", "1"},
                             {"PIP_DISABLE_PIP_VERSION_CHECK", "1"},
                             {"PIP_INDEX_URL", pypi + "/simple"},
                             {"PIP_NO_CACHE_DIR", "1"},
                             {"PIP_ROOT_USER_ACTION", "ignore"},
                             {"PIP_TRUSTED_HOST", std::string(kPypiName)},
                             {"PYTHONUSERBASE", kBase},
                             {"UV_DEFAULT_INDEX", pypi + "/simple"},
                             {"UV_INSECURE_HOST", std::string(kPypiName)}});
    } else {
      env.insert(env.end(), {{"NODE_PATH", std::string(kBase) + "/lib/node_modules"},
                             {"npm_config_audit", "false"},
                             {"npm_config_cache", "/tmp/.npm"},
                             {"npm_config_fund", "false"},
                             {"npm_config_prefix", kBase},
                             {"npm_config_registry", npm},
                             {"npm_config_update_notifier", "false"}});
    }
  }
  return env;
}

json::object toJsonObject(const PackageRules& rules) {
  const PackageRules defaults;
  json::object object;
  if (!rules.allow.empty()) object["allow"] = textsOf(rules.allow);
  if (rules.cooldown_days != 0) object["cooldown_days"] = rules.cooldown_days;
  if (!rules.deny.empty()) object["deny"] = textsOf(rules.deny);
  if (rules.max_bytes != defaults.max_bytes) object["max_bytes"] = rules.max_bytes;
  if (!rules.pins.empty()) object["pins"] = textsOf(rules.pins);
  if (rules.scripts_allowed) object["scripts"] = "allow";
  if (rules.sdists_allowed) object["sdists"] = "allow";
  if (rules.undated_allowed) object["undated"] = "allow";
  return object;
}

json::object toJsonObject(const PlanPackages& packages) {
  json::object object;
  if (!packages.cutoff.empty()) object["cutoff"] = packages.cutoff;
  json::array ecosystems;
  for (const Ecosystem each : packages.ecosystems)
    ecosystems.emplace_back(ecosystemName(each));
  object["ecosystems"] = std::move(ecosystems);
  object["rules"] = toJsonObject(packages.rules);
  return object;
}

Result<PackageRules> readPackageRules(const json::object& object, const std::string& path) {
  ObjectReader reader(object, path);
  PackageRules rules;
  rules.allow = TRY(readTexts(reader, "allow"));
  rules.deny = TRY(readTexts(reader, "deny"));
  rules.pins = TRY(readTexts(reader, "pins"));
  const auto days = TRY(reader.integer("cooldown_days", 0, kMostDays));
  rules.cooldown_days = static_cast<uint32_t>(days.value_or(0));
  const auto bytes = TRY(reader.integer("max_bytes", 1, kMostBytes));
  if (bytes) rules.max_bytes = static_cast<uint64_t>(*bytes);
  rules.scripts_allowed = TRY(readAllowed(reader, "scripts"));
  rules.sdists_allowed = TRY(readAllowed(reader, "sdists"));
  rules.undated_allowed = TRY(readAllowed(reader, "undated"));
  TRY(reader.finish());
  TRY(checkPackageRules(rules, path));
  return rules;
}

Result<PlanPackages> readPlanPackages(const json::object& object, const std::string& path) {
  ObjectReader reader(object, path);
  PlanPackages packages;
  for (const std::string& name : TRY(readTexts(reader, "ecosystems"))) {
    const auto ecosystem = ecosystemFromName(name);
    if (!ecosystem ||
        std::ranges::find(packages.ecosystems, *ecosystem) != packages.ecosystems.end()) {
      return wrong(reader.pathOf("ecosystems"), "must be distinct ones of pypi and npm");
    }
    packages.ecosystems.push_back(*ecosystem);
  }
  if (packages.ecosystems.empty()) return wrong(reader.pathOf("ecosystems"), "is required");
  packages.cutoff = TRY(reader.text("cutoff")).value_or("");
  if (!packages.cutoff.empty() && !base::parseTime(packages.cutoff)) {
    return wrong(reader.pathOf("cutoff"), "must be a time, as 2026-01-02T03:04:05Z");
  }
  const json::object* rules = TRY(reader.object("rules"));
  if (rules == nullptr) return wrong(reader.pathOf("rules"), "is required");
  packages.rules = TRY(readPackageRules(*rules, reader.pathOf("rules")));
  TRY(reader.finish());
  return packages;
}

}  // namespace cloister::model
