// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/microvm.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/doc_dir.h"
#include "confine/microvm/command.h"
#include "confine/microvm/devices.h"
#include "linux/message.h"
#include "linux/seccomp.h"
#include "sandbox/microvm/accelerator.h"
#include "sandbox/microvm/image.h"
#include "sandbox/microvm/prove_kvm.h"
#include "sandbox/microvm/vmm.h"
#include "sandbox/pool/template.h"

namespace cloister::runtime {
namespace {

using State = model::Finding::State;
using Way = microvm::Choice::Way;
using microvm::Image;
using microvm::Vmm;
using microvm::VmmKind;

// An emulated machine's kernel takes seconds to boot, on a busy host many.
constexpr uint32_t kEmulatedSlowness = 4;
// QEMU's threads besides the threads of the machine's processors.
constexpr uint32_t kOwnThreads = 32;
constexpr uint32_t kMostCpus = 8;

#if defined(__x86_64__)
constexpr bool kX86 = true;
#else
constexpr bool kX86 = false;
#endif

// The frequency of this processor's counter, which QEMU passes on to emulated machines.
uint64_t tscKilohertz() {
#if defined(__x86_64__)
  constexpr auto kLong = std::chrono::milliseconds(20);
  const auto begin = base::monotonicNow();
  const uint64_t before = __builtin_ia32_rdtsc();
  std::this_thread::sleep_for(kLong);
  const uint64_t ticks = __builtin_ia32_rdtsc() - before;
  const auto took = std::chrono::nanoseconds(base::monotonicNow() - begin).count();
  return static_cast<uint64_t>(static_cast<double>(ticks) * 1e6 / static_cast<double>(took));
#else
  return 0;
#endif
}

microvm::Machine machineOf(const MicrovmConfig& config, bool kvm) {
  return {.own_bytes = config.overhead_bytes / 2,
          .kvm = kvm,
          .tsc_kilohertz = kvm                         ? 0
                           : config.tsc_kilohertz == 0 ? tscKilohertz()
                                                       : config.tsc_kilohertz};
}

// The system call filters of a VMM, by the beginning of its machine.
struct Filters {
  linux::SeccompProgram boots, kept, resumed;

  [[nodiscard]] const linux::SeccompProgram& of(Beginning begins) const {
    if (begins == Beginning::kKept) return kept;
    return begins == Beginning::kResumes ? resumed : boots;
  }
};

// With the processor's own virtualisation a VMM has more of the kernel to ask (devices.h).
struct Processor {
  bool kvm = false;
  std::string finding;  // found properties
  Filters seccomp{};    // with KVM
};

// What machines with a network need besides (confine/door_link.h).
struct Links {
  Fd device;  // for the spawner
  Filters seccomp{};
  std::string lack;  // why no machine has a network; "" if machines can
};

std::shared_ptr<Templates> templatesOf(const MicrovmConfig& config, const Vmm& vmm, bool kvm) {
  const microvm::Keeping* keeping = vmm.kind->keeping;
  if (keeping == nullptr || keeping->with_kvm != kvm || config.templates == 0) return nullptr;
  return std::make_shared<Templates>(config.templates);
}

class Microvm final : public Guest {
 public:
  Microvm(const MicrovmConfig& config, std::shared_ptr<const Vmm> vmm, Image image,
          Processor processor, std::shared_ptr<const Links> links)
      : ready_(config.ready),
        overhead_bytes_(config.overhead_bytes),
        vmm_(std::move(vmm)),
        image_(std::move(image)),
        processor_(std::move(processor)),
        links_(std::move(links)),
        machine_(machineOf(config, processor_.kvm)),
        templates_(templatesOf(config, *vmm_, processor_.kvm)) {}
  // With another image.
  Microvm(const Microvm& like, Image image)
      : ready_(like.ready_),
        overhead_bytes_(like.overhead_bytes_),
        vmm_(like.vmm_),
        image_(std::move(image)),
        processor_(like.processor_),
        links_(like.links_),
        machine_(like.machine_),
        templates_(like.templates_) {}

