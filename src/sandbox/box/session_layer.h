// SPDX-License-Identifier: Apache-2.0
// A directory of a session's workspace becomes a dependency layer of the node: a request of
// wire/files.h that the node answers by itself.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "runtime/runtime.h"
#include "sandbox/box/live.h"

namespace cloister::runtime {

// The parts of the node that a layer is made with.
struct LayerKeeper {
  // The session's workspace, as a detached mount.
  std::function<Task<Result<Fd>>(std::shared_ptr<Live>)> workspace;
  // LayerSource::add().
  std::function<Task<Result<base::json::object>>(std::string name, Fd directory)> add;
};

// `path`: of the directory, relative to the workspace. The output is the JSON of
// LayerSource::add().
std::unique_ptr<Exec> makeLayer(std::shared_ptr<Live> live,
                                std::shared_ptr<const LayerKeeper> layers, std::string name,
                                std::string path, std::shared_ptr<void> place);

}  // namespace cloister::runtime
