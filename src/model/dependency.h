// SPDX-License-Identifier: Apache-2.0
// Dependencies of a run or session (`deps`), the layer that has them installed, and the layer's
// bill of materials. A layer is a read-only directory, named by its content, that a node attaches
// to a sandbox. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/packages.h"

namespace cloister::model {

// The ecosystem of a language's packages: PyPI for python, npm for node and typescript.
std::optional<Ecosystem> ecosystemOf(std::string_view language);
// The place of its layers, as in permits: "python" or "node".
std::string_view layerPlaceOf(Ecosystem ecosystem);

// Requirements in their canonical form, sorted and distinct: names as PEP 503 and npm normalise
// them, without spaces. kInvalid, with `field` and the remedy, for anything but a name with extras,
// versions and a marker: addresses, paths and options are refused.
Result<std::vector<std::string>> canonicalDeps(Ecosystem ecosystem,
                                               const std::vector<std::string>& deps);

// Adds the variables by which programs find the layer: PYTHONPATH, NODE_PATH and PATH. The
// request's own values follow the layer's.
void addLayerEnv(Ecosystem ecosystem, std::map<std::string, std::string>& env);

// The requirements in the first comment block of a script: PEP 723. Empty without such a block.
Result<std::vector<std::string>> depsOfScript(std::string_view script);
// The requirements of a requirements.txt, or of a package.json.
Result<std::vector<std::string>> depsOfRequirements(std::string_view text);
Result<std::vector<std::string>> depsOfPackageJson(std::string_view text);

// A package of a layer, as it was resolved.
struct LockedPackage {
  std::string name;
  std::string version;
  std::string file;    // its name
  std::string sha256;  // of the file, in hexadecimal digits; "" if the tool names another hash
  std::string hash;    // another hash, as "sha512:HEX"; "" with sha256
  std::string license;

  friend bool operator==(const LockedPackage&, const LockedPackage&) = default;
};
// The packages in the report of `pip install --report`, sorted by name.
Result<std::vector<LockedPackage>> lockOfPip(std::string_view report);
// The packages in a package-lock.json of npm, sorted by name and version.
Result<std::vector<LockedPackage>> lockOfNpm(std::string_view lock);

struct DependencyLayer {
  std::string key;     // of what was asked for: layerKey()
  std::string tenant;  // the only one that may use it; "": every tenant
  std::string maker;   // the tenant whose request made it, and whose quota has it; never shown
  Ecosystem ecosystem = Ecosystem::kPypi;
  std::vector<std::string> deps;
  std::string digest;  // "sha256:…"
  uint64_t size_bytes = 0;
  uint64_t files = 0;
  std::vector<LockedPackage> packages;
  int64_t made_at = 0;  // wall-clock microseconds, as the next
  int64_t used_at = 0;
  std::vector<std::string> users = {};  // tenants that had the layer, sorted

  friend bool operator==(const DependencyLayer&, const DependencyLayer&) = default;
};
base::json::object toJsonObject(const DependencyLayer& layer);
Result<DependencyLayer> parseDependencyLayer(std::string_view text);

// What decides the content of a layer.
struct LayerInputs {
  std::string tenant;  // "" where the layer may be shared
  Ecosystem ecosystem = Ecosystem::kPypi;
  std::string image;  // model::ImageRef as text: the interpreter's version
  std::vector<std::string> deps;
  PackageRules rules;
  std::string day;  // "2026-11-29": packages as of that day
};
std::string layerKey(const LayerInputs& inputs);

// The bill of materials of a layer: CycloneDX 1.5, the same bytes for the same layer.
base::json::object billOfMaterials(const DependencyLayer& layer);
std::string billDigest(const DependencyLayer& layer);  // SHA-256 of its canonical JSON

}  // namespace cloister::model
