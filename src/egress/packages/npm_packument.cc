// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/npm_packument.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "net/url.h"

namespace cloister::egress {
namespace {

namespace json = base::json;

constexpr size_t kMostTags = 1000;
constexpr size_t kMaxHash = 1024;
constexpr std::string_view kSuffix = ".tgz";

// Members of a release in the abbreviated document
// (https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md).
constexpr std::array<std::string_view, 19> kShort = {"deprecated",
                                                     "dependencies",
                                                     "optionalDependencies",
                                                     "devDependencies",
                                                     "bundleDependencies",
                                                     "bundledDependencies",
                                                     "peerDependencies",
                                                     "peerDependenciesMeta",
                                                     "acceptDependencies",
                                                     "bin",
                                                     "directories",
                                                     "engines",
                                                     "cpu",
                                                     "os",
                                                     "libc",
                                                     "_hasShrinkwrap",
                                                     "funding",
                                                     "hasInstallScript",
                                                     "gypfile"};
constexpr std::array<std::string_view, 9> kLong = {"description", "keywords",   "license",
                                                   "homepage",    "repository", "main",
                                                   "type",        "scripts",    "exports"};
constexpr std::array<std::string_view, 3> kScripts = {"preinstall", "install", "postinstall"};

template <class List>
bool lists(const List& list, std::string_view item) {
  return std::ranges::find(list, item) != list.end();
}

std::string textOf(const json::object& object, std::string_view name, size_t most) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string() || value->get_string().size() > most) return {};
  return std::string(value->get_string());
}

const json::object* objectOf(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

// About; a document takes far more memory once it is read.
size_t memoryOf(const json::value& value) {
  constexpr size_t kEach = 32;
  size_t bytes = kEach;
  if (const auto* object = value.if_object()) {
    for (const auto& [key, member] : *object)
      bytes += key.size() + memoryOf(member);
  } else if (const auto* array = value.if_array()) {
    for (const json::value& item : *array)
      bytes += memoryOf(item);
  } else if (const auto* text = value.if_string()) {
    bytes += text->size();
  }
  return bytes;
}

std::optional<NpmRelease> readRelease(std::string_view version, const json::object& object,
                                      const json::object* times, const UpstreamUrl& base) {
  const json::object* dist = objectOf(object, "dist");
  if (!model::NpmVersion::parse(version) || dist == nullptr) return std::nullopt;
  auto tarball = resolveUrl(base, textOf(*dist, "tarball", kMaxUpstreamUrl));
  if (!tarball) return std::nullopt;
  NpmRelease release;
  release.version = version;
  release.tarball = *std::move(tarball);
  release.integrity = textOf(*dist, "integrity", kMaxHash);
  release.shasum = textOf(*dist, "shasum", kMaxHash);
  if (times != nullptr) release.published = base::parseTime(textOf(*times, version, kMaxHash));
  std::string why;
  release.scripts = hasInstallScripts(object, why);
  for (const auto& [key, value] : object) {
    if (lists(kShort, key) || lists(kLong, key)) release.manifest[key] = value;
  }
  return release;
}

json::object written(const NpmPackage& package, const NpmRelease& release, bool whole) {
  json::object object = {{"name", package.name}, {"version", release.version}};
  for (const auto& [key, value] : release.manifest) {
    if (whole || lists(kShort, key)) object[key] = value;
  }
  if (release.scripts) object["hasInstallScript"] = true;
  const size_t slash = package.name.find('/');
  const std::string path = slash == std::string::npos ? package.name
                                                      : package.name.substr(0, slash) + "/" +
                                                            package.name.substr(slash + 1);
  json::object dist = {
      {"tarball", "http://" + std::string(model::kNpmName) + "/" + path + "/-/" +
                      net::percentEncode(tarballName(package.name, release.version))}};
  if (!release.integrity.empty()) dist["integrity"] = release.integrity;
  if (!release.shasum.empty()) dist["shasum"] = release.shasum;
  object["dist"] = std::move(dist);
  return object;
}

// The highest release among those, without prereleases if there are others.
const NpmRelease* highest(const std::vector<const NpmRelease*>& releases) {
  const auto key = [](const NpmRelease* release) {
    auto version = model::NpmVersion::parse(release->version).value_or(model::NpmVersion());
    return std::pair(version.prerelease.empty(), std::move(version));
  };
  const auto found = std::ranges::max_element(releases, {}, key);
  return found == releases.end() ? nullptr : *found;
}

}  // namespace

const NpmRelease* NpmPackage::find(std::string_view version) const {
  const auto found = std::ranges::find(releases, version, &NpmRelease::version);
  return found == releases.end() ? nullptr : &*found;
}

const NpmRelease* NpmOffer::find(std::string_view version) const {
  const auto found = std::ranges::find(allowed, version, &NpmRelease::version);
  return found == allowed.end() ? nullptr : *found;
}

