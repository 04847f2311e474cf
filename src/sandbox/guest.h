// SPDX-License-Identifier: Apache-2.0
// Guest: a kind of sandbox whose programs run on a kernel of their own, which is a program of the
// host and is held like one: in the sandbox's cgroup, in namespaces of its own, ended with them.
// The process runtime makes and ends such sandboxes like its own; what differs is said here.
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
  // What the spawner makes of a request for it.
  [[nodiscard]] virtual SpawnRequest::What what() const = 0;
  // What is weaker in it than its limits say, for every result.
  [[nodiscard]] virtual std::vector<std::string> weakened() const = 0;
  // For `cloister doctor`.
  [[nodiscard]] virtual model::Finding finding() const = 0;
  // Ready sandboxes to keep, at most.
  [[nodiscard]] virtual uint32_t ready() const = 0;

  // The content of its root file system; "" where that is the process runtime's.
  [[nodiscard]] virtual std::string imageDigest() const { return {}; }
  // The same with another one: a file, which is read while this returns or later. For guests that
  // have one of their own.
  [[nodiscard]] virtual Result<std::shared_ptr<const Guest>> withImage(
      const std::string& /*path*/, const std::string& /*digest*/) const {
    return fail(Code::kUnsupported, name() + " has no image of its own");
  }
  // Whether its programs see the root's kAhead (mount_plan.h).
  [[nodiscard]] virtual bool showsAhead() const { return false; }
  // Whether its kernel runs beside the host's, on the host's processors, and takes the sandbox's
  // share of them and of memory for the machine: SandboxSpec::shown_memory and shown_cpus.
  [[nodiscard]] virtual bool showsShare() const { return false; }
  // Whether it can have imported images; else it has the node's own alone.
  [[nodiscard]] virtual bool takesImages() const { return true; }
  // Whether it counts by itself what its program's limits killed and refused (wire kCounts).
  [[nodiscard]] virtual bool counts() const { return false; }
  // Whether sandboxes can be made within one of its own (wire/guest.h): never, in those that were
  // made for it (SandboxSpec::nests), or in all.
  enum class Nesting : uint8_t { kNone, kPrepared, kAlways };
  [[nodiscard]] virtual Nesting nesting() const { return Nesting::kNone; }
  // What is weaker in those than their limits say, besides.
  [[nodiscard]] virtual std::vector<std::string> weakenedWithin() const {
    return {"processor time of a sandbox within is limited for each of its processes",
            "sysinfo(2) in a sandbox within says the memory of the kernel that it shares"};
  }

  // How many times as long as a runner on the host's kernel its own may take to greet.
  [[nodiscard]] virtual uint32_t slowness() const { return 1; }

  // Where in what it has said on its pipe it begins to say that it does not go on, though its
  // process lives; npos where it does not say so.
  [[nodiscard]] virtual size_t stalledAt(std::string_view /*said*/) const {
    return std::string_view::npos;
  }
  // Whether what it has said there before its runner's first word is mere chance, so that another
  // one may well boot.
  [[nodiscard]] virtual bool failedByChance(std::string_view /*said*/) const { return false; }

  // What the guest kernel needs comes on top of the program's limits.
  virtual void adjust(const model::Limits& limits, SandboxSpec& spec,
                      linux::CgroupLimits& cgroup) const = 0;
  // The descriptors that go with a request, fileCount() of them: after the runner's socket, and
  // before where it says why it cannot start and the cgroups. `walls`: of an agent, encoded; "" for
  // none.
  [[nodiscard]] virtual Result<std::vector<Fd>> files(const SandboxSpec& spec,
                                                      const std::string& walls) const = 0;
  [[nodiscard]] virtual uint32_t fileCount() const = 0;

  // Where those that were kept are (template.h); nullptr: none are.
  [[nodiscard]] virtual std::shared_ptr<Templates> templates() const { return nullptr; }
  // Of a machine of `spec`, as it is told the VMM.
  [[nodiscard]] virtual uint64_t machineBytes(const SandboxSpec& /*spec*/) const { return 0; }
  // Besides, of memory, while one is kept: where that is a copy.
  [[nodiscard]] virtual uint64_t keepingBytes(const SandboxSpec& /*spec*/) const { return 0; }
  // As files(), where spec.guest_begins is not kBoots: with filesOf() more, those of `from`, and
  // the other end of `orders`, on which its VMM is told things.
  struct Ordered {
    std::vector<Fd> files;
    Fd orders;
  };
  [[nodiscard]] virtual Result<Ordered> filesWith(const SandboxSpec& /*spec*/,
                                                  const Template& /*from*/) const {
    return fail(Code::kUnsupported, name() + " keeps no machines");
  }
  // Has one that was to be kept, and whose runner has said its first word, leave its state in `in`.
  // It stands still then, and is of no more use.
  [[nodiscard]] virtual Task<Result<>> save(boost::asio::any_io_executor /*executor*/,
                                            Fd /*orders*/, const Template& /*in*/) const {
    co_return fail(Code::kUnsupported, name() + " keeps no machines");
  }

  // Why what runs in a session cannot be kept, memory and all, and gone on with elsewhere
  // (memory_image.h); "" where it can. `one_user`: the sandbox has one host user id.
  [[nodiscard]] virtual std::string keepsNoMemory(bool /*one_user*/) const {
    return "the runtime " + name() + " keeps none";
  }
  // What an image is made of, by name, and what keeps it: as files(), where `sandbox` is the pidfd
  // of the first process.
  [[nodiscard]] virtual std::vector<std::string> imageFiles() const { return {}; }
  [[nodiscard]] virtual Result<std::vector<Fd>> filesToSave(int /*sandbox*/) const {
    return fail(Code::kUnsupported, name() + " keeps no memory");
  }
  [[nodiscard]] virtual SpawnRequest::What saver() const { return what(); }
  // As files(), where spec.guest_begins is kImage, with those of `image` behind them.
  [[nodiscard]] virtual Result<std::vector<Fd>> filesFrom(const SandboxSpec& /*spec*/,
                                                          const std::string& /*walls*/,
                                                          const MemoryImage& /*image*/) const {
    return fail(Code::kUnsupported, name() + " keeps no memory");
  }
  // What is built into an image, and has to be built in where it goes on: its kernel's version, and
  // what makeBundle() and the like say.
  [[nodiscard]] virtual std::string kernelVersion() const { return {}; }
  [[nodiscard]] virtual std::string shapeOf(const SandboxSpec& /*spec*/) const { return {}; }

  // What files() comes down to, for --dry-run.
  virtual void describe(const SandboxSpec& spec, base::json::object& plan) const = 0;
};

// Of looking for one: what cannot be used is a guest too few, and `finding` says why, and how to
// get it.
struct GuestFound {
  std::shared_ptr<const Guest> guest;  // nullptr where there is none
  model::Finding finding;
};

}  // namespace cloister::runtime
