// SPDX-License-Identifier: Apache-2.0
// The programs that can run a machine (VMMs), each as one description: what it is, what it needs
// besides what every VMM gets, and its command line. What they have in common is microvm.cc's: the
// image, the confinement, KVM's proof, the limits. A new one is a file like qemu.cc, a row in
// vmm.cc, and its word in model::Vmm.
//
// Every VMM gets the runner's socket as wire::kRunnerFd and, numbered as command.h says, the
// kernel, the initial RAM file system and the disk, and those of a template. The guest's console is
// its stdout.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/fd.h"
#include "confine/confine.h"
#include "confine/microvm/command.h"
#include "sandbox/microvm/microvm.h"
#include "sandbox/pool/template.h"

namespace cloister::runtime::microvm {

// How a kind of VMM keeps machines and begins as those (process/template.h).
struct Keeping {
  bool with_kvm = false;  // with KVM, else emulated; never both
  bool copies = false;    // it writes the memory into its file when it is told, else has it there
  // What it may ask of the kernel for that besides its policy: policies/seccomp/...; "" nothing.
  std::string_view keep_policy{};
  std::string_view resume_policy{};
  // What lies on the socket of its orders before it begins as what was kept; `state`: the number of
  // that descriptor.
  std::string (*orders_to_resume)(int state);
  // As Guest::save.
  Task<Result<>> (*save)(boost::asio::any_io_executor executor, Fd orders, const Template& in);
};

// A kind of VMM, as data.
struct VmmKind {
  model::Vmm word;         // as the configuration names it
  std::string_view title;  // "QEMU"
  std::string MicrovmConfig::*
      path;                  // its program's, or library's, of the image that sandboxes see
  std::string_view key;      // of the configuration, for that
  std::string_view install;  // what to do where it is not there: "install ..."
  std::string_view kernel;   // which file of the image it boots
  std::string_view policy;   // what it may ask of the kernel with KVM: policies/seccomp/...
  bool automatic = false;    // taken where none is named and it was seen to boot
  bool emulates = false;     // it runs machines without KVM, too
  bool sockets = false;      // it makes Unix sockets, in /tmp
  bool shows_root = false;   // it shows the sandbox's own root, by virtio-fs, and boots no image
  bool opens_disk = false;   // by name (/proc/self/fd), as the sandbox's user
  const Keeping* keeping = nullptr;  // none: its machines always boot
  std::string_view weaker{};         // what is weaker with it than with others, for every result
  // Where in what it and its guest have said it begins to say that the machine has stopped for
  // good, while it lives on; npos where it does not.
  size_t (*stalled_at)(std::string_view said);
  // As Guest::failedByChance, of machines without KVM.
  bool (*failed_by_chance)(std::string_view said) = [](std::string_view) { return false; };
  // Asks the program open at `program` for its version (ask_version.h), and has all that needs the
  // node's files at hand. Called while the process has one thread.
  struct VmmFound (*find)(const MicrovmConfig& config, const Fd& program);
};

// As stalled_at, of one that ends then.
inline size_t neverStalls(std::string_view /*said*/) {
  return std::string_view::npos;
}

// One that is here. Immutable; any thread.
struct Vmm {
  const VmmKind* kind = nullptr;
  std::string title;     // with its version: "QEMU 7.2.22"
  std::string kernel{};  // the file with the one it boots, where the image has none for it
  // Sealed, what is executed; none: argv[0], which is a path. It begins with the descriptors of
  // command.h, and with nothing else.
  std::shared_ptr<const Fd> program;
  // Its arguments, with argv[0].
  std::function<std::vector<std::string>(const Machine&, const SandboxSpec&)> command;
};

// `lack` says why there is none, `remedy` what to do.
struct VmmFound {
  std::shared_ptr<const Vmm> vmm;
  std::string lack{};
  std::string remedy{};
};

// The program of ours with this name, sealed, for Vmm::program.
Result<std::shared_ptr<const Fd>> openDriver(const MicrovmConfig& config, const std::string& name);

// In the order in which they are taken where none is named.
const std::vector<const VmmKind*>& vmmKinds();

}  // namespace cloister::runtime::microvm
