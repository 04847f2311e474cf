// SPDX-License-Identifier: Apache-2.0
#include "confine/microvm/command.h"

#include <sys/resource.h>

#include <span>

#include "confine/door_link.h"
#include "wire/guest.h"

namespace cloister::runtime::microvm {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// The program's limits as enforced in the guest. Memory is limited by its control group.
std::string limitsFor(const SandboxSpec& spec) {
  std::string text;
  for (const linux::ResourceLimit& limit : std::span(spec.limits).first(spec.limit_count)) {
    if (limit.resource == RLIMIT_DATA) continue;
    if (!text.empty()) text += ',';
    text += std::to_string(limit.resource) + ":" + std::to_string(limit.value);
  }
  return text;
}

}  // namespace

std::string descriptorPath(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

uint64_t mebibytesOf(const Machine& machine, const SandboxSpec& spec) {
  return (spec.guest_memory_bytes + machine.own_bytes + kMebibyte - 1) / kMebibyte;
}

std::vector<std::string> guestSettings(const SandboxSpec& spec, uint32_t port) {
  namespace guest = wire::guest;
  std::vector<std::string> settings;
  const auto add = [&settings](const char* name, const std::string& value) {
    settings.push_back(std::string(name) + "=" + value);
  };
  add(guest::kMemory, std::to_string(spec.guest_memory_bytes));
  add(guest::kPids, std::to_string(spec.guest_pids));
  add(guest::kScratch, std::to_string(spec.scratch_bytes));
  add(guest::kInodes, std::to_string(spec.scratch_inodes));
  add(guest::kNoExec, spec.runs_own ? "0" : "1");
  add(guest::kWrites, std::to_string(static_cast<unsigned>(spec.writes)));
  add(guest::kLimits, limitsFor(spec));
  if (spec.guest_begins != Beginning::kBoots) add(guest::kSleeps, "1");
  if (port != 0) add(guest::kVsock, std::to_string(port));
  if (spec.guest_link == 0) return settings;
  add(guest::kNetwork, std::to_string(spec.guest_link));
  add(guest::kGateway, std::to_string(linkGateway(spec.guest_link)));
  return settings;
}

std::string kernelLine(std::string_view own, const SandboxSpec& spec, uint32_t port) {
  // panic=-1: a failed guest ends at once.
  std::string line = "console=ttyS0 quiet loglevel=2 panic=-1 random.trust_cpu=on ";
  line += own;
  for (const std::string& setting : guestSettings(spec, port))
    line.append(1, ' ').append(setting);
  return line;
}

std::string encodeCommand(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& argument : command)
    text.append(argument).push_back('\0');
  return text;
}

std::vector<std::string> decodeCommand(std::string_view text) {
  std::vector<std::string> command;
  while (!text.empty()) {
    const size_t end = text.find('\0');
    command.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return command;
}

}  // namespace cloister::runtime::microvm
