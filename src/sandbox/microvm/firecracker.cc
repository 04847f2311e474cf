// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/firecracker.h"

#include <charconv>
#include <utility>

#include "confine/door_link.h"
#include "confine/microvm/command.h"
#include "sandbox/host/ask_version.h"
#include "sandbox/microvm/driver_order.h"
#include "wire/guest.h"

namespace cloister::runtime::microvm {
namespace {

constexpr char kInstall[] = "install Firecracker 1.8 or newer below /usr";
constexpr char kSocketPlace[] = "/tmp";

// reboot=k: the keyboard controller's reset is Firecracker's only reset. pci=off and i8042.*: there
// is no PCI and no further keyboard hardware, for which a kernel would wait.
constexpr char kParameters[] = "reboot=k pci=off i8042.noaux i8042.nomux i8042.dumbkbd";

// "1.8" → 1, leaving "8"; false if not a number.
bool takeNumber(std::string_view& text, unsigned& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

VmmFound findFirecracker(const MicrovmConfig& config, const Fd& program) {
  const FirecrackerVersion version = firecrackerVersionIn(askVersion(program.get(), "firecracker"));
  if (version.text.empty()) {
    return {nullptr, config.firecracker + " --version says nothing that is Firecracker's",
            std::string(kInstall) + ", or set microvm.firecracker to where it is"};
  }
  if (std::pair(version.major, version.minor) < std::pair(kFirstMajor, kFirstMinor)) {
    return {nullptr, "Firecracker " + version.text + " is too old", kInstall};
  }
  auto driver = openDriver(config, "cloister-firecracker");
  if (!driver) return {nullptr, driver.error().message, "install Cloister anew"};
  return {std::make_shared<const Vmm>(
      Vmm{.kind = &kFirecracker,
          .title = "Firecracker " + version.text,
          .program = *std::move(driver),
          .command = [path = config.firecracker](const Machine& machine, const SandboxSpec& spec) {
            return firecrackerCommand(path, machine, spec);
          }})};
}

}  // namespace

std::vector<std::string> firecrackerCommand(const std::string& firecracker, const Machine& machine,
                                            const SandboxSpec& spec) {
  std::vector<std::string> command = {"cloister-firecracker",
                                      firecracker,
                                      kSocketPlace,
                                      descriptorPath(kKernelFd),
                                      descriptorPath(kInitrdFd),
                                      descriptorPath(kDiskFd),
                                      std::to_string(spec.guest_cpus),
                                      std::to_string(mebibytesOf(machine, spec)),
                                      kernelLine(kParameters, spec, wire::guest::kVsockPort)};
  if (spec.guest_link != 0) command.insert(command.end(), {"linked", kLinkName, kLinkEthernetText});
  if (spec.guest_begins == Beginning::kBoots) return command;
  command.insert(command.end(),
                 {spec.guest_begins == Beginning::kKept ? "to-be-kept" : "as-kept",
                  descriptorPath(kMemoryFd), descriptorPath(kStateFd), std::to_string(kOrdersFd)});
  return command;
}

FirecrackerVersion firecrackerVersionIn(std::string_view text) {
  constexpr std::string_view kBefore = "Firecracker v";
  if (!text.starts_with(kBefore)) return {};
  text.remove_prefix(kBefore.size());
  text = text.substr(0, text.find_first_of(" \r\n"));
  FirecrackerVersion version{.text = std::string(text)};
  if (!takeNumber(text, version.major) || !text.starts_with('.')) return {};
  text.remove_prefix(1);
  if (!takeNumber(text, version.minor)) return {};
  return version;
}

namespace {

Task<Result<>> saveFirecracker(boost::asio::any_io_executor executor, Fd orders,
                               const Template& /*in*/) {
  co_return co_await orderToKeep(std::move(executor), std::move(orders));
}

// The driver's command already says to resume.
std::string noOrders(int /*state*/) {
  return {};
}

constinit const Keeping kKeeping{.with_kvm = true,
                                 .copies = true,
                                 .keep_policy = "firecracker-keep.json",
                                 .resume_policy = "firecracker-resume.json",
                                 .orders_to_resume = noOrders,
                                 .save = saveFirecracker};

}  // namespace

// On a KVM error Firecracker ends with a message; it never hangs.
constinit const VmmKind kFirecracker{.word = model::Vmm::kFirecracker,
                                     .title = "Firecracker",
                                     .path = &MicrovmConfig::firecracker,
                                     .key = "microvm.firecracker",
                                     .install = kInstall,
                                     .kernel = "vmlinux",
                                     .policy = "firecracker.json",
                                     .link_policy = "firecracker-link.json",
                                     .automatic = true,
                                     .sockets = true,
                                     .opens_link = true,
                                     .opens_disk = true,
                                     .keeping = &kKeeping,
                                     .stalled_at = neverStalls,
                                     .find = findFirecracker};

}  // namespace cloister::runtime::microvm
