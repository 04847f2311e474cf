// SPDX-License-Identifier: Apache-2.0
#include "model/image_name.h"

#include <algorithm>

namespace cloister::model {
namespace {

constexpr std::string_view kAlgorithm = "sha256:";
constexpr size_t kMaxName = 63;
constexpr size_t kHexDigits = 64;

bool isAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

std::string_view nameOf(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

}  // namespace

bool isImageName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && isAlphanumeric(name.front()) &&
         std::ranges::all_of(
             name, [](char c) { return isAlphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

bool isImageDigest(std::string_view text) {
  if (!text.starts_with(kAlgorithm)) return false;
  const std::string_view hex = text.substr(kAlgorithm.size());
  return hex.size() == kHexDigits &&
         hex.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string toText(const ImageRef& image) {
  return image.isHost() ? image.name : image.name + "@" + image.digest;
}

Result<ImageRef> parseImageRef(std::string_view text) {
  const size_t at = text.find('@');
  ImageRef image{std::string(text.substr(0, at)), ""};
  if (at != std::string_view::npos) image.digest = text.substr(at + 1);
  const bool whole = image.isHost() ? image.digest.empty() : isImageDigest(image.digest);
  if (isImageName(image.name) && whole && image.isHost() == (at == std::string_view::npos)) {
    return image;
  }
  return fail(Code::kInvalid, "image: \"" + std::string(text) + "\" is no image");
}

void addImageEnv(const std::vector<std::string>& image, std::vector<std::string>& env) {
  const std::string usual = "PATH=" + std::string(kDefaultPath);
  const std::string with_installed = usual + std::string(kInstalledPath);
  for (const std::string& variable : image) {
    const auto has = std::ranges::find(env, nameOf(variable), nameOf);
    if (has == env.end()) {
      env.push_back(variable);
    } else if (*has == usual) {
      *has = variable;
    } else if (*has == with_installed) {
      *has = variable + std::string(kInstalledPath);
    }
  }
}

}  // namespace cloister::model
