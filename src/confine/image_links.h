// SPDX-License-Identifier: Apache-2.0
// Which programs of an image are links to others.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/plan.h"

namespace cloister::runtime {

// Whether the program `name` is many, told apart by the name that they are called by (busybox).
bool isManyInOne(std::string_view name);

// Of the directories of programs in `image_root` ("" = the host): each link to a program of another
// name, through every link, in order and each once. Links lead no further than the image. What is
// many in one is what it is called, and not among them. At most model::kMaxProgramLinks.
std::vector<model::ProgramLink> programLinks(const std::string& image_root,
                                             std::span<const std::string> more = {});

}  // namespace cloister::runtime