  [[nodiscard]] std::string name() const override { return "microvm"; }
  [[nodiscard]] SpawnRequest::What what() const override { return SpawnRequest::What::kMicrovm; }
  [[nodiscard]] uint32_t ready() const override { return ready_; }
  [[nodiscard]] std::string imageDigest() const override { return image_.digest; }
  [[nodiscard]] Result<std::shared_ptr<const Guest>> withImage(
      const std::string& path, const std::string& digest) const override {
    Image image = TRY(image_.withDisk(path, digest));
    if (vmm_->kind->opens_disk) TRY(image.readableByAll());
    return std::make_shared<const Microvm>(*this, std::move(image));
  }
  [[nodiscard]] bool takesImages() const override { return !vmm_->kind->shows_root; }
  [[nodiscard]] bool counts() const override { return true; }
  [[nodiscard]] Nesting nesting() const override { return Nesting::kAlways; }
  [[nodiscard]] uint32_t slowness() const override {
    return processor_.kvm ? 1 : kEmulatedSlowness;
  }
  [[nodiscard]] std::vector<std::string> weakened() const override {
    if (!vmm_->kind->weaker.empty()) return {std::string(vmm_->kind->weaker)};
    if (processor_.kvm) return {};
    return {
        "emulated: QEMU interprets the machine's code (TCG), which is slow, and more of QEMU to "
        "trust than with KVM"};
  }
  [[nodiscard]] model::Finding finding() const override {
    return {"runtime", name(), processor_.kvm ? State::kOk : State::kReduced,
            vmm_->title + ", " + processor_.finding +
                (image_.digest.empty() ? "" : ", image " + image_.digest.substr(0, 19)) +
                (noNetwork().empty() ? "" : "; no network: " + noNetwork()),
            ""};
  }
  [[nodiscard]] std::string noNetwork() const override {
    if (!links_->lack.empty() || image_.networked) return links_->lack;
    return "the image has no driver for a network interface; make it anew with `./dev images`";
  }
  [[nodiscard]] uint32_t linkFiles() const override { return processor_.kvm ? 1 : 2; }
  [[nodiscard]] size_t stalledAt(std::string_view said) const override {
    return vmm_->kind->stalled_at(said);
  }
  [[nodiscard]] bool failedByChance(std::string_view said) const override {
    return !processor_.kvm && vmm_->kind->failed_by_chance(said);
  }

  // Half of the overhead is the guest kernel's, half the VMM's.
  void adjust(const model::Limits& limits, SandboxSpec& spec,
              linux::CgroupLimits& cgroup) const override {
    spec.guest_memory_bytes = limits.memory_bytes;
    spec.guest_pids = limits.pids + 1;
    spec.guest_cpus = std::clamp<uint32_t>((limits.cpu_millis + 999) / 1000, 1, kMostCpus);
    spec.guest_program = vmm_->program != nullptr;
    spec.guest_sockets = vmm_->kind->sockets;
    spec.guest_opens_link = vmm_->kind->opens_link;
    spec.guest_opens_disk = vmm_->kind->opens_disk;
    spec.guest_shows = vmm_->kind->shows_root;
    spec.guest_devices = processor_.kvm;
    cgroup.memory_bytes += overhead_bytes_;
    cgroup.pids = kOwnThreads + spec.guest_cpus;
  }

  [[nodiscard]] Result<std::vector<Fd>> files(const SandboxSpec& spec,
                                              const std::string& walls) const override {
    std::vector<Fd> fds;
    fds.push_back(TRY(linux::sealedData(microvm::encodeCommand(vmm_->command(machine_, spec)))));
    fds.push_back(TRY(microvm::another(image_.kernel)));
    const bool shows = vmm_->kind->shows_root;
    fds.push_back(walls.empty() || shows ? TRY(microvm::another(image_.initrd))
                                         : TRY(image_.initrdWith(walls)));
    fds.push_back(TRY(microvm::another(image_.disk)));
    const bool linked = spec.guest_link != 0;
    if (linked) fds.push_back(TRY(microvm::another(links_->device)));
    if (vmm_->program) fds.push_back(TRY(microvm::another(*vmm_->program)));
    if (processor_.kvm) fds.push_back(TRY(microvm::makeDevices(deviceFilesOf(spec, walls))));
    if (!processor_.kvm && !linked) return fds;
    const Filters& filters = linked ? links_->seccomp : processor_.seccomp;
    fds.push_back(TRY(linux::sealedData(microvm::bytesOf(filters.of(spec.guest_begins).filter))));
    return fds;
  }
  [[nodiscard]] uint32_t fileCount() const override {
    return 1 + microvm::kOpened + (vmm_->program ? 1 : 0) + (processor_.kvm ? 2 : 0);
  }

