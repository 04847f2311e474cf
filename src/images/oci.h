// SPDX-License-Identifier: Apache-2.0
// The documents of the OCI image specification (index, manifest, config) and of `docker save`, as
// far as an import reads them. Hostile: bounded, and every member is checked that is used. Members
// that are not used are passed over, as the specification wants.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/image.h"

namespace cloister::images {

struct Descriptor {
  std::string media_type;
  std::string digest;  // sha256:…
  uint64_t size = 0;
  std::string platform;  // "linux/amd64"; "" if it does not say
  std::string name;      // annotation org.opencontainers.image.ref.name; ""

  [[nodiscard]] bool isIndex() const;
};

// An image index, of one layer of indirection: index.json or a blob.
Result<std::vector<Descriptor>> parseIndex(std::string_view text);

struct Manifest {
  Descriptor config;
  std::vector<Descriptor> layers;
};
// Layers of a media type that is not a tar are refused.
Result<Manifest> parseManifest(std::string_view text);

struct ImageConfig {
  std::string platform;
  model::ImageEnv env;
  std::vector<std::string> diff_ids;  // of the layers' tars, without compression
  std::vector<std::string> notes;     // what was left out of it
};
Result<ImageConfig> parseImageConfig(std::string_view text);

// manifest.json of `docker save`, of exactly one image: paths in the archive.
struct DockerManifest {
  std::string config;
  std::vector<std::string> layers;
};
Result<DockerManifest> parseDockerManifest(std::string_view text);

// "linux/amd64" and so on: what this program was built for.
std::string_view machinePlatform();

// The one of an index that is for `platform`, or the only one if it does not say. The error names
// those that there are.
Result<Descriptor> choosePlatform(const std::vector<Descriptor>& from, std::string_view platform);

}  // namespace cloister::images
