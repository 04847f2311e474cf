// SPDX-License-Identifier: Apache-2.0
// The conformance suites over gVisor, with real sandboxes. Skipped, with the reason, where there is
// no runsc.
#include "runtime/gvisor/gvisor.h"
#include "runtime/process/host.h"
#include "runtime/process/testbed.h"
#include "runtime/runtime_suite.h"
#include "runtime/session_suite.h"
#include "runtime/walls_suite.h"

namespace cloister::runtime {
namespace {

// The host of these tests, as long as one of their suites runs: those without it count processes.
struct Bed {
  GvisorFound found = findGvisor({"/usr/bin/runsc", 0, uint64_t{128} << 20});
  Result<std::shared_ptr<ProcessHost>> host = fail(Code::kUnsupported, "no runsc");

  Bed() {
    ProcessConfig config = testbed::config();
    config.cgroup_parent = "cloister-test-gvisor";
    if (!found.guest) return;
    config.guests = {found.guest};
    host = startProcessHost(config);
  }
};

std::unique_ptr<const Bed> made;

const Bed& bed() {
  if (!made) made = std::make_unique<const Bed>();
  return *made;
}

class Leave : public testing::EmptyTestEventListener {
 public:
  void OnTestSuiteEnd(const testing::TestSuite& /*suite*/) override { made.reset(); }
};
[[maybe_unused]] const bool kLeaves = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Leave);
  return true;
}();

class GvisorHarness {
 public:
  GvisorHarness() {
    if (bed().host) runtime_ = makeProcessRuntime(io_.get_executor(), *bed().host);
  }

  boost::asio::io_context& io() { return io_; }
  Runtime& runtime() { return *runtime_; }
  static model::SignedPermit sign(const model::PermitFields& fields) {
    return {wire::encodePermit(fields), {}};
  }
  static std::string runtimeName() { return "gvisor"; }
  static std::vector<std::string> argv(Program program, const std::vector<std::string>& args) {
    return shellArgv(program, args);
  }
  static std::string lacks(Program program) {
    return program == Program::kFork ? "gVisor does not tell what fork was refused" : "";
  }
  static std::string absent() { return bed().host ? "" : bed().found.finding.detail; }
  static bool holdsWrites() { return false; }
  static size_t left() { return (*bed().host)->slotsInUse() + (*bed().host)->dying(); }

 private:
  boost::asio::io_context io_{1};
  std::unique_ptr<Runtime> runtime_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Gvisor, RuntimeSuite, GvisorHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Gvisor, SessionSuite, GvisorHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Gvisor, WallsSuite, GvisorHarness);

}  // namespace
}  // namespace cloister::runtime
