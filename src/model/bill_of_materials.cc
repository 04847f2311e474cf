// SPDX-License-Identifier: Apache-2.0
// The bill of materials of a dependency layer (CycloneDX 1.5, https://cyclonedx.org/docs/1.5/json).
#include <algorithm>
#include <cctype>

#include "base/crypto.h"
#include "model/dependency.h"

namespace cloister::model {
namespace {

namespace json = base::json;

// Package URLs (https://github.com/package-url/purl-spec): unreserved characters stand for
// themselves.
std::string escaped(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-._~").contains(c)) {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    }
  }
  return out;
}

std::string packageUrl(Ecosystem ecosystem, const LockedPackage& package) {
  std::string name = package.name;
  std::string scope;
  if (const size_t slash = name.find('/'); slash != std::string::npos) {
    scope = escaped(name.substr(0, slash)) + "/";
    name = name.substr(slash + 1);
  }
  return "pkg:" + std::string(ecosystemName(ecosystem)) + "/" + scope + escaped(name) + "@" +
         escaped(package.version);
}

// As CycloneDX names hashes: SHA-256, SHA-512.
json::array hashesOf(const LockedPackage& package) {
  json::array hashes;
  if (!package.sha256.empty()) {
    hashes.emplace_back(json::object{{"alg", "SHA-256"}, {"content", package.sha256}});
  }
  if (const size_t colon = package.hash.find(':'); colon != std::string::npos) {
    hashes.emplace_back(json::object{{"alg", "SHA-" + package.hash.substr(3, colon - 3)},
                                     {"content", package.hash.substr(colon + 1)}});
  }
  return hashes;
}

json::object componentOf(Ecosystem ecosystem, const LockedPackage& package) {
  const std::string url = packageUrl(ecosystem, package);
  json::object component = {{"type", "library"}, {"bom-ref", url}};
  std::string name = package.name;
  if (const size_t slash = name.find('/'); slash != std::string::npos) {
    component["group"] = name.substr(0, slash);
    name = name.substr(slash + 1);
  }
  component["name"] = name;
  component["version"] = package.version;
  component["purl"] = url;
  if (json::array hashes = hashesOf(package); !hashes.empty()) {
    component["hashes"] = std::move(hashes);
  }
  if (!package.license.empty()) {
    component["licenses"] =
        json::array{json::object{{"license", json::object{{"name", package.license}}}}};
  }
  return component;
}

// A UUID (RFC 9562, version 8) made of a digest: the same layer has the same serial number.
std::string serialOf(const DependencyLayer& layer) {
  std::string digits = base::sha256Hex(layer.digest).substr(0, 32);
  digits[12] = '8';
  digits[16] = '8';
  return "urn:uuid:" + digits.substr(0, 8) + "-" + digits.substr(8, 4) + "-" +
         digits.substr(12, 4) + "-" + digits.substr(16, 4) + "-" + digits.substr(20);
}

}  // namespace

json::object billOfMaterials(const DependencyLayer& layer) {
  json::array components;
  for (const LockedPackage& package : layer.packages)
    components.emplace_back(componentOf(layer.ecosystem, package));
  return {{"bomFormat", "CycloneDX"},
          {"specVersion", "1.5"},
          {"serialNumber", serialOf(layer)},
          {"version", 1},
          {"metadata", json::object{{"component", json::object{{"type", "container"},
                                                               {"bom-ref", layer.digest},
                                                               {"name", "dependency layer"},
                                                               {"version", layer.digest}}}}},
          {"components", std::move(components)}};
}

std::string billDigest(const DependencyLayer& layer) {
  return base::sha256Hex(base::toJson(billOfMaterials(layer)));
}

}  // namespace cloister::model
