// SPDX-License-Identifier: Apache-2.0
#include "confine/plan_codec.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace cloister::runtime {
namespace {

void addStep(PlanWriter& out, const MountStep& step) {
  out.number(static_cast<uint8_t>(step.op));
  out.text(step.target);
  out.text(step.source);
  out.list(step.options, [&](const auto& option) {
    out.text(option.first);
    out.text(option.second);
  });
  out.number(step.attributes);
  out.number(static_cast<uint32_t>(step.mode));
  out.text(step.content);
  out.number(static_cast<uint64_t>(step.modified));
  out.number(static_cast<uint32_t>(step.major));
  out.number(static_cast<uint32_t>(step.minor));
}

MountStep readStep(wire::Reader& r) {
  MountStep step;
  step.op = static_cast<MountStep::Op>(r.u8());
  step.target = r.bytes();
  step.source = r.bytes();
  step.options = readList<std::pair<std::string, std::string>>(r, [&] {
    std::string key(r.bytes());
    return std::pair(std::move(key), std::string(r.bytes()));
  });
  step.attributes = r.u64();
  step.mode = r.u32();
  step.content = r.bytes();
  step.modified = static_cast<int64_t>(r.u64());
  step.major = r.u32();
  step.minor = r.u32();
  return step;
}

}  // namespace

void PlanWriter::steps(const std::vector<MountStep>& steps) {
  list(steps, [this](const MountStep& step) { addStep(*this, step); });
}

void PlanWriter::filter(const std::vector<sock_filter>& filter) {
  list(filter, [this](const sock_filter& instruction) {
    number(instruction.code);
    number(instruction.jt);
    number(instruction.jf);
    number(instruction.k);
  });
}

void PlanWriter::confinement(const Confinement& confinement, const std::vector<MountStep>& root) {
  steps(root);
  number(static_cast<uint32_t>(confinement.landlock_abi));
  list(confinement.landlock, [this](const linux::LandlockRule& rule) {
    text(rule.path);
    number(static_cast<uint8_t>(rule.access));
  });
  filter(confinement.filter);
}

std::vector<std::string> readTexts(wire::Reader& r) {
  return readList<std::string>(r, [&] { return std::string(r.bytes()); });
}

std::vector<MountStep> readSteps(wire::Reader& r) {
  return readList<MountStep>(r, [&] { return readStep(r); });
}

namespace {

std::vector<sock_filter> readFilter(wire::Reader& r) {
  return readList<sock_filter>(r, [&] {
    sock_filter instruction{};
    instruction.code = r.u16();
    instruction.jt = r.u8();
    instruction.jf = r.u8();
    instruction.k = r.u32();
    return instruction;
  });
}

}  // namespace

Confinement readConfinement(wire::Reader& r) {
  Confinement confinement;
  confinement.root = readSteps(r);
  confinement.landlock_abi = static_cast<int>(r.u32());
  confinement.landlock = readList<linux::LandlockRule>(r, [&] {
    std::string path(r.bytes());
    return linux::LandlockRule{std::move(path), static_cast<linux::LandlockAccess>(r.u8())};
  });
  confinement.filter = readFilter(r);
  return confinement;
}

Result<std::string> readPlan(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return failErrno("reading a plan");
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  for (size_t have = 0; have < bytes.size();) {
    const ssize_t n =
        ::pread(fd, bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
    if (n <= 0) return failErrno("reading a plan", n == 0 ? EIO : errno);
    have += static_cast<size_t>(n);
  }
  return bytes;
}

}  // namespace cloister::runtime
