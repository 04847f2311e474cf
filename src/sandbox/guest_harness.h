// SPDX-License-Identifier: Apache-2.0
// For tests: the harness of the conformance suites over a guest, with real sandboxes. `Kind` has
//   static GuestFound find();
//   static std::string lacks(Program);   as the suites have it
//   static constexpr bool kManyFiles     likewise
// and may have
//   static void prepare(host);           before any test
//   static void configure(ProcessConfig&);
#pragma once

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "runtime/suite_programs.h"
#include "sandbox/host/guest.h"
#include "sandbox/host/host.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {

template <class Kind>
class GuestHarness {
 public:
  GuestHarness() {
    if (bed().host) runtime_ = makeProcessRuntime(io_.get_executor(), *bed().host);
  }

  boost::asio::io_context& io() { return io_; }
  Runtime& runtime() { return *runtime_; }
  static model::SignedPermit sign(const model::PermitFields& fields) {
    return {wire::encodePermit(fields), {}};
  }
  static std::string runtimeName() { return bed().found.finding.name; }
  static std::vector<std::string> argv(Program program, const std::vector<std::string>& args) {
    return shellArgv(program, args);
  }
  static std::string lacks(Program program) { return Kind::lacks(program); }
  static std::string absent() {
    if (!bed().found.guest) return bed().found.finding.detail;
    return bed().host ? "" : bed().host.error().message;
  }
  static bool keepsMemory() { return bed().found.guest->keepsNoMemory(::geteuid() != 0).empty(); }
  static bool holdsWrites() { return true; }
  static bool manyFiles() { return Kind::kManyFiles; }
  static size_t left() { return testbed::slotsInUse(**bed().host) + (*bed().host)->dying(); }

 private:
  // Lives as long as a suite with this guest: suites without guests count processes.
  struct Bed {
    GuestFound found = Kind::find();
    Result<std::shared_ptr<ProcessHost>> host = fail(Code::kUnsupported, "no guest");

    Bed() {
      ProcessConfig config = testbed::config();
      config.cgroup_parent = "cloister-test-" + found.finding.name;
      if (!found.guest) return;
      config.guests = {found.guest};
      if constexpr (requires { Kind::configure(config); }) Kind::configure(config);
      host = startProcessHost(config);
      if constexpr (requires { Kind::prepare(*host); }) {
        if (host) Kind::prepare(*host);
      }
    }
  };

  static inline std::unique_ptr<const Bed> made;

  class Leave : public testing::EmptyTestEventListener {
   public:
    void OnTestSuiteEnd(const testing::TestSuite& /*suite*/) override { made.reset(); }
  };

  static const Bed& bed() {
    static const bool leaves = [] {
      testing::UnitTest::GetInstance()->listeners().Append(new Leave);
      return true;
    }();
    if (leaves && !made) made = std::make_unique<const Bed>();
    return *made;
  }

  boost::asio::io_context io_{1};
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace cloister::runtime
