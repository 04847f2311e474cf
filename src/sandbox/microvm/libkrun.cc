// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/libkrun.h"

#include <utility>

#include "confine/microvm/command.h"
#include "confine/microvm/devices.h"
#include "sandbox/host/ask_version.h"
#include "wire/guest.h"

namespace cloister::runtime::microvm {
namespace {

constexpr char kDriver[] = "cloister-krun";
constexpr char kInstall[] = "install libkrun 1.17 or later, with libkrunfw";
constexpr char kSocket[] = "/tmp/port";

// The version behind `name` in a file's path: "1.17.0"; "" if anything else follows `name`.
std::string versionIn(std::string_view path, std::string_view name) {
  const size_t at = path.rfind(name);
  if (!path.starts_with('/') || at == std::string_view::npos) return {};
  const std::string_view version = path.substr(at + name.size());
  return version.find_first_not_of("0123456789.") == std::string_view::npos ? std::string(version)
                                                                            : std::string();
}

VmmFound findLibkrun(const MicrovmConfig& config, const Fd& /*library*/) {
  auto driver = openDriver(config, kDriver);
  if (!driver) return {nullptr, driver.error().message, "install Cloister anew"};
  const std::string said =
      askProgram((*driver)->get(), {kDriver, "--check", config.image_root + config.libkrun});
  const LibkrunFiles files = libkrunFiles(said);
  if (files.title.empty()) {
    return {nullptr,
            said.empty() ? config.libkrun + " cannot be asked" : said.substr(0, said.find('\n')),
            std::string(kInstall) + ", or set microvm.libkrun to where it is"};
  }
  return {std::make_shared<const Vmm>(
      Vmm{.kind = &kLibkrun,
          .title = files.title,
          .kernel = files.kernel,
          .program = *std::move(driver),
          .command = [library = config.libkrun](const Machine& machine, const SandboxSpec& spec) {
            return libkrunCommand(library, machine, spec);
          }})};
}

}  // namespace

std::vector<std::string> libkrunCommand(const std::string& library, const Machine& machine,
                                        const SandboxSpec& spec) {
  std::vector<std::string> command = {kDriver,
                                      library,
                                      std::string("/") + kShown,
                                      kSocket,
                                      std::to_string(wire::guest::kVsockPort),
                                      std::to_string(spec.guest_cpus),
                                      std::to_string(mebibytesOf(machine, spec))};
  for (std::string& setting : guestSettings(spec, wire::guest::kVsockPort))
    command.push_back(std::move(setting));
  command.push_back(std::string(wire::guest::kShown) + "=1");
  return command;
}

LibkrunFiles libkrunFiles(std::string_view said) {
  const size_t line = said.find('\n');
  const std::string_view library = said.substr(0, line);
  std::string_view kernel = line == std::string_view::npos ? "" : said.substr(line + 1);
  kernel = kernel.substr(0, kernel.find('\n'));
  const std::string version = versionIn(library, "/libkrun.so.");
  const std::string its = versionIn(kernel, "/libkrunfw.so.");
  if (version.empty() || its.empty()) return {};
  return {"libkrun " + version + " (libkrunfw " + its + ")", std::string(kernel)};
}

// An error of KVM ends the library's process, with a word.
constinit const VmmKind kLibkrun{
    .word = model::Vmm::kLibkrun,
    .title = "libkrun",
    .path = &MicrovmConfig::libkrun,
    .key = "microvm.libkrun",
    .install = kInstall,
    .kernel = "",
    .policy = "libkrun.json",
    .sockets = true,
    .shows_root = true,
    .weaker =
        "libkrun serves the machine's files from within the VMM (virtio-fs): who breaks the "
        "guest's kernel reads what the VMM's process may read",
    .stalled_at = neverStalls,
    .find = findLibkrun};

}  // namespace cloister::runtime::microvm