  [[nodiscard]] std::shared_ptr<Templates> templates() const override { return templates_; }
  [[nodiscard]] uint64_t machineBytes(const SandboxSpec& spec) const override {
    return microvm::mebibytesOf(machine_, spec) << 20;
  }
  [[nodiscard]] uint64_t keepingBytes(const SandboxSpec& spec) const override {
    const microvm::Keeping* keeping = vmm_->kind->keeping;
    return keeping != nullptr && keeping->copies ? machineBytes(spec) : 0;
  }
  [[nodiscard]] Result<Ordered> filesWith(const SandboxSpec& spec,
                                          const Template& from) const override {
    const microvm::Keeping& keeping = *vmm_->kind->keeping;
    const bool kept = spec.guest_begins == Beginning::kKept;
    auto [ours, theirs] = TRY(linux::socketPair(SOCK_STREAM));
    Ordered ordered{TRY(files(spec, "")), std::move(ours)};
    std::vector<Fd> more;  // QEMU opens its memory for writing even when QEMU cannot write
    more.push_back(kept || !keeping.copies ? TRY(microvm::another(from.memory()))
                                           : TRY(linux::openAnew(from.memory())));
    more.push_back(std::move(theirs));
    more.push_back(kept ? TRY(microvm::another(from.state())) : TRY(linux::openAnew(from.state())));
    ordered.files.insert(ordered.files.begin() + 1 + microvm::kOpened,
                         std::make_move_iterator(more.begin()),
                         std::make_move_iterator(more.end()));
    const std::string orders = kept ? "" : keeping.orders_to_resume(microvm::kStateFd);
    if (!orders.empty()) TRY(linux::sendMessage(ordered.orders.get(), orders));
    return ordered;
  }
  Task<Result<>> save(boost::asio::any_io_executor executor, Fd orders,
                      const Template& in) const override {
    co_return co_await vmm_->kind->keeping->save(std::move(executor), std::move(orders), in);
  }

  void describe(const SandboxSpec& spec, base::json::object& plan) const override {
    base::json::array argv;
    for (const std::string& argument : vmm_->command(machine_, spec))
      argv.emplace_back(argument);
    plan["microvm"] = {{"version", vmm_->title},
                       {"accelerator", processor_.kvm ? "kvm" : "tcg"},
                       {"command", std::move(argv)},
                       {"templates", templates_ ? templates_->most() : 0},
                       {"no_network", nullptr}};
    if (!noNetwork().empty()) plan["microvm"].as_object()["no_network"] = noNetwork();
    if (!processor_.kvm) return;
    base::json::array devices;
    const bool shows = vmm_->kind->shows_root;
    for (const MountStep& step : microvm::deviceSteps(shows ? microvm::shownFiles(image_.tools, "")
                                                            : microvm::MoreFiles{})) {
      devices.emplace_back(toJsonObject(step));
    }
    for (const MountStep& step : shows ? microvm::showRoot() : std::vector<MountStep>())
      devices.emplace_back(toJsonObject(step));
    plan["microvm"].as_object()["dev"] = std::move(devices);
    auto& own = plan["microvm"].as_object();
    own["seccomp"] = processor_.seccomp.boots.description;
    if (!templates_) return;
    own["seccomp_to_be_kept"] = processor_.seccomp.kept.description;
    own["seccomp_from_template"] = processor_.seccomp.resumed.description;
  }

 private:
  // In the VMM's /dev, besides what every VMM has there.
  [[nodiscard]] microvm::MoreFiles deviceFilesOf(const SandboxSpec& spec,
                                                 const std::string& walls) const {
    if (vmm_->kind->shows_root) return microvm::shownFiles(image_.tools, walls);
    const bool opens = spec.guest_link != 0 && vmm_->kind->opens_link;
    return opens ? microvm::linkDevice() : microvm::MoreFiles{};
  }

