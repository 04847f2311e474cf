// SPDX-License-Identifier: Apache-2.0
#include "confine/gvisor/bundle.h"

#include <span>
#include <vector>

#include "model/writable.h"
#include "wire/guest.h"
#include "wire/runner.h"

namespace cloister::runtime::gvisor {
namespace {

namespace json = base::json;

constexpr std::string_view kToolsInside = "/run";

std::string inside(std::string_view tool) {
  return std::string(kToolsInside) + std::string(tool);
}

json::object mountOf(std::string_view type, std::string_view target, json::array options) {
  return {
      {"destination", target}, {"type", type}, {"source", type}, {"options", std::move(options)}};
}

json::object scratch(std::string_view target, const SandboxSpec& spec, std::string_view mode) {
  json::array options = {"nosuid", "nodev", "size=" + std::to_string(spec.scratch_bytes),
                         "mode=" + std::string(mode)};
  if (!spec.runs_own) options.emplace_back("noexec");
  if (mode == "0755") {
    const std::string user = std::to_string(kSandboxUid);
    options.emplace_back("uid=" + user);
    options.emplace_back("gid=" + user);
  }
  return mountOf("tmpfs", target, std::move(options));
}

// gVisor cannot mount the same file system in several places, so each tmpfs gets the bound.
json::array mounts(const SandboxSpec& spec) {
  // With Writes::kNone, programs run as another user than the owner of all four.
  const bool none = spec.writes == model::Walls::Writes::kNone;
  const std::string_view temporary = none ? "0755" : "1777";
  json::object tools = mountOf("bind", kToolsInside, {"rbind", "ro", "nosuid", "nodev"});
  tools["source"] = kTools;
  return {mountOf("proc", "/proc", {"nosuid", "nodev", "noexec"}),
          std::move(tools),
          scratch("/workspace", spec, "0755"),
          scratch(model::kHome, spec, "0755"),
          scratch("/tmp", spec, temporary),
          scratch("/dev/shm", spec, temporary)};
}

json::array resourceLimits(const SandboxSpec& spec) {
  json::array limits;
  for (const linux::ResourceLimit& limit : std::span(spec.limits).first(spec.limit_count)) {
    limits.push_back({{"type", linux::resourceName(limit.resource)},
                      {"soft", limit.value},
                      {"hard", limit.value}});
  }
  return limits;
}

json::object holding(const std::vector<std::string_view>& names) {
  const json::array some(names.begin(), names.end());
  return {{"bounding", some}, {"permitted", some}, {"effective", some}};
}

constexpr char kContainer[] = "sandbox";
// Values of runsc's --network, and the annotation of a bundle that sets the flag.
constexpr std::string_view kNoStack = "none";
constexpr std::string_view kOwnStack = "sandbox";
constexpr std::string_view kNetworkFlag = "dev.gvisor.flag.network";

// Arguments common to all runsc commands.
std::vector<std::string> common(bool one_user, std::string_view network) {
  std::vector<std::string> argv = {
      "runsc",
      "--root=" + std::string(kState),
      "--platform=systrap",
      "--network=" + std::string(network),
      "--overlay2=none",      // the root is read-only; writable file systems are in memory
      "--directfs=false",     // files are opened by the gofer, never by the guest kernel
      "--host-uds=none",      // no socket and no pipe of the host can be opened by name
      "--host-fifo=none",     //
      "--ignore-cgroups",     // our cgroups hold all of runsc
      "--net-raw=false",      //
      "--oci-seccomp=false",  // the runner applies our filter, which is stricter than OCI's can be
      "--watchdog-action=panic",
  };
  if (one_user) argv.emplace_back("--rootless");
  return argv;
}

// With a link, programs have gVisor's own network stack, which takes over the interfaces of the
// named namespace. Without, the namespace is a new one.
json::object networkOf(const SandboxSpec& spec) {
  json::object network{{"type", "network"}};
  if (spec.guest_link != 0) network["path"] = "/proc/self/ns/net";
  return network;
}

// The runner's user and capabilities in the guest kernel. Programs have no capabilities.
struct Start {
  uint32_t user = kSandboxUid;
  uint32_t group = kSandboxUid;
  std::vector<std::string> args;
  std::vector<std::string> env;
  std::vector<std::string_view> rights;
};

Start startOf(const SandboxSpec& spec) {
  if (spec.nests) {
    const auto writes = static_cast<unsigned>(spec.writes);
    return {.user = 0,
            .group = 0,
            .args = {inside(kGuest), wire::guest::kContainer},
            .env = {wire::guest::kWrites + ("=" + std::to_string(writes)),
                    wire::guest::kCpus + ("=" + std::to_string(spec.shown_cpus))},
            .rights = {"CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL",
                       "CAP_NET_ADMIN", "CAP_CHOWN", "CAP_DAC_OVERRIDE"}};
  }
  // The runner is root until its work is done: show programs their share of the machine, then
  // become their user or separate the two users.
  const bool splits = spec.writes != model::Walls::Writes::kAll;
  return {
      .user = 0,
      .args = {inside(kRunner), wire::kAtStdinFlag, "yes", wire::kProcessorsFlag,
               std::to_string(spec.shown_cpus), splits ? wire::kOtherUserFlag : wire::kOwnUserFlag,
               "yes", wire::kFilterFlag, inside(kFilter)},
      .env = {},
      .rights = {"CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETPCAP"}};
}

// The first process: the runner, or, with nested sandboxes, the program that starts the runner.
json::object process(const SandboxSpec& spec) {
  const Start start = startOf(spec);
  return {{"terminal", false},
          {"user", {{"uid", start.user}, {"gid", start.group}}},
          {"args", json::array(start.args.begin(), start.args.end())},
          {"env", json::array(start.env.begin(), start.env.end())},
          {"cwd", "/"},
          {"capabilities", start.rights.empty() ? json::object() : holding(start.rights)},
          {"noNewPrivileges", true},
          {"rlimits", resourceLimits(spec)}};
}

// `runsc run --rootless` refuses its own stack, before it reads the bundle. Nothing else of runsc
// needs root for the stack: root of a user namespace that owns the network has every right there.
// So the bundle sets the flag.
std::string_view startsWith(const SandboxSpec& spec, bool one_user) {
  return spec.guest_link == 0 || one_user ? kNoStack : kOwnStack;
}

}  // namespace

json::object makeBundle(const SandboxSpec& spec) {
  json::array namespaces;
  for (const char* type : {"pid", "ipc", "uts", "mount"})
    namespaces.push_back({{"type", type}});
  namespaces.push_back(networkOf(spec));
  json::object annotations;
  if (spec.guest_link != 0) annotations[kNetworkFlag] = kOwnStack;
  return {{"ociVersion", "1.0.2"},
          {"annotations", std::move(annotations)},
          {"process", process(spec)},
          {"root", {{"path", kRoot}, {"readonly", true}}},
          {"hostname", "cloister"},
          {"mounts", mounts(spec)},
          {"linux", {{"namespaces", std::move(namespaces)}}}};
}

std::vector<std::string> command(const SandboxSpec& spec, bool one_user) {
  std::vector<std::string> argv = common(one_user, startsWith(spec, one_user));
  if (spec.guest_link != 0) argv.emplace_back("--allow-flag-override");
  const bool restores = spec.guest_begins == Beginning::kImage;
  argv.emplace_back(restores ? "restore" : "run");
  argv.push_back("--bundle=" + std::string(kBundle));
  if (restores) argv.push_back("--image-path=" + std::string(kImage));
  const std::string runner = std::to_string(wire::kRunnerFd);
  if (!atStdin(spec)) argv.push_back("--pass-fd=" + runner + ":" + runner);
  argv.emplace_back(kContainer);
  return argv;
}

std::vector<std::string> checkpointCommand(bool one_user) {
  std::vector<std::string> argv = common(one_user, kNoStack);
  for (const std::string& each :
       {std::string("checkpoint"), "--image-path=" + std::string(kImage),
        std::string("--compression=none"),  // equal memory is to stay equal
        std::string("--leave-running"), std::string(kContainer)})
    argv.push_back(each);
  return argv;
}

}  // namespace cloister::runtime::gvisor
