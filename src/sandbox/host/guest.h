// SPDX-License-Identifier: Apache-2.0
// Guest: a kind of sandbox whose programs run on a kernel of their own. This kernel is a program of
// the host and is confined like a program: in the sandbox's cgroup, in namespaces of its own, ended
// with both. The process runtime makes and ends such sandboxes like its own; this class describes
// the differences.
//
// Immutable once made; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "confine/confine.h"
#include "confine/spawn_loop.h"
#include "linux/cgroup.h"
#include "model/limits.h"
#include "model/plan.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

struct MemoryImage;
class Template;
class Templates;

class Guest {
 public:
  virtual ~Guest() = default;
  // As permits name the runtime: "gvisor".
  [[nodiscard]] virtual std::string name() const = 0;
  // The kind of spawn request for this guest.
  [[nodiscard]] virtual SpawnRequest::What what() const = 0;
  // Weaknesses compared to the stated limits, for each result.
  [[nodiscard]] virtual std::vector<std::string> weakened() const = 0;
  // For `cloister doctor`.
  [[nodiscard]] virtual model::Finding finding() const = 0;
  // Ready sandboxes to keep, at most.
  [[nodiscard]] virtual uint32_t ready() const = 0;

  // The digest of its root file system; "" if shared with the process runtime.
  [[nodiscard]] virtual std::string imageDigest() const { return {}; }
  // The same guest with another image: a file, read during this call or later. For guests with an
  // image of their own.
  [[nodiscard]] virtual Result<std::shared_ptr<const Guest>> withImage(
      const std::string& /*path*/, const std::string& /*digest*/) const {
    return fail(Code::kUnsupported, name() + " has no image of its own");
  }
  // Whether its programs see the root's kAhead (mount_plan.h).
  [[nodiscard]] virtual bool showsAhead() const { return false; }
  // Whether its kernel runs beside the host's, on the host's processors, and takes the sandbox's
  // share of them and of memory for the machine: SandboxSpec::shown_memory and shown_cpus.
  [[nodiscard]] virtual bool showsShare() const { return false; }
  // Whether the guest supports imported images, besides the node's own.
  [[nodiscard]] virtual bool takesImages() const { return true; }
  // Whether the guest counts kills and refusals by limits (wire kCounts).
  [[nodiscard]] virtual bool counts() const { return false; }
  // Whether sandboxes can be made within the guest's sandboxes (wire/guest.h): never, only in
  // sandboxes prepared for nesting (SandboxSpec::nests), or in all.
  enum class Nesting : uint8_t { kNone, kPrepared, kAlways };
  [[nodiscard]] virtual Nesting nesting() const { return Nesting::kNone; }
  // Further weaknesses of such inner sandboxes.
  [[nodiscard]] virtual std::vector<std::string> weakenedWithin() const {
    return {"processor time of a sandbox within is limited for each of its processes",
            "sysinfo(2) in a sandbox within says the memory of the kernel that it shares"};
  }

  // Why sandboxes with this guest can have no network (ADR 0102); "" if they can.
  [[nodiscard]] virtual std::string noNetwork() const = 0;
  // The descriptors of a request besides fileCount() for a sandbox with a network link
  // (SandboxSpec::guest_link); 0: its network needs no link.
  [[nodiscard]] virtual uint32_t linkFiles() const { return 0; }
  // Whether sandboxes with a network are made with a network link.
  [[nodiscard]] virtual bool linked() const { return linkFiles() > 0; }

  // How many times as long as a runner on the host's kernel its own may take to greet.
  [[nodiscard]] virtual uint32_t slowness() const { return 1; }

  // Position in the guest's console output of a message that the guest has stopped while its
  // process lives; npos without such a message.
  [[nodiscard]] virtual size_t stalledAt(std::string_view /*said*/) const {
    return std::string_view::npos;
  }
  // Whether the console output before the runner's first frame shows a random failure, so that
  // another guest may boot.
  [[nodiscard]] virtual bool failedByChance(std::string_view /*said*/) const { return false; }

