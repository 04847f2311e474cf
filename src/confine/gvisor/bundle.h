// SPDX-License-Identifier: Apache-2.0
// The OCI bundle of a gVisor sandbox: a SandboxSpec expressed in the terms of the OCI runtime
// specification, and the command line that starts the bundle. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "confine/confine.h"

namespace cloister::runtime::gvisor {

// Paths in the file system of runsc itself, which ends with runsc.
inline constexpr std::string_view kRoot = "/workspace";     // the sandbox's root
inline constexpr std::string_view kBundle = "/tmp/bundle";  // config.json
inline constexpr std::string_view kState = "/tmp/state";    // runsc's state
inline constexpr std::string_view kTools = "/tmp/tools";    // the runner, its filter: /run inside
inline constexpr std::string_view kRunner = "/cloister-runner";  // in kTools
inline constexpr std::string_view kGuest =
    "/cloister-guest";                                    // also in kTools, for nested sandboxes
inline constexpr std::string_view kFilter = "/filter";    // in kTools
inline constexpr std::string_view kImage = "/tmp/image";  // the memory image to resume or to write
// The file names of a memory image.
inline constexpr std::string_view kImageFiles[] = {"checkpoint.img", "pages_meta.img", "pages.img"};

// config.json.
base::json::object makeBundle(const SandboxSpec& spec);

// runsc and its arguments. `one_user`: the sandbox has a single host user id, shared by gVisor's
// two processes.
std::vector<std::string> command(const SandboxSpec& spec, bool one_user);
// The command that writes the memory image of a running sandbox into kImage, and lets the sandbox
// continue.
std::vector<std::string> checkpointCommand(bool one_user);

// Whether the runner's socket comes as stdin, which can be replaced when a sandbox resumes from an
// image. With nested sandboxes the socket is a descriptor of its own, and no image is kept.
inline bool atStdin(const SandboxSpec& spec) {
  return !spec.nests;
}

}  // namespace cloister::runtime::gvisor
