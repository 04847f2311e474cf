// SPDX-License-Identifier: Apache-2.0
// The conformance suite over the process runtime, with real sandboxes.
#include <unistd.h>

#include "linux/proc_tree.h"
#include "runtime/process/testbed.h"
#include "runtime/runtime_suite.h"

namespace cloister::runtime {
namespace {

class ProcessHarness {
 public:
  ProcessHarness() {
    const auto& host = testbed::host();
    if (host) runtime_ = makeProcessRuntime(io_.get_executor(), *host);
  }

  boost::asio::io_context& io() { return io_; }
  Runtime& runtime() { return *runtime_; }
  static model::SignedPermit sign(const model::PermitFields& fields) {
    return {wire::encodePermit(fields), {}};
  }
  static std::string runtimeName() { return "process"; }
  static std::vector<std::string> argv(Program program, const std::vector<std::string>& args) {
    return shellArgv(program, args);
  }
  static std::string lacks(Program) { return {}; }
  // Processes besides this one and the spawner.
  static size_t left() { return linux::usageOfTree(::getpid()).processes - 2; }

 private:
  boost::asio::io_context io_{1};
  std::unique_ptr<Runtime> runtime_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Process, RuntimeSuite, ProcessHarness);

}  // namespace
}  // namespace cloister::runtime
