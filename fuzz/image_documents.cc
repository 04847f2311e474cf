// SPDX-License-Identifier: Apache-2.0
// The JSON of an OCI archive, and the record of an image.
#include "images/oci.h"
#include "model/image.h"

#include "require.h"

namespace images = cloister::images;
namespace model = cloister::model;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto index = images::parseIndex(text)) {
    for (const images::Descriptor& each : *index)
      REQUIRE(model::isImageDigest(each.digest));
    const auto chosen = images::choosePlatform(*index, images::machinePlatform());
    if (!chosen) REQUIRE(!chosen.error().message.empty());
  }
  if (const auto manifest = images::parseManifest(text)) {
    REQUIRE(model::isImageDigest(manifest->config.digest));
    REQUIRE(manifest->layers.size() <= 512);
  }
  if (const auto config = images::parseImageConfig(text)) {
    REQUIRE(config->env.size() <= model::kMaxImageEnv);
    for (const std::string& digest : config->diff_ids)
      REQUIRE(model::isImageDigest(digest));
  }
  if (const auto docker = images::parseDockerManifest(text)) REQUIRE(!docker->config.empty());
  if (const auto image = model::parseImage(text)) {
    REQUIRE(model::parseImage(model::toJson(*image)) == *image);
  }
  return 0;
}
