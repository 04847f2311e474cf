// SPDX-License-Identifier: Apache-2.0
// The programs of an image that are links to other programs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/plan.h"

namespace cloister::runtime {

// Whether the program `name` contains many programs and selects by the name it is called by
// (busybox).
bool isManyInOne(std::string_view name);

// The links in the program directories of `image_root` ("" = the host) to a program of another
// name, resolved fully, sorted and unique. Links are resolved within the image. Links to a
// multi-call program (isManyInOne) are left out, since such a program is its link's name. At most
// model::kMaxProgramLinks.
std::vector<model::ProgramLink> programLinks(const std::string& image_root,
                                             std::span<const std::string> more = {});

}  // namespace cloister::runtime
