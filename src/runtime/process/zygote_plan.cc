// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/zygote_plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "wire/codec.h"

namespace cloister::runtime {
namespace {

// Appends; the encoder of the wire writes into room of a known size.
class Bytes {
 public:
  template <class T>
  void number(T value) {
    raw(&value, sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    raw(value.data(), value.size());
  }
  template <class List, class Each>
  void list(const List& items, Each&& each) {
    number(static_cast<uint32_t>(items.size()));
    for (const auto& item : items)
      each(item);
  }
  std::string take() { return std::move(bytes_); }

 private:
  void raw(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  std::string bytes_;
};

template <class T, class Each>
std::vector<T> readList(wire::Reader& r, Each&& each) {
  std::vector<T> items;
  for (uint32_t left = r.u32(); left > 0 && r.ok(); --left)
    items.push_back(each());
  return items;
}

void addStep(Bytes& out, const MountStep& step) {
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
}

// Without the `why`, and without devices, of which no sandbox makes any.
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
  return step;
}

}  // namespace

std::string encodeZygotePlan(const ZygotePlan& plan, const Confinement& confinement) {
  Bytes out;
  const auto text = [&](const std::string& value) { out.text(value); };
  out.list(plan.argv, text);
  out.list(plan.env, text);
  out.list(plan.files, [&](const ZygotePlan::File& file) {
    out.text(file.name);
    out.text(file.content);
  });
  out.list(confinement.proc, [&](const MountStep& step) { addStep(out, step); });
  out.number(static_cast<uint32_t>(confinement.landlock_abi));
  out.list(confinement.landlock, [&](const linux::LandlockRule& rule) {
    out.text(rule.path);
    out.number(static_cast<uint8_t>(rule.access));
  });
  out.list(confinement.filter, [&](const sock_filter& instruction) {
    out.number(instruction.code);
    out.number(instruction.jt);
    out.number(instruction.jf);
    out.number(instruction.k);
  });
  return out.take();
}

Result<ZygoteOrders> decodeZygotePlan(std::string_view bytes) {
  wire::Reader r(bytes);
  ZygoteOrders orders;
  const auto text = [&] { return std::string(r.bytes()); };
  orders.plan.argv = readList<std::string>(r, text);
  orders.plan.env = readList<std::string>(r, text);
  orders.plan.files = readList<ZygotePlan::File>(r, [&] {
    std::string name(r.bytes());
    return ZygotePlan::File{std::move(name), std::string(r.bytes())};
  });
  Confinement& confinement = orders.confinement;
  confinement.proc = readList<MountStep>(r, [&] { return readStep(r); });
  confinement.landlock_abi = static_cast<int>(r.u32());
  confinement.landlock = readList<linux::LandlockRule>(r, [&] {
    std::string path(r.bytes());
    return linux::LandlockRule{std::move(path), static_cast<linux::LandlockAccess>(r.u8())};
  });
  confinement.filter = readList<sock_filter>(r, [&] {
    sock_filter instruction{};
    instruction.code = r.u16();
    instruction.jt = r.u8();
    instruction.jf = r.u8();
    instruction.k = r.u32();
    return instruction;
  });
  if (!r.done()) return fail(Code::kInternal, "reading a zygote's plan: it is malformed");
  return orders;
}

Result<ZygoteOrders> readZygotePlan(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return failErrno("reading a zygote's plan");
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  for (size_t have = 0; have < bytes.size();) {
    const ssize_t n =
        ::pread(fd, bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
    if (n <= 0) return failErrno("reading a zygote's plan", n == 0 ? EIO : errno);
    have += static_cast<size_t>(n);
  }
  return decodeZygotePlan(bytes);
}

}  // namespace cloister::runtime
