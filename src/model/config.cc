// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <variant>

#include <yaml-cpp/yaml.h>

#include "base/file.h"
#include "base/nearest.h"
#include "model/config_checks.h"
#include "model/config_dlp.h"
#include "model/config_keys.h"
#include "model/config_tenants.h"
#include "model/yaml.h"

namespace cloister::model {
namespace {

using std::chrono::milliseconds;
using namespace config_file;

Names keyPaths() {
  Names paths;
  for (const Key& key : keys())
    paths.emplace_back(key.path);
  return paths;
}

std::string rangeOf(const Key& key) {
  if (key.max == 0) return {};
  return std::to_string(key.min) + " to " + std::to_string(key.max);
}

template <typename T>
using Word = std::pair<std::string_view, T>;
constexpr Word<Accelerator> kAccelerators[] = {
    {"auto", Accelerator::kAuto}, {"kvm", Accelerator::kKvm}, {"tcg", Accelerator::kTcg}};
constexpr char kAcceleratorWords[] = "auto, kvm or tcg";
constexpr Word<Vmm> kVmms[] = {{"auto", Vmm::kAuto},
                               {"qemu", Vmm::kQemu},
                               {"firecracker", Vmm::kFirecracker},
                               {"libkrun", Vmm::kLibkrun}};
constexpr char kVmmWords[] = "auto, qemu, firecracker or libkrun";
constexpr Word<OnRevoke> kOnRevoke[] = {{"finish", OnRevoke::kFinish}, {"end", OnRevoke::kEnd}};
constexpr char kOnRevokeWords[] = "finish or end";
constexpr Word<Durability> kDurabilities[] = {{"process", Durability::kProcess},
                                              {"power", Durability::kPower}};
constexpr char kDurabilityWords[] = "process or power";
constexpr Word<bool> kBools[] = {{"true", true}, {"false", false}};
constexpr char kBoolWords[] = "true or false";
constexpr Word<bool> kAllowed[] = {{"allow", true}, {"refuse", false}};
constexpr char kAllowedWords[] = "refuse or allow";

class Setter {
 public:
  Setter(const Key& key, const YAML::Node& node) : key_(key), node_(node) {}

  Result<> operator()(std::string* target) const {
    *target = TRY(text(node_));
    return {};
  }
  Result<> operator()(Names* target) const { return names(node_, target); }
  Result<> operator()(NamesMap* target) const {
    constexpr size_t kMost = 256;
    if (!node_.IsMap() && !node_.IsNull()) return wrong("a map of text to lists of text");
    if (node_.size() > kMost) return wrong("a map of at most 256 entries");
    for (const auto& entry : node_) {
      const auto [at, fresh] = target->emplace(TRY(text(entry.first)), Names());
      if (!fresh) return wrong("a map that names each key once");
      TRY(names(entry.second, &at->second));
    }
    return {};
  }
  Result<> operator()(Durability* target) const {
    return oneOf(target, kDurabilities, kDurabilityWords);
  }
  Result<> operator()(Accelerator* target) const {
    return oneOf(target, kAccelerators, kAcceleratorWords);
  }
  Result<> operator()(Vmm* target) const { return oneOf(target, kVmms, kVmmWords); }
  Result<> operator()(OnRevoke* target) const { return oneOf(target, kOnRevoke, kOnRevokeWords); }
  Result<> operator()(bool* target) const { return oneOf(target, kBools, kBoolWords); }
  Result<> operator()(Allowed target) const { return oneOf(target.value, kAllowed, kAllowedWords); }
  Result<> operator()(TextMap* target) const {
    constexpr size_t kMost = 1000;
    if (!node_.IsMap() && !node_.IsNull()) return wrong("a map of text to text");
    if (node_.size() > kMost) return wrong("a map of at most 1000 entries");
    for (const auto& entry : node_) {
      if (!target->emplace(TRY(text(entry.first)), TRY(text(entry.second))).second) {
        return wrong("a map that names each key once");
      }
    }
    return {};
  }
  Result<> operator()(std::vector<DlpRule>* target) const {
    *target = TRY(readDlpRules(node_));
    return {};
  }
  // Read by readTenantRules(), once the rules of all tenants are known.
  Result<> operator()(RulesOfTenants* target) const {
    if (!node_.IsMap() && !node_.IsNull()) return wrong("a map of tenants");
    if (node_.size() > 0) target->emplace("", PackageRules());  // not read yet
    return {};
  }
  Result<> operator()(uint32_t* target) const {
    *target = static_cast<uint32_t>(TRY(number()));
    return {};
  }
  Result<> operator()(uint64_t* target) const {
    *target = TRY(number());
    return {};
  }
  Result<> operator()(milliseconds* target) const {
    *target = milliseconds(TRY(number()));
    return {};
  }

 private:
  [[nodiscard]] std::unexpected<Error> wrong(std::string_view wanted) const {
    const std::string path(key_.path);
    return fail(Code::kInvalid, path + ": must be " + std::string(wanted), path);
  }

  template <typename T, size_t N>
  Result<> oneOf(T* target, const Word<T> (&words)[N], std::string_view wanted) const {
    const std::string word = TRY(text(node_));
    const auto* found = std::ranges::find(words, word, [](const auto& each) { return each.first; });
    if (found == std::end(words)) return wrong(wanted);
    *target = found->second;
    return {};
  }

  [[nodiscard]] Result<std::string> text(const YAML::Node& node) const {
    if (!node.IsScalar()) return wrong("text");
    const std::string& value = node.Scalar();
    constexpr size_t kLongest = 4096;
    if (value.size() > kLongest) return wrong("text of at most 4096 bytes");
    if (value.find('\0') != std::string::npos) return wrong("text without a NUL");
    return value;
  }

