// SPDX-License-Identifier: Apache-2.0
// The documents of the OCI image specification (index, manifest, config) and of `docker save`, as
// far as an import reads them. Hostile: every document is bounded, and every member in use is
// checked. Unused members are ignored, as the specification demands.
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
  std::string platform;  // "linux/amd64"; "" if not given
  std::string name;      // annotation org.opencontainers.image.ref.name; ""

  [[nodiscard]] bool isIndex() const;
};

// Parses an image index: index.json or a blob.
Result<std::vector<Descriptor>> parseIndex(std::string_view text);

struct Manifest {
  Descriptor config;
  std::vector<Descriptor> layers;
};
// Refuses layers of a media type other than tar.
Result<Manifest> parseManifest(std::string_view text);

struct ImageConfig {
  std::string platform;
  model::ImageEnv env;
  std::vector<std::string> diff_ids;  // of the layers' tars, without compression
  std::vector<std::string> notes;     // omitted parts
};
Result<ImageConfig> parseImageConfig(std::string_view text);

// manifest.json of `docker save` for exactly 1 image: paths in the archive.
struct DockerManifest {
  std::string config;
  std::vector<std::string> layers;
};
Result<DockerManifest> parseDockerManifest(std::string_view text);

// "linux/amd64" and so on: the platform of this build.
std::string_view machinePlatform();

// The index entry for `platform`, or the only entry if without a platform. The error names the
// available platforms.
Result<Descriptor> choosePlatform(const std::vector<Descriptor>& from, std::string_view platform);

}  // namespace cloister::images
