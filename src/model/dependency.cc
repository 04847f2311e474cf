// SPDX-License-Identifier: Apache-2.0
#include "model/dependency.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/crypto.h"
#include "model/image_name.h"

namespace cloister::model {
namespace {

namespace json = base::json;

constexpr size_t kMaxDep = 512;
constexpr size_t kMaxPackages = 5'000;
constexpr base::JsonLimits kToolJson{
    .max_bytes = size_t{64} << 20, .max_depth = 64, .max_values = 2'000'000};

bool isWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

std::unexpected<Error> badDep(const std::string& dep, std::string_view why) {
  return fail(Code::kInvalid,
              "deps: \"" + dep.substr(0, 100) + "\": " + std::string(why) +
                  R"(; name packages as "NAME" or with versions, such as "numpy==1.26.4" or )"
                  R"("lodash@^4.17.0")",
              "deps");
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.remove_suffix(1);
  return std::string(text);
}

std::string withoutSpaces(std::string_view text) {
  std::string out;
  std::ranges::copy_if(text, std::back_inserter(out),
                       [](char c) { return std::isspace(static_cast<unsigned char>(c)) == 0; });
  return out;
}

// PEP 503: runs of "-", "_" and "." are one "-", in lower case.
std::string pypiName(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool separator = c == '-' || c == '_' || c == '.';
    if (separator && out.ends_with('-')) continue;
    out += separator ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

bool onlyOf(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text, [&](char c) { return isWord(c) || others.contains(c); });
}

// PEP 508 without direct references.
Result<std::string> pypiDep(const std::string& dep) {
  const std::string text = trimmed(dep);
  size_t at = 0;
  while (at < text.size() &&
         (isWord(text[at]) || text[at] == '-' || text[at] == '_' || text[at] == '.'))
    ++at;
  const std::string_view name = std::string_view(text).substr(0, at);
  if (name.empty() || !isWord(name.front()) || !isWord(name.back())) {
    return badDep(dep, "it does not begin with the name of a package");
  }
  std::string_view rest = std::string_view(text).substr(at);
  std::string marker;
  if (const size_t semicolon = rest.find(';'); semicolon != std::string_view::npos) {
    marker = trimmed(rest.substr(semicolon + 1));
    rest = rest.substr(0, semicolon);
    if (!onlyOf(marker, "_.'\"<>=!()~+*- ")) return badDep(dep, "its marker is malformed");
  }
  std::string tail = withoutSpaces(rest);
  if (tail.contains('@') || tail.contains('/')) {
    return badDep(dep, "addresses and paths are not permitted");
  }
  std::string extras;
  if (tail.starts_with('[')) {
    const size_t end = tail.find(']');
    if (end == std::string::npos) return badDep(dep, "its extras have no end");
    extras = tail.substr(0, end + 1);
    tail.erase(0, end + 1);
    if (!onlyOf(extras, "[],-_.")) return badDep(dep, "its extras are malformed");
  }
  if (!tail.empty() &&
      (!std::string_view("<>=!~(").contains(tail.front()) || !onlyOf(tail, "<>=!~,.*+-_()"))) {
    return badDep(dep, "its versions are malformed");
  }
  return pypiName(name) + extras + tail + (marker.empty() ? "" : ";" + marker);
}

bool isNpmName(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.front() != '_' && onlyOf(name, "-_.~");
}

// NAME, NAME@VERSIONS, @SCOPE/NAME@VERSIONS.
Result<std::string> npmDep(const std::string& dep) {
  const std::string text = trimmed(dep);
  const bool scoped = text.starts_with('@');
  const size_t at = text.find('@', scoped ? 1 : 0);
  const std::string_view name = std::string_view(text).substr(0, at);
  const size_t slash = name.find('/');
  const bool named = scoped ? slash != std::string_view::npos &&
                                  isNpmName(name.substr(1, slash - 1)) &&
                                  isNpmName(name.substr(slash + 1))
                            : isNpmName(name);
  if (!named) return badDep(dep, "it does not begin with the name of a package");
  if (at == std::string::npos) return text;
  const std::string versions = trimmed(std::string_view(text).substr(at + 1));
  if (versions.empty() || !onlyOf(versions, "<>=~^.*+-_| ")) {
    return badDep(dep, "its versions are malformed");
  }
  return std::string(name) + "@" + versions;
}

std::string textOf(const json::object& object, std::string_view name) {
  const json::value* found = object.if_contains(name);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

std::string fileOf(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  return std::string(url.substr(url.rfind('/') + 1));
}

std::unexpected<Error> badLock(std::string_view why) {
  return fail(Code::kInternal, "reading what was installed: " + std::string(why));
}

Result<json::object> objectOf(std::string_view text) {
  json::value value = TRY(base::parseJson(text, kToolJson));
  if (!value.is_object()) return badLock("no object");
  return std::move(value.get_object());
}

Result<LockedPackage> pipPackage(const json::value& value) {
  const json::object* entry = value.if_object();
  const json::value* metadata = entry == nullptr ? nullptr : entry->if_contains("metadata");
  const json::value* info = entry == nullptr ? nullptr : entry->if_contains("download_info");
  if (metadata == nullptr || !metadata->is_object() || info == nullptr || !info->is_object()) {
    return badLock("a package is not described");
  }
  LockedPackage package{.name = pypiName(textOf(metadata->get_object(), "name")),
                        .version = textOf(metadata->get_object(), "version"),
                        .file = fileOf(textOf(info->get_object(), "url")),
                        .sha256 = {},
                        .hash = {},
                        .license = textOf(metadata->get_object(), "license").substr(0, 100)};
  const json::value* archive = info->get_object().if_contains("archive_info");
  if (archive != nullptr && archive->is_object()) {
    const std::string hash = textOf(archive->get_object(), "hash");
    if (hash.starts_with("sha256=")) package.sha256 = hash.substr(7);
  }
  if (package.name.empty() || package.version.empty()) return badLock("a package has no name");
  return package;
}

Result<std::vector<LockedPackage>> sorted(std::vector<LockedPackage> packages) {
  if (packages.size() > kMaxPackages) return badLock("too many packages");
  std::ranges::sort(packages, [](const LockedPackage& a, const LockedPackage& b) {
    return std::tie(a.name, a.version) < std::tie(b.name, b.version);
  });
  const auto again = std::ranges::unique(packages);
  packages.erase(again.begin(), again.end());
  return packages;
}

// "sha512-BASE64" of Subresource Integrity.
void addIntegrity(const std::string& integrity, LockedPackage& package) {
  const size_t dash = integrity.find('-');
  if (dash == std::string::npos) return;
  const auto bytes = base::fromBase64(integrity.substr(dash + 1));
  if (!bytes) return;
  const std::string name = integrity.substr(0, dash);
  if (name == "sha256") package.sha256 = base::toHex(*bytes);
  if (name == "sha512" || name == "sha1" || name == "sha384") {
    package.hash = name + ":" + base::toHex(*bytes);
  }
}

}  // namespace

std::optional<Ecosystem> ecosystemOf(std::string_view language) {
  if (language == "python") return Ecosystem::kPypi;
  if (language == "node" || language == "typescript") return Ecosystem::kNpm;
  return std::nullopt;
}

std::string_view layerPlaceOf(Ecosystem ecosystem) {
  return ecosystem == Ecosystem::kPypi ? "python" : "node";
}

void addLayerEnv(Ecosystem ecosystem, std::map<std::string, std::string>& env) {
  const bool pypi = ecosystem == Ecosystem::kPypi;
  const auto prepend = [&](const std::string& name, std::string_view value,
                           std::string_view otherwise) {
    const auto own = env.find(name);
    const std::string rest(own == env.end() ? otherwise : std::string_view(own->second));
    env[name] = std::string(value) + (rest.empty() ? "" : ":" + rest);
  };
  prepend(pypi ? "PYTHONPATH" : "NODE_PATH", pypi ? "/run/deps/python" : "/node_modules", "");
  prepend("PATH", pypi ? "/run/deps/python/bin" : "/node_modules/.bin", kDefaultPath);
}

Result<std::vector<std::string>> canonicalDeps(Ecosystem ecosystem,
                                               const std::vector<std::string>& deps) {
  std::vector<std::string> all;
  for (const std::string& dep : deps) {
    if (dep.size() > kMaxDep) return badDep(dep, "it is too long");
    all.push_back(TRY(ecosystem == Ecosystem::kPypi ? pypiDep(dep) : npmDep(dep)));
  }
  std::ranges::sort(all);
  const auto again = std::ranges::unique(all);
  all.erase(again.begin(), again.end());
  return all;
}

Result<std::vector<LockedPackage>> lockOfPip(std::string_view report) {
  const json::object object = TRY(objectOf(report));
  const json::value* installed = object.if_contains("install");
  if (installed == nullptr || !installed->is_array()) return badLock("no list of packages");
  std::vector<LockedPackage> packages;
  for (const json::value& each : installed->get_array())
    packages.push_back(TRY(pipPackage(each)));
  return sorted(std::move(packages));
}

Result<std::vector<LockedPackage>> lockOfNpm(std::string_view lock) {
  const json::object object = TRY(objectOf(lock));
  const json::value* installed = object.if_contains("packages");
  if (installed == nullptr || !installed->is_object()) return badLock("no list of packages");
  std::vector<LockedPackage> packages;
  constexpr std::string_view kFolder = "node_modules/";
  for (const auto& [path, value] : installed->get_object()) {
    const std::string_view place(path.data(), path.size());
    const size_t at = place.rfind(kFolder);
    if (at == std::string_view::npos || !value.is_object()) continue;
    const json::object& entry = value.get_object();
    // A package under another name has its own beside the path.
    std::string name = textOf(entry, "name");
    if (name.empty()) name = place.substr(at + kFolder.size());
    LockedPackage package{.name = std::move(name),
                          .version = textOf(entry, "version"),
                          .file = fileOf(textOf(entry, "resolved")),
                          .sha256 = {},
                          .hash = {},
                          .license = textOf(entry, "license").substr(0, 100)};
    if (package.version.empty()) return badLock("a package has no version");
    addIntegrity(textOf(entry, "integrity"), package);
    packages.push_back(std::move(package));
  }
  return sorted(std::move(packages));
}

namespace {

json::object toJsonObject(const LockedPackage& package) {
  json::object object = {{"name", package.name}, {"version", package.version}};
  const std::pair<std::string_view, const std::string&> rest[] = {{"file", package.file},
                                                                  {"sha256", package.sha256},
                                                                  {"hash", package.hash},
                                                                  {"license", package.license}};
  for (const auto& [name, value] : rest) {
    if (!value.empty()) object[name] = value;
  }
  return object;
}

Result<LockedPackage> readPackage(const json::value& value) {
  if (!value.is_object()) return fail(Code::kInternal, "reading a layer: a package is no object");
  base::ObjectReader reader(value.get_object(), "packages");
  LockedPackage package;
  package.name = TRY(reader.text("name")).value_or("");
  package.version = TRY(reader.text("version")).value_or("");
  package.file = TRY(reader.text("file")).value_or("");
  package.sha256 = TRY(reader.text("sha256")).value_or("");
  package.hash = TRY(reader.text("hash")).value_or("");
  package.license = TRY(reader.text("license")).value_or("");
  TRY(reader.finish());
  return package;
}

}  // namespace

json::object toJsonObject(const DependencyLayer& layer) {
  json::array packages;
  for (const LockedPackage& package : layer.packages)
    packages.emplace_back(toJsonObject(package));
  return {{"key", layer.key},
          {"tenant", layer.tenant},
          {"maker", layer.maker},
          {"ecosystem", ecosystemName(layer.ecosystem)},
          {"deps", json::array(layer.deps.begin(), layer.deps.end())},
          {"digest", layer.digest},
          {"size_bytes", layer.size_bytes},
          {"files", layer.files},
          {"packages", std::move(packages)},
          {"made_at", layer.made_at},
          {"used_at", layer.used_at},
          {"users", json::array(layer.users.begin(), layer.users.end())}};
}

Result<DependencyLayer> parseDependencyLayer(std::string_view text) {
  const json::object object = TRY(objectOf(text));
  base::ObjectReader reader(object, "");
  DependencyLayer layer;
  layer.key = TRY(reader.text("key")).value_or("");
  layer.tenant = TRY(reader.text("tenant")).value_or("");
  layer.maker = TRY(reader.text("maker")).value_or("");
  const std::string ecosystem = TRY(reader.text("ecosystem")).value_or("");
  layer.ecosystem =
      ecosystem == ecosystemName(Ecosystem::kNpm) ? Ecosystem::kNpm : Ecosystem::kPypi;
  if (const json::array* deps = TRY(reader.array("deps"))) {
    for (const json::value& dep : *deps) {
      if (dep.is_string()) layer.deps.emplace_back(dep.get_string());
    }
  }
  layer.digest = TRY(reader.text("digest")).value_or("");
  layer.size_bytes =
      static_cast<uint64_t>(TRY(reader.integer("size_bytes", 0, INT64_MAX)).value_or(0));
  layer.files = static_cast<uint64_t>(TRY(reader.integer("files", 0, INT64_MAX)).value_or(0));
  if (const json::array* packages = TRY(reader.array("packages"))) {
    for (const json::value& package : *packages)
      layer.packages.push_back(TRY(readPackage(package)));
  }
  layer.made_at = TRY(reader.integer("made_at", 0, INT64_MAX)).value_or(0);
  layer.used_at = TRY(reader.integer("used_at", 0, INT64_MAX)).value_or(0);
  if (const json::array* users = TRY(reader.array("users"))) {
    for (const json::value& user : *users) {
      if (user.is_string()) layer.users.emplace_back(user.get_string());
    }
  }
  TRY(reader.finish());
  return layer;
}

std::string layerKey(const LayerInputs& inputs) {
  const json::array all = {inputs.tenant,
                           ecosystemName(inputs.ecosystem),
                           inputs.image,
                           json::array(inputs.deps.begin(), inputs.deps.end()),
                           toJsonObject(inputs.rules),
                           inputs.day};
  return base::sha256Hex(base::toJson(all));
}

}  // namespace cloister::model
