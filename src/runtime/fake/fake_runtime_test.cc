// SPDX-License-Identifier: Apache-2.0
#include "runtime/fake/fake_harness.h"
#include "runtime/session_suite.h"

namespace cloister::runtime {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Fake, RuntimeSuite, FakeHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, SessionSuite, FakeHarness);

}  // namespace
}  // namespace cloister::runtime
