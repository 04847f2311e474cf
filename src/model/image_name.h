// SPDX-License-Identifier: Apache-2.0
// The names of images, the root file systems that sandboxes can have, and their origin. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::model {

// The node's own /usr, which each node has.
inline constexpr std::string_view kHostImage = "host";

// 1 to 63 of a-z, 0-9, '.', '_' and '-', the first a letter or digit. Includes kHostImage.
bool isImageName(std::string_view name);

// sha256: and 64 lower-case hex digits.
bool isImageDigest(std::string_view digest);

// An image in a permit: the requested name, and the digest at the decision.
struct ImageRef {
  std::string name{kHostImage};
  std::string digest;  // "sha256:…"; "" for the host's, whose content changes with its packages

  [[nodiscard]] bool isHost() const { return name == kHostImage; }
  friend bool operator==(const ImageRef&, const ImageRef&) = default;
};

// What a pull has verified before the image was imported.
struct VerifiedImage {
  std::string reference;  // "registry.example/team/app@sha256:…"
  std::string key;        // "sha256:…" of the public key of its signature; "": none was verified
  std::string sbom;       // "sha256:…" of its bill of materials; "": none was checked

  friend bool operator==(const VerifiedImage&, const VerifiedImage&) = default;
};

// "host", or "NAME@sha256:…".
std::string toText(const ImageRef& image);
Result<ImageRef> parseImageRef(std::string_view text);

// PATH of programs without a different setting.
inline constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";
// Programs that package tools install inside of a sandbox; behind PATH where there is a gateway.
inline constexpr std::string_view kInstalledPath = ":/home/user/.local/bin";

// Adds an image's variables ("NAME=value") to a program's, unless the program has the name; PATH is
// replaced if equal to kDefaultPath.
void addImageEnv(const std::vector<std::string>& image, std::vector<std::string>& env);

}  // namespace cloister::model
