// SPDX-License-Identifier: Apache-2.0
// The languages of an image: all languages whose toolchain exists in the image.
#pragma once

#include <string>
#include <vector>

#include "model/language.h"

namespace cloister::node {

// The first path required by `language` that the image at `image_root` ("": the host's) lacks; ""
// if complete. Links are resolved within the image.
std::string lackingPath(const model::Language& language, const std::string& image_root);

// The names of languages without missing paths.
std::vector<std::string> languagesIn(const model::LanguageSet& languages,
                                     const std::string& image_root);

}  // namespace cloister::node
