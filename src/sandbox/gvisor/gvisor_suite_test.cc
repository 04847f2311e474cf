// SPDX-License-Identifier: Apache-2.0
// The conformance suites over gVisor, with real sandboxes. Skipped, with the reason, where there is
// no runsc.
#include "base/file.h"
#include "runtime/fresh_suite.h"
#include "runtime/memory_suite.h"
#include "runtime/runtime_suite.h"
#include "runtime/session_suite.h"
#include "runtime/walls_suite.h"
#include "runtime/within_suite.h"
#include "sandbox/guest_harness.h"
#include "sandbox/gvisor/gvisor.h"

namespace cloister::runtime {
namespace {

struct GvisorKind {
  static constexpr bool kManyFiles = true;  // the host's
  static GuestFound find() {
    return findGvisor(
        {"/usr/bin/runsc", 0, uint64_t{128} << 20, base::programDir() + "/cloister-guest"});
  }
  static std::string lacks(Program program) {
    return program == Program::kFork ? "gVisor does not tell what fork was refused" : "";
  }
};
using GvisorHarness = GuestHarness<GvisorKind>;

INSTANTIATE_TYPED_TEST_SUITE_P(Gvisor, RuntimeSuite, GvisorHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Gvisor, SessionSuite, GvisorHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Gvisor, FreshSuite, GvisorHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Gvisor, MemorySuite, GvisorHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Gvisor, WallsSuite, GvisorHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Gvisor, WithinSuite, GvisorHarness);

}  // namespace
}  // namespace cloister::runtime
