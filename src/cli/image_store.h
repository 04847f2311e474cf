// SPDX-License-Identifier: Apache-2.0
// The store of images of this machine: commands on the store, instead of over the API. The program
// cloister-image carries out these commands, because only cloister-image has the library for
// archives.
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

// Replaces this process by `cloister-image COMMAND`, with the given flags of `own` and the
// operands. Returns only an error: the program cannot be executed.
Result<int> onImageStore(const std::string& command, std::span<const base::Flag> own,
                         const Invocation& invocation);

}  // namespace cloister::cli
