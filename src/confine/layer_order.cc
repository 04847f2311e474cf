// SPDX-License-Identifier: Apache-2.0
#include "confine/layer_order.h"

#include <algorithm>
#include <span>
#include <string>

namespace cloister::runtime {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";

bool isDigest(std::string_view digits) {
  return digits.size() == LayerOrder::kDigits &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Result<LayerPlace> layerPlace(std::string_view name) {
  const auto found = std::ranges::find(kLayerPlaceNames, name, &LayerPlaceNames::name);
  if (found != kLayerPlaceNames.end()) {
    return static_cast<LayerPlace>(found - kLayerPlaceNames.begin());
  }
  return fail(Code::kInvalid, "there is no place \"" + std::string(name) + "\" for a layer");
}

Result<> addLayer(LayerOrder& order, std::string_view digest, std::string_view place) {
  if (!digest.starts_with(kDigestPrefix) || !isDigest(digest.substr(kDigestPrefix.size()))) {
    return fail(Code::kInvalid, "a layer's digest is malformed");
  }
  LayerOrder::Layer layer{.place = TRY(layerPlace(place))};
  std::ranges::copy(digest.substr(kDigestPrefix.size()), layer.digest.begin());
  const auto present = std::span(order.layers).first(order.count);
  if (std::ranges::find(present, layer.place, &LayerOrder::Layer::place) != present.end()) {
    return fail(Code::kInvalid, "the place \"" + std::string(place) + "\" has two layers");
  }
  order.layers.at(order.count++) = layer;
  return {};
}

bool isSound(const LayerOrder& order) {
  if (order.count == 0 || order.count > order.layers.size()) return false;
  for (uint32_t i = 0; i < order.count; ++i) {
    const LayerOrder::Layer& layer = order.layers[i];
    if (static_cast<size_t>(layer.place) >= kLayerPlaces) return false;
    if (!isDigest({layer.digest.data(), layer.digest.size()})) return false;
    for (uint32_t j = 0; j < i; ++j) {
      if (order.layers[j].place == layer.place) return false;
    }
  }
  return true;
}

}  // namespace cloister::runtime