  // Adds the guest kernel's needs to the program's limits.
  virtual void adjust(const model::Limits& limits, SandboxSpec& spec,
                      linux::CgroupLimits& cgroup) const = 0;
  // The fileCount() descriptors of a request: after the runner's socket, before the error pipe and
  // the cgroups. `walls`: an agent's confinement rules, encoded; "" for none.
  [[nodiscard]] virtual Result<std::vector<Fd>> files(const SandboxSpec& spec,
                                                      const std::string& walls) const = 0;
  [[nodiscard]] virtual uint32_t fileCount() const = 0;

  // Saved templates (template.h); nullptr: none.
  [[nodiscard]] virtual std::shared_ptr<Templates> templates() const { return nullptr; }
  // The memory of a machine for `spec`, as given to the VMM.
  [[nodiscard]] virtual uint64_t machineBytes(const SandboxSpec& /*spec*/) const { return 0; }
  // Additional memory while saving a machine, if the VMM copies its memory.
  [[nodiscard]] virtual uint64_t keepingBytes(const SandboxSpec& /*spec*/) const { return 0; }
  // Like files(), unless spec.guest_begins is kBoots: adds filesOf() descriptors of `from`.
  // `orders` is our end of the VMM's control socket.
  struct Ordered {
    std::vector<Fd> files;
    Fd orders;
  };
  [[nodiscard]] virtual Result<Ordered> filesWith(const SandboxSpec& /*spec*/,
                                                  const Template& /*from*/) const {
    return fail(Code::kUnsupported, name() + " keeps no machines");
  }
  // Saves the state of a machine made with kKept into `in`, after its runner's first frame.
  // Afterwards the machine is paused for good.
  [[nodiscard]] virtual Task<Result<>> save(boost::asio::any_io_executor /*executor*/,
                                            Fd /*orders*/, const Template& /*in*/) const {
    co_return fail(Code::kUnsupported, name() + " keeps no machines");
  }

  // Why a session's memory cannot be saved and resumed elsewhere (memory_image.h); "" if possible.
  // `one_user`: the sandbox has a single host user id.
  [[nodiscard]] virtual std::string keepsNoMemory(bool /*one_user*/) const {
    return "the runtime " + name() + " keeps none";
  }
  // The file names of a memory image, and the descriptors of a request to save one, like files().
  // `sandbox`: the pidfd of the first process.
  [[nodiscard]] virtual std::vector<std::string> imageFiles() const { return {}; }
  [[nodiscard]] virtual Result<std::vector<Fd>> filesToSave(int /*sandbox*/) const {
    return fail(Code::kUnsupported, name() + " keeps no memory");
  }
  [[nodiscard]] virtual SpawnRequest::What saver() const { return what(); }
  // Like files() for spec.guest_begins kImage, followed by the files of `image`.
  [[nodiscard]] virtual Result<std::vector<Fd>> filesFrom(const SandboxSpec& /*spec*/,
                                                          const std::string& /*walls*/,
                                                          const MemoryImage& /*image*/) const {
    return fail(Code::kUnsupported, name() + " keeps no memory");
  }
  // Properties that must be equal where an image is saved and resumed: the kernel's version, and
  // the outcome of makeBundle() and similar functions.
  [[nodiscard]] virtual std::string kernelVersion() const { return {}; }
  [[nodiscard]] virtual std::string shapeOf(const SandboxSpec& /*spec*/) const { return {}; }

  // A description of files(), for --dry-run.
  virtual void describe(const SandboxSpec& spec, base::json::object& plan) const = 0;
};

// The result of a search. Without a usable guest, `finding` gives the reason and the remedy.
struct GuestFound {
  std::shared_ptr<const Guest> guest;  // nullptr: not available
  model::Finding finding;
};

}  // namespace cloister::runtime