  Result<> names(const YAML::Node& node, Names* target) const {
    if (!node.IsSequence()) return wrong("a list of text");
    constexpr size_t kMost = 256;
    if (node.size() > kMost) return wrong("a list of at most 256");
    target->clear();
    for (const YAML::Node& item : node)
      target->push_back(TRY(text(item)));
    return {};
  }

  [[nodiscard]] Result<uint64_t> number() const {
    const std::string wanted = "a whole number from " + rangeOf(key_);
    if (!node_.IsScalar()) return wrong(wanted);
    std::string digits = node_.Scalar();
    std::erase(digits, '_');  // 1_000_000
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    if (!whole || value < key_.min || value > key_.max) return wrong(wanted);
    return value * key_.scale;
  }

  const Key& key_;
  const YAML::Node& node_;
};

Result<> applyMap(const YAML::Node& map, const std::string& prefix, std::set<std::string>& seen,
                  Config& config);

bool isSection(const std::string& path) {
  return std::ranges::any_of(keys(),
                             [&](const Key& key) { return key.path.starts_with(path + "."); });
}

Result<> applyOne(const std::string& path, const YAML::Node& value, std::set<std::string>& seen,
                  Config& config) {
  if (!seen.insert(path).second) return fail(Code::kInvalid, path + ": given twice", path);
  const auto key = std::ranges::find(keys(), path, &Key::path);
  const bool short_form = key != keys().end() && value.IsScalar();
  if (isSection(path) && !short_form) return applyMap(value, path + ".", seen, config);
  if (key == keys().end()) {
    const std::string nearest = base::nearestName(path, keyPaths());
    const std::string hint = nearest.empty() ? "" : "; did you mean " + nearest + "?";
    return fail(Code::kInvalid, path + ": unknown key" + hint, path);
  }
  return std::visit(Setter(*key, value), key->target(config));
}

Result<> applyMap(const YAML::Node& map, const std::string& prefix, std::set<std::string>& seen,
                  Config& config) {
  if (map.IsNull()) return {};  // a section with all its keys commented out
  if (!map.IsMap()) {
    const std::string name = prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1);
    return fail(Code::kInvalid, (name.empty() ? "the file" : name) + ": must be a map", name);
  }
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) return fail(Code::kInvalid, prefix + "?: a key must be text");
    TRY(applyOne(prefix + entry.first.Scalar(), entry.second, seen, config));
  }
  return {};
}

std::string shown(const std::string& text) {
  return text.empty() ? "\"\"" : text;
}

// The type and the default of a key, for the documentation.
struct Describer {
  const Key& key;
  ConfigKey& row;

  void operator()(const std::string* value) const { set("text", shown(*value)); }
  void operator()(const Names* value) const {
    std::string all;
    for (const std::string& item : *value)
      all += (all.empty() ? "" : ", ") + item;
    set("list of text", "[" + all + "]");
  }
  void operator()(const Durability*) const { set(kDurabilityWords, "process"); }
  void operator()(const Accelerator*) const { set(kAcceleratorWords, "auto"); }
  void operator()(const Vmm*) const { set(kVmmWords, "auto"); }
  void operator()(const OnRevoke*) const { set(kOnRevokeWords, "finish"); }
  void operator()(const bool* value) const { set(kBoolWords, *value ? "true" : "false"); }
  void operator()(Allowed allowed) const {
    set(kAllowedWords, *allowed.value ? "allow" : "refuse");
  }
  void operator()(const TextMap*) const { set("map of text to text", "{}"); }
  void operator()(const NamesMap*) const { set("map of text to lists of text", "{}"); }
  void operator()(const RulesOfTenants*) const { set("map of tenants to rules", "{}"); }
  void operator()(const std::vector<DlpRule>*) const { set("list of rules", "[]"); }
  void operator()(const uint32_t* value) const { number(*value); }
  void operator()(const uint64_t* value) const { number(*value); }
  void operator()(const milliseconds* value) const {
    number(static_cast<uint64_t>(value->count()));
  }

  void number(uint64_t value) const { set("whole number", std::to_string(value / key.scale)); }
  void set(std::string type, std::string value) const {
    row.type = std::move(type);
    row.default_value = std::move(value);
  }
};

}  // namespace

Result<Config> parseConfig(std::string_view yaml, std::string_view name) {
  Config config;
  std::set<std::string> seen;
  const std::string doing = "reading " + std::string(name);
  try {
    Result<> good = requireOneDocument(yaml);
    if (good) {
      const YAML::Node file = YAML::Load(std::string(yaml));
      good = applyMap(file, "", seen, config);
      const auto apply = [](const YAML::Node& rules, Config& own) {
        std::set<std::string> given;
        return applyMap(rules, "packages.rules.", given, own);
      };
      if (good) good = readTenantRules(file, apply, config);
    }
    if (good) good = checkConfig(config);
    if (!good) return std::unexpected(std::move(good).error().within(doing));
  } catch (const YAML::Exception& error) {
    return fail(Code::kInvalid, doing + ": " + error.what());
  }
  return config;
}

Result<Config> loadConfig(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  return parseConfig(TRY(base::readFile(path, kMaxBytes)), path);
}

std::string stateDir(const Config& config) {
  return config.state.empty() ? base::defaultStateDir() : config.state;
}

std::vector<ConfigKey> configKeys() {
  std::vector<ConfigKey> rows;
  Config defaults;
  for (const Key& key : keys()) {
    ConfigKey row{std::string(key.path), {}, std::string(key.unit), rangeOf(key), {}};
    std::visit(Describer{key, row}, key.target(defaults));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace cloister::model
