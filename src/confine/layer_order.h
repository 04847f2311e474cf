// SPDX-License-Identifier: Apache-2.0
// The dependency layers that a sandbox gets, as plain data: they travel as bytes from the node to
// the spawner. A layer is a directory of the node's store of layers, named by its content.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace cloister::runtime {

// Where a layer appears in a sandbox. Each place has one layer at most.
enum class LayerPlace : uint32_t { kPython, kNode };
inline constexpr size_t kLayerPlaces = 2;

// The directory within a layer that appears at the place, and the place itself, without "/".
struct LayerPlaceNames {
  std::string_view name;    // as in permits
  std::string_view within;  // the layer's directory, or all of it
  std::string_view target;  // in the sandbox
  std::string_view link;    // or empty: leads to a directory of the layer once there is one
};
// Node.js looks for packages in "node_modules" of every directory above a program. npm takes the
// nearest directory that has one for the project's, so there must be none without a layer.
inline constexpr std::array<LayerPlaceNames, kLayerPlaces> kLayerPlaceNames = {
    {{"python", "python", "run/deps/python", ""}, {"node", "", "run/deps/node", "node_modules"}}};

// kInvalid for an unknown name.
Result<LayerPlace> layerPlace(std::string_view name);

struct LayerOrder {
  static constexpr size_t kDigits = 64;  // of a SHA-256

  struct Layer {
    std::array<char, kDigits> digest{};  // in lower-case hexadecimal digits
    LayerPlace place = LayerPlace::kPython;

    friend bool operator==(const Layer&, const Layer&) = default;
  };
  uint32_t count = 0;
  std::array<Layer, kLayerPlaces> layers{};

  friend bool operator==(const LayerOrder&, const LayerOrder&) = default;
};

// Adds a layer; `digest`: "sha256:…". kInvalid for another form, and for a place that is taken.
Result<> addLayer(LayerOrder& order, std::string_view digest, std::string_view place);

// Whether the digests and places are within their bounds, and no place occurs twice.
bool isSound(const LayerOrder& order);

}  // namespace cloister::runtime
