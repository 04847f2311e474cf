// SPDX-License-Identifier: Apache-2.0
// The OCI bundle of a gVisor sandbox: what a SandboxSpec says, in the words of the OCI runtime
// specification, and the command line that carries it out. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "confine/confine.h"

namespace cloister::runtime::gvisor {

// Places in the file system of runsc itself, which ends with it.
inline constexpr std::string_view kRoot = "/workspace";     // the sandbox's root
inline constexpr std::string_view kBundle = "/tmp/bundle";  // config.json
inline constexpr std::string_view kState = "/tmp/state";    // what runsc keeps
inline constexpr std::string_view kTools = "/tmp/tools";    // the runner, its filter: /run inside
inline constexpr std::string_view kRunner = "/cloister-runner";  // in kTools
inline constexpr std::string_view kGuest =
    "/cloister-guest";                                  // likewise, where there are some within
inline constexpr std::string_view kFilter = "/filter";  // in kTools
inline constexpr std::string_view kImage =
    "/tmp/image";  // the memory image it begins as, or leaves
// What one is made of, by name.
inline constexpr std::string_view kImageFiles[] = {"checkpoint.img", "pages_meta.img", "pages.img"};

// config.json.
base::json::object makeBundle(const SandboxSpec& spec);

// runsc and its arguments. `one_user`: the sandbox has one host user id, so that gVisor's two
// processes have the same.
std::vector<std::string> command(const SandboxSpec& spec, bool one_user);
// What leaves a running one's memory image in kImage, and lets it go on.
std::vector<std::string> checkpointCommand(bool one_user);

// The runner's socket comes in as stdin, by which one that begins as an image can be given another;
// where sandboxes are made within, as a descriptor of its own, and no image is kept.
inline bool atStdin(const SandboxSpec& spec) {
  return !spec.nests;
}

}  // namespace cloister::runtime::gvisor
