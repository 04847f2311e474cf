// SPDX-License-Identifier: Apache-2.0
#include "runtime/fake/fake_harness.h"

namespace cloister::runtime {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Fake, RuntimeSuite, FakeHarness);

}  // namespace
}  // namespace cloister::runtime