bool hasInstallScripts(const json::object& manifest, std::string& why) {
  const auto isTrue = [&](std::string_view name) {
    const json::value* value = manifest.if_contains(name);
    return value != nullptr && value->is_bool() && value->get_bool();
  };
  const json::object* scripts = objectOf(manifest, "scripts");
  for (const std::string_view each : kScripts) {
    if (scripts == nullptr || !scripts->contains(each)) continue;
    why = "it has the script " + std::string(each);
    return true;
  }
  if (isTrue("hasInstallScript")) why = "the registry says that it has an install script";
  if (isTrue("gypfile")) why = "it has a binding.gyp";
  return !why.empty();
}

std::string tarballName(std::string_view package, std::string_view version) {
  const size_t slash = package.find('/');
  const std::string_view base =
      slash == std::string_view::npos ? package : package.substr(slash + 1);
  return std::string(base) + "-" + std::string(version) + std::string(kSuffix);
}

std::string versionOfTarball(std::string_view package, std::string_view filename) {
  const std::string start = tarballName(package, "");
  const std::string_view prefix = std::string_view(start).substr(0, start.size() - kSuffix.size());
  if (!filename.starts_with(prefix) || !filename.ends_with(kSuffix)) return {};
  if (filename.size() <= prefix.size() + kSuffix.size()) return {};
  const std::string version(
      filename.substr(prefix.size(), filename.size() - prefix.size() - kSuffix.size()));
  return model::NpmVersion::parse(version) ? version : "";
}

Result<NpmPackage> readPackument(const json::value& document, std::string_view name,
                                 const UpstreamUrl& base) {
  const json::object* object = document.if_object();
  const json::object* versions = object == nullptr ? nullptr : objectOf(*object, "versions");
  if (versions == nullptr) {
    return fail(Code::kInvalid, "the registry's answer is no document of npm's registry");
  }
  constexpr size_t kMostName = 256;
  if (textOf(*object, "name", kMostName) != name) {
    return fail(Code::kInvalid, "the registry's answer is about another package");
  }
  if (versions->size() > kMostReleases) {
    return fail(Code::kTooLarge, "the registry names too many versions");
  }
  NpmPackage package{.name = std::string(name), .releases = {}, .tags = {}, .bytes = 0};
  const json::object* times = objectOf(*object, "time");
  for (const auto& [version, value] : *versions) {
    const json::object* release = value.if_object();
    auto read = release == nullptr ? std::nullopt : readRelease(version, *release, times, base);
    if (!read) continue;
    package.bytes += sizeof(NpmRelease) + memoryOf(read->manifest);
    package.releases.push_back(*std::move(read));
  }
  if (const json::object* tags = objectOf(*object, "dist-tags")) {
    for (const auto& [tag, value] : *tags) {
      if (package.tags.size() >= kMostTags || tag.size() > kMostName || !value.is_string())
        continue;
      package.tags.emplace(tag, std::string(value.get_string()));
    }
  }
  return package;
}

NpmOffer offerOf(const NpmPackage& package, const PackageJudge& judge) {
  NpmOffer offer;
  for (const NpmRelease& release : package.releases) {
    if (auto refusal = judge.judge(release.candidate())) {
      offer.refused.push_back({&release, *std::move(refusal)});
    } else {
      offer.allowed.push_back(&release);
    }
  }
  if (offer.allowed.empty()) {
    offer.tags = package.tags;
    return offer;
  }
  for (const auto& [tag, version] : package.tags) {
    if (offer.find(version) != nullptr) offer.tags.emplace(tag, version);
  }
  constexpr const char* kLatest = "latest";
  if (!offer.tags.contains(kLatest)) offer.tags[kLatest] = highest(offer.allowed)->version;
  return offer;
}

std::string packument(const NpmPackage& package, const NpmOffer& offer, bool whole) {
  json::object versions;
  json::object time;
  std::string modified;
  const auto note = [&](const NpmRelease& release) {
    if (!release.published) return;
    const std::string text = base::formatTime(*release.published);
    modified = std::max(modified, text);
    time[release.version] = text;
  };
  for (const NpmRelease* release : offer.allowed) {
    versions[release->version] = written(package, *release, whole);
    note(*release);
  }
  for (const auto& [release, refusal] : offer.refused) {
    json::object object = written(package, *release, false);
    object["deprecated"] = "refused by " + refusal.text();
    if (!offer.allowed.empty()) object["engines"] = json::object{{"node", "<0"}};
    versions[release->version] = std::move(object);
    note(*release);
  }
  json::object tags;
  for (const auto& [tag, version] : offer.tags)
    tags[tag] = version;
  json::object document = {
      {"name", package.name}, {"dist-tags", std::move(tags)}, {"versions", std::move(versions)}};
  if (!modified.empty()) document["modified"] = modified;
  if (whole) {
    document["_id"] = package.name;
    document["time"] = std::move(time);
  }
  return base::toJson(document);
}

std::string manifestOf(const NpmPackage& package, const NpmRelease& release) {
  return base::toJson(written(package, release, true));
}

}  // namespace cloister::egress
