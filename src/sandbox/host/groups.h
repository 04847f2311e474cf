// SPDX-License-Identifier: Apache-2.0
// Groups: the cgroups of the sandboxes. One group is made in advance, at an idle moment: on v1 a
// group is a directory in each of half a dozen hierarchies. All methods on one thread.
#pragma once

#include <memory>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "linux/cgroup.h"
#include "sandbox/host/host.h"

namespace cloister::runtime {

class Groups : public std::enable_shared_from_this<Groups> {
 public:
  Groups(const boost::asio::any_io_executor& executor, std::shared_ptr<ProcessHost> host);
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;
  ~Groups();

  // An unused group with these limits; nullptr without cgroups.
  Result<std::unique_ptr<linux::Cgroup>> take(const linux::CgroupLimits& limits);

 private:
  void makeSpareInALull(const linux::CgroupLimits& limits);
  void dropSpareWhenIdle();

  std::shared_ptr<ProcessHost> host_;
  std::unique_ptr<linux::Cgroup> spare_;
  linux::CgroupLimits spare_limits_;
  base::Monotonic taken_{};  // last
  boost::asio::steady_timer timer_;
};

// The descriptors that put a new process into `group`. Sets their number in `spec`.
std::vector<int> groupFds(const linux::Cgroup* group, bool by_zygote, SandboxSpec& spec);

}  // namespace cloister::runtime
