// SPDX-License-Identifier: Apache-2.0
// The OCI bundle of a gVisor sandbox: what a SandboxSpec says, in the words of the OCI runtime
// specification, and the command line that carries it out. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "runtime/process/confine.h"

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

// config.json.
base::json::object makeBundle(const SandboxSpec& spec);

// runsc and its arguments. `one_user`: the sandbox has one host user id, so that gVisor's two
// processes have the same.
std::vector<std::string> command(bool one_user);

}  // namespace cloister::runtime::gvisor
