// SPDX-License-Identifier: Apache-2.0
// The process runtime: Linux namespaces, cgroups, seccomp and Landlock, nothing else. See
// ARCHITECTURE.md "Process runtime" for the order of a start.
//
//   node ──socketpair──▶ spawner (single-threaded, own pid namespace, already in the finished root)
//                            └─clone3─▶ confine() ─execveat─▶ cloister-runner ─▶ the program
//
// The spawner dies with the node and, being pid 1 of its pid namespace, takes every sandbox with
// it.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "base/result.h"
#include "model/plan.h"
#include "runtime/runtime.h"
#include "sandbox/host/config.h"

namespace cloister::runtime {

// The early half: forks the spawner, which must happen before the caller has threads or an
// io_context. Builds the root, compiles the policy, probes the machine.
class ProcessHost;
Result<std::shared_ptr<ProcessHost>> startProcessHost(const ProcessConfig& config);
// The same for `cloister doctor`: the host is for describe() alone, and a machine that cannot make
// sandboxes is a finding.
std::shared_ptr<ProcessHost> surveyProcessHost(const ProcessConfig& config);

// Adds the machine's features and weaknesses, as seen by the host, to the offer. The offer of a
// host that cannot make sandboxes has no runtime.
void describe(const ProcessHost& host, model::NodeOffer& offer);

// How sandboxes get a network; without `doors`, permits with a network are refused.
class Doors;
struct NetworkParts {
  std::shared_ptr<Doors> doors = {};
  std::string pool = "198.18.0.0/15";  // of synthetic addresses
};

// The runtimes of a started host and of its guests, selected by permits. `images`: the imported
// images; nullptr: none. `layers`: the dependency layers; nullptr: permits with one are refused.
class ImageSource;
class LayerSource;
std::unique_ptr<Runtime> makeProcessRuntime(boost::asio::any_io_executor executor,
                                            std::shared_ptr<ProcessHost> host,
                                            std::shared_ptr<ImageSource> images = nullptr,
                                            NetworkParts network = {},
                                            std::shared_ptr<LayerSource> layers = nullptr);

}  // namespace cloister::runtime
