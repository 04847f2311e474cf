// SPDX-License-Identifier: Apache-2.0
// How images are named: the root file systems that sandboxes can have. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::model {

// The node's own /usr, which every node has.
inline constexpr std::string_view kHostImage = "host";

// One to 63 of a-z, 0-9, '.', '_' and '-', the first a letter or digit. kHostImage is one.
bool isImageName(std::string_view name);

// sha256: and 64 lower-case hex digits.
bool isImageDigest(std::string_view digest);

// An image in a permit: by what it was asked for, and by what that was when it was decided.
struct ImageRef {
  std::string name{kHostImage};
  std::string digest;  // "sha256:…"; "" for the host's, which changes with its packages

  [[nodiscard]] bool isHost() const { return name == kHostImage; }
  friend bool operator==(const ImageRef&, const ImageRef&) = default;
};

// "host", or "NAME@sha256:…".
std::string toText(const ImageRef& image);
Result<ImageRef> parseImageRef(std::string_view text);

// PATH of programs that ask for no other.
inline constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

// Adds an image's variables ("NAME=value") to a program's: those that it does not have, and PATH
// where it has no other than kDefaultPath.
void addImageEnv(const std::vector<std::string>& image, std::vector<std::string>& env);

}  // namespace cloister::model
