// SPDX-License-Identifier: Apache-2.0
// Runs the compiled programs, instruction by instruction, for every existing system call, and
// compares with the documents: the compiler in between is not ours.
#include <linux/audit.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>
#include <seccomp.h>

#include "base/file.h"
#include "base/json.h"
#include "linux/seccomp.h"
#include "linux/seccomp_ranges.h"

namespace cloister::linux {
namespace {

#ifdef __x86_64__
constexpr uint32_t kArch = AUDIT_ARCH_X86_64;
#else
constexpr uint32_t kArch = AUDIT_ARCH_AARCH64;
#endif

// seccomp(2)'s machine, as far as filters need.
uint32_t evaluate(const std::vector<sock_filter>& program, const seccomp_data& data) {
  uint32_t words[sizeof data / 4];
  std::memcpy(words, &data, sizeof words);
  uint32_t a = 0;
  for (size_t i = 0; i < program.size(); ++i) {
    const sock_filter& f = program[i];
    switch (f.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        a = words[f.k / 4];
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        a &= f.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        i += a == f.k ? f.jt : f.jf;
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        i += a > f.k ? f.jt : f.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        i += a >= f.k ? f.jt : f.jf;
        break;
      case BPF_JMP | BPF_JA:
        i += f.k;
        break;
      case BPF_RET | BPF_K:
        return f.k;
      default:
        ADD_FAILURE() << "instruction " << f.code;
        return 0;
    }
  }
  ADD_FAILURE() << "ran off the end";
  return 0;
}

uint32_t actionOf(std::string_view name) {
  if (name == "allow") return SECCOMP_RET_ALLOW;
  if (name == "pretend") return SECCOMP_RET_ERRNO;
  if (name == "ENOSYS") return SECCOMP_RET_ERRNO | ENOSYS;
  if (name == "EOPNOTSUPP") return SECCOMP_RET_ERRNO | EOPNOTSUPP;
  EXPECT_EQ(name, "EPERM");
  return SECCOMP_RET_ERRNO | EPERM;
}

// A document's action for each system call by name. Leaves out calls with `args`.
std::map<std::string, uint32_t> wanted(const base::json::object& policy) {
  std::map<std::string, uint32_t> actions;
  for (const auto& group : policy.at("groups").as_array()) {
    for (const auto& item : group.at("syscalls").as_array()) {
      if (item.is_string()) {
        actions[std::string(item.as_string())] = SECCOMP_RET_ALLOW;
        continue;
      }
      const auto& rule = item.as_object();
      const auto* action = rule.if_contains("action");
      actions[std::string(rule.at("name").as_string())] =
          rule.contains("args") ? UINT32_MAX : actionOf(action ? action->as_string() : "allow");
    }
  }
  return actions;
}

std::string nameOf(int number) {
  const std::unique_ptr<char, decltype(&std::free)> name(
      seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number), &std::free);
  return name ? name.get() : "";
}

std::string pathOf(const char* document) {
  return std::string(CLOISTER_SOURCE_DIR) + "/policies/seccomp/" + document;
}

class WholePolicy : public ::testing::TestWithParam<const char*> {};

TEST_P(WholePolicy, AnswersEverySystemCallAsWritten) {
  const auto program = loadSeccomp(pathOf(GetParam()));
  ASSERT_TRUE(program) << program.error().message;
  const auto actions = wanted(program->description);
  const auto above = program->description.at("beyond").at("above").as_int64();
  size_t allowed = 0;
  for (int number = 0; number < 1024; ++number) {
    const auto found = actions.find(nameOf(number));
    uint32_t want = SECCOMP_RET_ERRNO | EPERM;
    if (number > above) want = SECCOMP_RET_ERRNO | ENOSYS;
    if (found != actions.end()) want = found->second;
    if (want == UINT32_MAX) continue;
    seccomp_data data{};
    data.nr = number;
    data.arch = kArch;
    EXPECT_EQ(evaluate(program->filter, data), want) << number << " " << nameOf(number);
    if (want == SECCOMP_RET_ALLOW) ++allowed;
    data.arch = AUDIT_ARCH_I386;
    EXPECT_EQ(evaluate(program->filter, data), SECCOMP_RET_ERRNO | EPERM) << number << " i386";
#ifdef __x86_64__
    data.arch = kArch;
    data.nr = number | 0x40000000;
    EXPECT_EQ(evaluate(program->filter, data), SECCOMP_RET_ERRNO | EPERM) << number << " x32";
#endif
  }
  EXPECT_GT(allowed, 60U);
}

INSTANTIATE_TEST_SUITE_P(Documents, WholePolicy,
                         ::testing::Values("sandbox.json", "cloisterd.json", "egress.json",
                                           "image.json"),
                         [](const auto& param) {
                           const std::string name = param.param;
                           return name.substr(0, name.find('.'));
                         });

// All that a node starts is under it, too: it refuses what is written, and nothing else.
TEST(NodePolicy, RefusesWhatIsWrittenAndNothingElse) {
  const auto program = loadSeccomp(pathOf("node.json"));
  ASSERT_TRUE(program) << program.error().message;
  const auto actions = wanted(program->description);
  size_t refused = 0;
  for (int number = 0; number < 1024; ++number) {
    const auto found = actions.find(nameOf(number));
    const uint32_t want = found == actions.end() ? SECCOMP_RET_ALLOW : found->second;
    seccomp_data data{};
    data.nr = number;
    data.arch = kArch;
    EXPECT_EQ(evaluate(program->filter, data), want) << number << " " << nameOf(number);
    if (want != SECCOMP_RET_ALLOW) ++refused;
    data.arch = AUDIT_ARCH_I386;
    EXPECT_EQ(evaluate(program->filter, data), SECCOMP_RET_ERRNO | EPERM) << number << " i386";
  }
  EXPECT_GT(refused, 20U);
  EXPECT_LT(program->filter.size(), 80U);
}

#ifdef __x86_64__
// Values of the C headers; see cmake/seccomp_constants.py.
constexpr uint64_t kKvmGetMsrIndexList = 0xc004ae02;
constexpr uint64_t kKvmSetMsrs = 0x4008ae89;
constexpr uint64_t kKvmGetXsave = 0x9000aea4;
constexpr uint64_t kKvmGetXsave2 = 0x9000aecf;
constexpr uint64_t kKvmSetXsave = 0x5000aea5;

uint32_t answerTo(const std::vector<sock_filter>& filter, long number, uint64_t second) {
  seccomp_data data{};
  data.nr = static_cast<int>(number);
  data.arch = kArch;
  data.args[1] = second;
  return evaluate(filter, data);
}

// Permitted and refused requests of a VMM with KVM. QEMU keeps requests in an int, and the kernel
// looks at the low half only, so any sign extension must work.
TEST(VmmPolicy, AddsTheRequestsOfAMachineAndNoOthers) {
  const auto sandbox = loadSeccomp(pathOf("sandbox.json"));
  const auto vmm = loadSeccomp(pathOf("sandbox.json"), {pathOf("vmm.json")});
  ASSERT_TRUE(sandbox && vmm) << (vmm ? "" : vmm.error().message);
  constexpr uint64_t kSign = 0xffffffff'00000000;
  for (const uint64_t request : std::initializer_list<uint64_t>{
           KVM_GET_API_VERSION, KVM_CREATE_VM, kKvmGetMsrIndexList, KVM_SET_USER_MEMORY_REGION,
           KVM_SIGNAL_MSI, KVM_IOEVENTFD, KVM_CREATE_VCPU, KVM_RUN, KVM_SET_SREGS2, kKvmSetMsrs}) {
    for (const uint64_t asked : {request, request | kSign}) {
      EXPECT_EQ(answerTo(vmm->filter, SYS_ioctl, asked), SECCOMP_RET_ALLOW) << std::hex << asked;
      EXPECT_EQ(answerTo(sandbox->filter, SYS_ioctl, asked), SECCOMP_RET_ERRNO | EPERM);
    }
  }
  for (const uint64_t request : std::initializer_list<uint64_t>{
           KVM_CREATE_IRQCHIP, KVM_CREATE_PIT2, KVM_CREATE_DEVICE, KVM_SET_GUEST_DEBUG, KVM_NMI,
           KVM_SMI, KVM_IRQFD, KVM_GET_DIRTY_LOG, KVM_SET_NESTED_STATE, KVM_MEMORY_ENCRYPT_OP,
           KVM_GET_STATS_FD, KVM_XEN_HVM_CONFIG, KVM_HYPERV_EVENTFD, KVM_SET_PMU_EVENT_FILTER}) {
    EXPECT_EQ(answerTo(vmm->filter, SYS_ioctl, request), SECCOMP_RET_ERRNO | EPERM)
        << std::hex << request;
  }
}

// Firecracker's interrupt controllers are the kernel's; its threads have filters of their own.
TEST(FirecrackerPolicy, AddsItsRequestsAndFiltersAndNoOthers) {
  const auto sandbox = loadSeccomp(pathOf("sandbox.json"));
  const auto vmm = loadSeccomp(pathOf("sandbox.json"), {pathOf("firecracker.json")});
  ASSERT_TRUE(sandbox && vmm) << (vmm ? "" : vmm.error().message);
  for (const uint64_t request : std::initializer_list<uint64_t>{
           KVM_CREATE_VM, KVM_CREATE_IRQCHIP, KVM_CREATE_PIT2, KVM_IRQFD, KVM_SET_FPU, KVM_RUN}) {
    EXPECT_EQ(answerTo(vmm->filter, SYS_ioctl, request), SECCOMP_RET_ALLOW) << std::hex << request;
    EXPECT_EQ(answerTo(sandbox->filter, SYS_ioctl, request), SECCOMP_RET_ERRNO | EPERM);
  }
  for (const uint64_t request : std::initializer_list<uint64_t>{
           KVM_CREATE_DEVICE, KVM_SET_GUEST_DEBUG, KVM_NMI, KVM_SMI, KVM_GET_DIRTY_LOG,
           KVM_SET_NESTED_STATE, KVM_MEMORY_ENCRYPT_OP, KVM_GET_STATS_FD, KVM_SET_CLOCK}) {
    EXPECT_EQ(answerTo(vmm->filter, SYS_ioctl, request), SECCOMP_RET_ERRNO | EPERM)
        << std::hex << request;
  }
  const auto filters = [](const auto& program, int number, uint64_t first, uint64_t second) {
    seccomp_data data{};
    data.nr = number;
    data.arch = kArch;
    data.args[0] = first;
    data.args[1] = second;
    return evaluate(program->filter, data);
  };
  EXPECT_EQ(filters(vmm, SYS_seccomp, 1, 0), SECCOMP_RET_ALLOW);
  EXPECT_EQ(filters(vmm, SYS_prctl, 22, 2), SECCOMP_RET_ALLOW);
  EXPECT_EQ(filters(vmm, SYS_seccomp, 1, 8), SECCOMP_RET_ERRNO | EPERM);  // a listener
  EXPECT_EQ(filters(vmm, SYS_prctl, 22, 1), SECCOMP_RET_ERRNO | EPERM);
  EXPECT_EQ(filters(sandbox, SYS_seccomp, 1, 0), SECCOMP_RET_ERRNO | EPERM);
}

// Saving a machine reads its state, resuming writes the state; each policy lacks the other's
// requests.
TEST(FirecrackerPolicy, GivesTheRequestsOfSnapshotsToWhoMakesOrLoadsThem) {
  const auto with = [](const char* more) {
    return loadSeccomp(pathOf("sandbox.json"), {pathOf("firecracker.json"), pathOf(more)});
  };
  const auto boots = loadSeccomp(pathOf("sandbox.json"), {pathOf("firecracker.json")});
  const auto keeps = with("firecracker-keep.json");
  const auto resumes = with("firecracker-resume.json");
  ASSERT_TRUE(boots && keeps && resumes) << (keeps ? "" : keeps.error().message);
  const auto belongTo = [&](const auto& theirs, std::initializer_list<uint64_t> requests) {
    for (const uint64_t request : requests) {
      for (const auto* each : {&boots, &keeps, &resumes}) {
        EXPECT_EQ(answerTo((*each)->filter, SYS_ioctl, request),
                  each == &theirs ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM)
            << std::hex << request;
      }
    }
  };
  belongTo(keeps, {KVM_GET_IRQCHIP, KVM_GET_PIT2, KVM_GET_CLOCK, KVM_GET_DIRTY_LOG, kKvmGetXsave,
                   kKvmGetXsave2, KVM_GET_XCRS, KVM_GET_DEBUGREGS, KVM_GET_VCPU_EVENTS});
  belongTo(resumes, {KVM_SET_IRQCHIP, KVM_SET_PIT2, KVM_SET_CLOCK, KVM_SET_MP_STATE, kKvmSetXsave,
                     KVM_SET_XCRS, KVM_SET_DEBUGREGS, KVM_SET_VCPU_EVENTS});
  for (const uint64_t request : std::initializer_list<uint64_t>{
           KVM_CREATE_DEVICE, KVM_SET_GUEST_DEBUG, KVM_NMI, KVM_SET_NESTED_STATE, KVM_ENABLE_CAP}) {
    EXPECT_EQ(answerTo(keeps->filter, SYS_ioctl, request), SECCOMP_RET_ERRNO | EPERM);
    EXPECT_EQ(answerTo(resumes->filter, SYS_ioctl, request), SECCOMP_RET_ERRNO | EPERM);
  }
}

// Permitted: file locks that the kernel attributes to a process, and descriptor tables shared only
// by a process's threads.
TEST(SandboxLocks, AreToldByTheirProcess) {
  const auto sandbox = loadSeccomp(pathOf("sandbox.json"));
  ASSERT_TRUE(sandbox) << sandbox.error().message;
  for (const uint64_t command :
       {F_DUPFD, F_SETFL, F_SETLK, F_SETLKW, F_GETLK, F_SETLEASE, F_DUPFD_CLOEXEC, F_ADD_SEALS}) {
    EXPECT_EQ(answerTo(sandbox->filter, SYS_fcntl, command), SECCOMP_RET_ALLOW) << command;
  }
  for (const uint64_t command : {F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW}) {
    EXPECT_EQ(answerTo(sandbox->filter, SYS_fcntl, command), SECCOMP_RET_ERRNO | EINVAL) << command;
  }
  const auto clone = [&sandbox](uint64_t flags) {
    seccomp_data data{};
    data.nr = SYS_clone;
    data.arch = kArch;
    data.args[0] = flags;
    return evaluate(sandbox->filter, data);
  };
  EXPECT_EQ(clone(SIGCHLD), SECCOMP_RET_ALLOW);
  EXPECT_EQ(clone(CLONE_VM | CLONE_VFORK | SIGCHLD), SECCOMP_RET_ALLOW);
  EXPECT_EQ(clone(CLONE_VM | CLONE_SIGHAND | CLONE_FILES | CLONE_THREAD), SECCOMP_RET_ALLOW);
  EXPECT_EQ(clone(CLONE_FILES | SIGCHLD), SECCOMP_RET_ERRNO | EPERM);
  EXPECT_EQ(clone(CLONE_VM | CLONE_SIGHAND | CLONE_THREAD), SECCOMP_RET_ERRNO | EPERM);
  EXPECT_EQ(clone(CLONE_NEWUSER | SIGCHLD), SECCOMP_RET_ERRNO | EPERM);
}

TEST(LibkrunPolicy, AddsItsRequestsAndNoOthers) {
  const auto vmm = loadSeccomp(pathOf("sandbox.json"), {pathOf("libkrun.json")});
  ASSERT_TRUE(vmm) << vmm.error().message;
  for (const uint64_t request : std::initializer_list<uint64_t>{
           KVM_CREATE_VM, KVM_CREATE_IRQCHIP, KVM_CREATE_PIT2, KVM_IRQFD, KVM_SET_FPU, KVM_RUN}) {
    EXPECT_EQ(answerTo(vmm->filter, SYS_ioctl, request), SECCOMP_RET_ALLOW) << std::hex << request;
  }
  for (const uint64_t request : std::initializer_list<uint64_t>{
           KVM_CREATE_DEVICE, KVM_SET_GUEST_DEBUG, KVM_NMI, KVM_SMI, KVM_GET_DIRTY_LOG,
           KVM_SET_NESTED_STATE, KVM_MEMORY_ENCRYPT_OP, KVM_GET_STATS_FD, KVM_SET_CLOCK}) {
    EXPECT_EQ(answerTo(vmm->filter, SYS_ioctl, request), SECCOMP_RET_ERRNO | EPERM)
        << std::hex << request;
  }
}

// QEMU gets an open link; Firecracker attaches to a link by its name. Neither makes a link stay,
// gives it away, or has the kernel filter for it.
TEST(LinkPolicy, AddsWhatAVmmAsksOfItsLinkAndNothingElse) {
  const auto with = [](std::vector<std::string> more) {
    return loadSeccomp(pathOf("sandbox.json"), more);
  };
  const auto sandbox = with({});
  const auto qemu = with({pathOf("qemu-link.json")});
  const auto firecracker = with({pathOf("firecracker.json"), pathOf("firecracker-link.json")});
  ASSERT_TRUE(sandbox && qemu && firecracker) << (qemu ? "" : qemu.error().message);
  constexpr uint32_t kRefused = SECCOMP_RET_ERRNO | EPERM;
  const auto asks = [](const auto& program, uint64_t request, uint64_t value = 1) {
    seccomp_data data{};
    data.nr = SYS_ioctl;
    data.arch = kArch;
    data.args[1] = request;
    data.args[2] = value;
    return evaluate(program->filter, data);
  };
  EXPECT_EQ(asks(qemu, TUNGETIFF), SECCOMP_RET_ALLOW);
  EXPECT_EQ(asks(qemu, TUNSETOFFLOAD, 0), SECCOMP_RET_ALLOW);
  EXPECT_EQ(asks(qemu, TUNSETOFFLOAD), kRefused);
  EXPECT_EQ(asks(qemu, TUNSETIFF), kRefused);
  for (const uint64_t request :
       std::initializer_list<uint64_t>{TUNSETIFF, TUNSETOFFLOAD, TUNSETVNETHDRSZ}) {
    EXPECT_EQ(asks(firecracker, request), SECCOMP_RET_ALLOW) << std::hex << request;
    EXPECT_EQ(asks(sandbox, request), kRefused) << std::hex << request;
  }
  for (const uint64_t request : std::initializer_list<uint64_t>{
           TUNSETPERSIST, TUNSETOWNER, TUNSETGROUP, TUNSETQUEUE, TUNSETSTEERINGEBPF,
           TUNATTACHFILTER, TUNSETTXFILTER, TUNSETLINK, TUNSETCARRIER}) {
    for (const auto* each : {&qemu, &firecracker})
      EXPECT_EQ(asks(*each, request), kRefused) << std::hex << request;
  }
}

class VmmAddition : public testing::TestWithParam<const char*> {};

TEST_P(VmmAddition, ChangesNothingElse) {
  const auto sandbox = loadSeccomp(pathOf("sandbox.json"));
  const auto vmm = loadSeccomp(pathOf("sandbox.json"), {pathOf(GetParam())});
  ASSERT_TRUE(sandbox && vmm);
  size_t more = 0;
  for (int number = 0; number < 1024; ++number) {
    for (uint64_t request = number == SYS_ioctl ? 0 : UINT16_MAX; request <= UINT16_MAX;
         ++request) {
      const uint32_t before = answerTo(sandbox->filter, number, request);
      const uint32_t after = answerTo(vmm->filter, number, request);
      if (after == before) continue;
      EXPECT_EQ(number, SYS_ioctl);
      EXPECT_EQ(request >> 8, uint64_t{KVMIO}) << std::hex << request;
      more++;
    }
  }
  EXPECT_GT(more, 5U);
}

INSTANTIATE_TEST_SUITE_P(Each, VmmAddition, testing::Values("vmm.json", "libkrun.json"));
#endif

TEST(Addition, IsReadLikeAPolicy) {
  const std::string broken = ::testing::TempDir() + "/addition.json";
  for (const char* text : {R"({"architectures": ["x86_64", "aarch64"]})", R"({"groups": []})", "[]",
                           R"({"default": "allow", "architectures": ["x86_64", "aarch64"],
                               "groups": []})"}) {
    ASSERT_TRUE(base::writeFileAtomic(broken, text, 0644));
    const auto loaded = loadSeccomp(pathOf("sandbox.json"), {broken});
    ASSERT_FALSE(loaded) << text;
    EXPECT_NE(loaded.error().message.find(broken), std::string::npos) << loaded.error().message;
  }
}

