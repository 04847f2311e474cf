// SPDX-License-Identifier: Apache-2.0
// The store of images of this machine: commands that work on it, instead of over the API. The
// program cloister-image does them, because it alone has the library that reads archives.
#pragma once

#include <span>
#include <string>

#include "base/flags.h"
#include "base/result.h"
#include "cli/command.h"

namespace cloister::cli {

inline constexpr base::Flag kImageStoreFlags[] = {
    {.name = "images",
     .value = "DIR",
     .help = "the store (default: node.images, else the one of this account)"},
    {.name = "config", .value = "FILE", .help = "the configuration of the server"},
};

// Replaces this process by `cloister-image COMMAND`, with those flags of `own` that were given, and
// the operands. Returns an error alone: where that program cannot be executed.
Result<int> onImageStore(const std::string& command, std::span<const base::Flag> own,
                         const Invocation& invocation);

}  // namespace cloister::cli