  const uint32_t ready_;
  const uint64_t overhead_bytes_;
  const std::shared_ptr<const Vmm> vmm_;
  const Image image_;
  const Processor processor_;
  const std::shared_ptr<const Links> links_;
  const microvm::Machine machine_;
  const std::shared_ptr<Templates> templates_;  // shared by all images
};

GuestFound lacks(std::string detail, std::string remedy) {
  return {nullptr, {"runtime", "microvm", State::kMissing, std::move(detail), std::move(remedy)}};
}

std::string pathOf(const MicrovmConfig& config, const VmmKind& kind) {
  return config.image_root + config.*kind.path;
}

// A small machine, otherwise like those of programs.
microvm::KvmTrial trialOf(const MicrovmConfig& config, const Vmm& vmm, const Image& image,
                          const linux::SeccompProgram& seccomp) {
  SandboxSpec spec;
  spec.guest_memory_bytes = uint64_t{64} << 20;
  spec.guest_pids = 32;
  spec.guest_cpus = 1;
  spec.scratch_bytes = uint64_t{1} << 20;
  spec.scratch_inodes = 64;
  microvm::KvmTrial trial;
  trial.image_root = config.image_root;
  trial.vmm = &vmm;
  trial.command = vmm.command(machineOf(config, true), spec);
  trial.filter = seccomp.filter;
  if (vmm.kind->shows_root) trial.files = microvm::shownFiles(image.tools, "");
  trial.kernel = image.kernel.get();
  trial.initrd = image.initrd.get();
  trial.disk = image.disk.get();
  trial.patience = std::chrono::seconds(config.probe_seconds);
  const std::string path = pathOf(config, *vmm.kind);
  trial.name = "kvm-" + base::sha256Hex(path + "\n" + config.image).substr(0, 16);
  for (const std::string& file : {path, config.image + "/" + std::string(vmm.kind->kernel)})
    trial.key += microvm::stampOf(file) + "\n";
  trial.key += microvm::stampOf(vmm.kernel) + "\n";
  trial.key += base::sha256Hex(image.tools.guest + image.tools.runner) + "\n";
  trial.key += image.digest + "\n" + base::sha256Hex(image.initrd_bytes) + "\n" +
               base::sha256Hex(microvm::encodeCommand(trial.command)) + "\n" +
               base::sha256Hex(microvm::bytesOf(seccomp.filter));
  if (vmm.program) trial.key += "\n" + microvm::digestOf(*vmm.program).value_or("");
  return trial;
}

// Runs cheap checks first: most nodes have no such runtime, and the search must not delay their
// start.
class Search {
 public:
  explicit Search(const MicrovmConfig& config) : config_(config) {}

  // A guest with this VMM, or the reason of its absence.
  GuestFound find(const VmmKind& kind) {
    const std::string key(kind.key);
    if ((config_.*kind.path).empty()) return lacks("turned off", "set " + key);
    const auto program = microvm::openWhole(pathOf(config_, kind));
    if (!program) {
      return lacks(program.error().message,
                   std::string(kind.install) + ", or set " + key + ", and start anew");
    }
    const std::string kernel = config_.image + "/" + std::string(kind.kernel);
    if (!kind.shows_root) {
      if (const auto there = microvm::openWhole(kernel); !there) return lacksImage(there.error());
    }
    if (!kX86) return lacks("machines are of x86_64 only", "use a node with such processors");
    if (auto can = choose(kind, [this] { return device(); }); can.way == Way::kNone) {
      return lacks(std::move(can.detail), std::move(can.remedy));
    }
    microvm::VmmFound found = kind.find(config_, *program);
    if (!found.vmm) return lacks(std::move(found.lack), std::move(found.remedy));
    return prove(std::move(found.vmm), kernel);
  }

 private:
  [[nodiscard]] GuestFound lacksImage(const Error& error) const {
    return lacks("no image: " + error.message,
                 "run `./dev images` in a source tree of Cloister, and copy the image to " +
                     config_.image + " of an installed one, or set microvm.image; see " +
                     base::docDir() + "/docs/howto/use-microvm.md");
  }

