// SPDX-License-Identifier: Apache-2.0
// The configuration of the machine that runs the sandboxes.
#pragma once

#include <cstdint>
#include <string>

namespace cloister::model {

struct NodeSettings {
  std::string name = "local";
  uint32_t max_sandboxes = 256;
  uint64_t file_locks = 1024;              // held at the same time by a sandbox's programs
  uint32_t silence_seconds = 30;           // without any message until the node counts as lost
  uint32_t control_silence_seconds = 120;  // until the node gives up its control plane
  uint32_t runner_seconds = 30;            // timeout for a sandbox's runner to answer; then killed
  std::string cgroup_parent = "cloister";
  uint32_t uid_base = 1'879'048'192;  // first host uid of the sandboxes' range
  std::string image_root;             // "" = the host's /usr; otherwise a directory
  uint64_t layers_mb = 10'240;        // of all dependency layers together, MiB
  std::string images;                 // the store of images; "": the default of images/store.h
};

}  // namespace cloister::model
