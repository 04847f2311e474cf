// SPDX-License-Identifier: Apache-2.0
// Which languages an image has: those whose toolchain is there.
#pragma once

#include <string>
#include <vector>

#include "model/language.h"

namespace cloister::node {

// The first of the paths that `language` requires which the image at `image_root` ("": the host's)
// lacks; "" if it has all. Links lead no further than the image.
std::string lackingPath(const model::Language& language, const std::string& image_root);

// The names of those that lack nothing.
std::vector<std::string> languagesIn(const model::LanguageSet& languages,
                                     const std::string& image_root);

}  // namespace cloister::node