std::vector<sock_filter> assembled(const char* document) {
  const auto policy = base::parseJson(base::readFile(pathOf(document)).value_or(""));
  if (!policy || !policy->is_object()) return {};
  return assembleSeccomp(policy->get_object()).value_or(std::vector<sock_filter>());
}

// Compares both filters for all numbers near known numbers, with arguments near compared values.
void expectSameAnswers(const std::vector<sock_filter>& one, const std::vector<sock_filter>& other) {
  std::set<uint32_t> values = {0, UINT32_MAX};
  for (const sock_filter& f : one)
    values.insert({f.k - 1, f.k, f.k + 1});
  for (const uint32_t number : values) {
    for (const uint32_t arch : {kArch, kArch + 1, 0U, static_cast<uint32_t>(AUDIT_ARCH_I386)}) {
      for (const uint32_t value : values) {
        seccomp_data data{};
        data.nr = static_cast<int>(number);
        data.arch = arch;
        std::ranges::fill(data.args, value);
        ASSERT_EQ(evaluate(one, data), evaluate(other, data)) << number << " " << value;
        data.args[value % 6] = number | uint64_t{value} << 32;
        ASSERT_EQ(evaluate(one, data), evaluate(other, data)) << number << " " << value;
      }
    }
  }
}

TEST(DispatchByRange, AnswersTheSame) {
  for (const char* document : {"sandbox.json", "cloisterd.json", "egress.json", "image.json"}) {
    SCOPED_TRACE(document);
    const std::vector<sock_filter> before = assembled(document);
    ASSERT_FALSE(before.empty());
    const std::vector<sock_filter> after = dispatchByRange(before, kArch);
    EXPECT_LE(after.size(), before.size());
    expectSameAnswers(before, after);
  }
}

// Only the argument comparisons are not shortened.
TEST(DispatchByRange, ShortensTheSandboxes) {
  const std::vector<sock_filter> before = assembled("sandbox.json");
  EXPECT_LE(dispatchByRange(before, kArch).size(), before.size() * 3 / 5);
}

TEST(DispatchByRange, LeavesAloneWhatItDoesNotKnow) {
  std::vector<sock_filter> odd = assembled("sandbox.json");
  odd[0].code = BPF_LD | BPF_W | BPF_LEN;
  const std::vector<sock_filter> after = dispatchByRange(odd, kArch);
  ASSERT_EQ(after.size(), odd.size());
  EXPECT_EQ(std::memcmp(after.data(), odd.data(), odd.size() * sizeof odd[0]), 0);
}

}  // namespace
}  // namespace cloister::linux
