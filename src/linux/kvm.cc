// SPDX-License-Identifier: Apache-2.0
#include "linux/kvm.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace cloister::linux {
namespace {

constexpr char kLoad[] =
    "turn virtualisation on in the firmware and load kvm_intel or kvm_amd; where this is a virtual "
    "machine, its host has to allow virtualisation inside";

std::string because(const std::string& what, int error) {
  return what + ": " + std::strerror(error);
}

}  // namespace

KvmLack kvmLack(const std::string& device) {
  const Fd kvm(::open(device.c_str(), O_RDWR | O_CLOEXEC));
  if (!kvm) {
    const int error = errno;
    const bool refused = error == EACCES || error == EPERM;
    return {
        because("opening " + device, error),
        refused ? "add the service's user to the group of " + device + ", or run as root" : kLoad};
  }
  const int version = ::ioctl(kvm.get(), KVM_GET_API_VERSION, 0);
  if (version != KVM_API_VERSION) {
    if (version < 0) return {because(device + " is not KVM's", errno), kLoad};
    return {device + " has version " + std::to_string(version) + " of KVM's interface, not 12",
            "use a Linux of 2007 or later"};
  }
  const Fd machine(::ioctl(kvm.get(), KVM_CREATE_VM, 0));
  if (!machine) {
    return {because(device + " makes no machine", errno),
            "end other users of the processor's virtualisation, or " + std::string(kLoad)};
  }
  return {};
}

}  // namespace cloister::linux
