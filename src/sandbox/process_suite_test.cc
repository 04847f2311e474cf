// SPDX-License-Identifier: Apache-2.0
// The conformance suite over the process runtime, with real sandboxes.
#include "runtime/fresh_suite.h"
#include "runtime/runtime_suite.h"
#include "runtime/session_suite.h"
#include "runtime/walls_suite.h"
#include "sandbox/host/host.h"
#include "sandbox/testbed.h"

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
  static std::string lacks(Program program) {
    if (program == Program::kFork && !testbed::hasGroups(**testbed::host())) {
      return "without a cgroup nobody counts what fork was refused";
    }
    return {};
  }
  static bool holdsWrites() { return linux::landlockAbi() > 0; }
  static bool manyFiles() { return true; }
  static size_t left() { return testbed::left(); }

 private:
  boost::asio::io_context io_{1};
  std::unique_ptr<Runtime> runtime_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Process, RuntimeSuite, ProcessHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Process, SessionSuite, ProcessHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Process, FreshSuite, ProcessHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Process, WallsSuite, ProcessHarness);

}  // namespace
}  // namespace cloister::runtime
