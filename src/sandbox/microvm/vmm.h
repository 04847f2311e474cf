// SPDX-License-Identifier: Apache-2.0
// The programs that can run a machine (VMMs), each as one description: its properties, its needs
// beyond every VMM's, and its command line. The common parts are in microvm.cc: the image, the
// confinement, KVM's proof, the limits. A new VMM needs a file like qemu.cc, a row in vmm.cc, and a
// word in model::Vmm.
//
// Every VMM gets the runner's socket as wire::kRunnerFd. Numbered as in command.h, the VMM also
// gets the kernel, the initial RAM file system and the disk, and the files of a template. The
// guest's console is the VMM's stdout.
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

// How a kind of VMM saves and resumes machines (pool/template.h).
struct Keeping {
  bool with_kvm = false;  // with KVM, else emulated; never both
  bool copies = false;    // writes the memory into its file on order; otherwise the file is the
                          // memory
  // System calls for saving and resuming, beyond the VMM's policy: policies/seccomp/...; "" for
  // none.
  std::string_view keep_policy{};
  std::string_view resume_policy{};
  // Orders sent before a VMM resumes. `state`: number of the state's descriptor.
  std::string (*orders_to_resume)(int state);
  // As Guest::save.
  Task<Result<>> (*save)(boost::asio::any_io_executor executor, Fd orders, const Template& in);
};

// A kind of VMM, as data.
struct VmmKind {
  model::Vmm word;         // name in the configuration
  std::string_view title;  // "QEMU"
  std::string MicrovmConfig::*
      path;                        // path of its program or library, in the image of the sandboxes
  std::string_view key;            // configuration key of the path
  std::string_view install;        // remedy if absent: "install ..."
  std::string_view kernel;         // file name of its kernel in the image
  std::string_view policy;         // system calls with KVM: policies/seccomp/...
  std::string_view link_policy{};  // further ones with a network link; "": it has none
  bool automatic = false;          // chosen by default if it was seen to boot
  bool emulates = false;           // can also run machines without KVM
  bool sockets = false;            // makes Unix sockets, in /tmp
  bool shows_root = false;         // shows the sandbox's own root by virtio-fs, and boots no image
  bool opens_link = false;         // by name (SandboxSpec::guest_opens_link); else as a descriptor
  bool opens_disk = false;         // by name (/proc/self/fd), as the sandbox's user
  const Keeping* keeping = nullptr;  // none: its machines always boot
  std::string_view weaker{};         // weaknesses compared to other VMMs, for each result
  // Position in the output of VMM and guest of the message that the machine has stopped for good
  // while the VMM lives on; npos without such a message.
  size_t (*stalled_at)(std::string_view said);
  // As Guest::failedByChance, of machines without KVM.
  bool (*failed_by_chance)(std::string_view said) = [](std::string_view) { return false; };
  // Asks the program open at `program` for its version (ask_version.h), and prepares all parts that
  // need the node's files. Call while the process has a single thread.
  struct VmmFound (*find)(const MicrovmConfig& config, const Fd& program);
};

// stalled_at for a VMM without hangs.
inline size_t neverStalls(std::string_view /*said*/) {
  return std::string_view::npos;
}

// An available VMM. Immutable; any thread.
struct Vmm {
  const VmmKind* kind = nullptr;
  std::string title;     // with its version: "QEMU 7.2.22"
  std::string kernel{};  // its kernel file, if the image has none for this VMM
  // Sealed program to execute; nullptr: the path argv[0]. Starts with the descriptors of command.h
  // and no others.
  std::shared_ptr<const Fd> program;
  // Its arguments, with argv[0].
  std::function<std::vector<std::string>(const Machine&, const SandboxSpec&)> command;
};

// `lack`: reason of the absence; `remedy`: how to resolve the absence.
struct VmmFound {
  std::shared_ptr<const Vmm> vmm;
  std::string lack{};
  std::string remedy{};
};

// Our program with this name, sealed, for Vmm::program.
Result<std::shared_ptr<const Fd>> openDriver(const MicrovmConfig& config, const std::string& name);

// All kinds in order of preference when the configuration names none.
const std::vector<const VmmKind*>& vmmKinds();

}  // namespace cloister::runtime::microvm