  // The slow part: reads the image, and boots a machine.
  GuestFound prove(std::shared_ptr<const Vmm> vmm, const std::string& kernel) {
    auto image = vmm->kind->shows_root ? microvm::noImage(config_) : open(*vmm->kind, kernel);
    if (!image) return lacksImage(image.error());
    auto filters = filtersOf(*vmm->kind, {vmm->kind->policy});
    if (!filters) return lacks(filters.error().message, "install Cloister anew");
    const microvm::Choice choice = choose(*vmm->kind, [&] {
      return device().works ? microvm::proveKvm(trialOf(config_, *vmm, *image, filters->boots))
                            : device();
    });
    if (choice.way == Way::kNone) return lacks(choice.detail, choice.remedy);
    const bool kvm = choice.way == Way::kKvm;
    auto links = linksOf(*vmm->kind, kvm);
    if (!links) return lacks(links.error().message, "install Cloister anew");
    auto guest = std::make_shared<const Microvm>(config_, std::move(vmm), *std::move(image),
                                                 Processor{kvm, choice.detail, *std::move(filters)},
                                                 *std::move(links));
    GuestFound made{guest, guest->finding()};
    made.finding.remedy = choice.remedy;
    return made;
  }

  using Policies = std::vector<std::string_view>;

  // The sandboxes' filter plus the system calls of `policies`.
  [[nodiscard]] Result<linux::SeccompProgram> load(const Policies& policies) const {
    std::vector<std::string> additions;
    for (const std::string_view each : policies) {
      if (!each.empty()) additions.push_back(config_.policies + "/" + std::string(each));
    }
    return linux::loadSeccomp(config_.policies + "/sandbox.json", additions);
  }

  [[nodiscard]] Result<Filters> filtersOf(const VmmKind& kind, Policies policies) const {
    const linux::SeccompProgram boots = TRY(load(policies));
    Filters filters{.boots = boots, .kept = boots, .resumed = boots};
    if (kind.keeping == nullptr || kind.keeping->keep_policy.empty()) return filters;
    policies.push_back(kind.keeping->keep_policy);
    filters.kept = TRY(load(policies));
    policies.back() = kind.keeping->resume_policy;
    filters.resumed = TRY(load(policies));
    return filters;
  }

  // The filter of an emulated machine's VMM is the sandboxes', without KVM.
  [[nodiscard]] Result<std::shared_ptr<const Links>> linksOf(const VmmKind& kind, bool kvm) const {
    Links links;
    if (kind.link_policy.empty()) {
      links.lack = "machines of " + std::string(kind.title) +
                   " have no network interface; set microvm.vmm to qemu or firecracker";
      return std::make_shared<const Links>(std::move(links));
    }
    links.seccomp = TRY(filtersOf(kind, {kvm ? kind.policy : "", kind.link_policy}));
    auto device = microvm::makeLinkDevice();
    if (device) links.device = *std::move(device);
    if (!device) links.lack = device.error().message;
    return std::make_shared<const Links>(std::move(links));
  }

  const microvm::KvmFound& device() {
    const bool asks = config_.accelerator != model::Accelerator::kTcg;
    if (!device_) device_ = asks ? microvm::askKvm() : microvm::KvmFound{};
    return *device_;
  }

  [[nodiscard]] microvm::Choice choose(const VmmKind& kind,
                                       const std::function<microvm::KvmFound()>& ask) const {
    return microvm::chooseAccelerator(config_.accelerator, config_.emulate, kind.emulates, ask);
  }

  // VMMs boot different kernels; the rest is read once.
  Result<Image> open(const VmmKind& kind, const std::string& kernel) {
    if (!image_) image_ = TRY(microvm::openImage(config_));
    if (kind.opens_disk) TRY(image_->readableByAll());
    return image_->withKernel(kernel);
  }

  const MicrovmConfig& config_;
  std::optional<microvm::KvmFound> device_;
  std::optional<Image> image_;
};

}  // namespace

GuestFound findMicrovm(const MicrovmConfig& config) {
  Search search(config);
  const bool any = config.vmm == model::Vmm::kAuto;
  std::string before;  // why earlier VMMs are unusable
  GuestFound found;
  for (const VmmKind* kind : microvm::vmmKinds()) {
    if (any ? !kind->automatic : kind->word != config.vmm) continue;
    found = search.find(*kind);
    std::string why = "; not " + std::string(kind->title) + ": " + found.finding.detail;
    found.finding.detail += before;
    if (found.guest) break;
    before = std::move(why);
  }
  return found;
}

}  // namespace cloister::runtime
