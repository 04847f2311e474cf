// SPDX-License-Identifier: Apache-2.0
// Policies are compiled, installed in a child, and probed: each probe is harmless even without the
// filter.
#include "linux/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace cloister::linux {
namespace {

using ::testing::HasSubstr;

std::string policyPath(const std::string& name) {
  return std::string(CLOISTER_SOURCE_DIR) + "/policies/seccomp/" + name;
}

Result<SeccompProgram> compileText(std::string_view text) {
  const auto value = base::parseJson(text);
  if (!value) return std::unexpected(value.error());
  return compileSeccomp(value->as_object());
}

// Runs `body` in a child under the filter; its return value is the child's exit code.
int underFilter(const SeccompProgram& program, const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (installSeccompRaw(program.filter.data(), program.filter.size()) != 0) _exit(255);
    _exit(body());
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// The errno of a raw call, 0 for success.
int errnoOf(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
  return syscall(number, a, b, c, d, e) < 0 ? errno : 0;
}

class SandboxPolicy : public ::testing::Test {
 protected:
  void SetUp() override {
    auto program = loadSeccomp(policyPath("sandbox.json"));
    ASSERT_TRUE(program) << program.error().message;
    program_ = std::move(*program);
  }
  // The errno of a raw system call under the policy.
  int probe(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
    return underFilter(program_, [&] { return errnoOf(number, a, b, c, d, e); });
  }
  SeccompProgram program_;
};

TEST_F(SandboxPolicy, DescribesWhatWasCompiled) {
  EXPECT_EQ(program_.description["instructions"].as_uint64(), program_.filter.size());
  EXPECT_EQ(program_.description["filter_sha256"].as_string().size(), 64U);
  for (const auto& group : program_.description["groups"].as_array())
    EXPECT_GE(group.at("why").as_string().size(), 10U) << group.at("name").as_string();
}

// With arguments for which the kernel would return another error than EPERM, even to root.
TEST_F(SandboxPolicy, RefusesWhatReachesIntoTheKernel) {
  const long refused[] = {
      SYS_ptrace,
      SYS_process_vm_readv,
      SYS_process_vm_writev,
      SYS_pidfd_getfd,
      SYS_kcmp,
      SYS_unshare,
      SYS_setns,
      SYS_mount,
      SYS_umount2,
      SYS_pivot_root,
      SYS_chroot,
      SYS_open_tree,
      SYS_move_mount,
      SYS_fsopen,
      SYS_fsmount,
      SYS_fspick,
      SYS_fsconfig,
      SYS_mount_setattr,
      SYS_io_uring_setup,
      SYS_io_uring_enter,
      SYS_bpf,
      SYS_perf_event_open,
      SYS_keyctl,
      SYS_add_key,
      SYS_request_key,
      SYS_userfaultfd,
      SYS_name_to_handle_at,
      SYS_open_by_handle_at,
      SYS_fanotify_init,
      SYS_init_module,
      SYS_finit_module,
      SYS_delete_module,
      SYS_kexec_load,
      SYS_settimeofday,
      SYS_clock_settime,
      SYS_adjtimex,
      SYS_swapon,
      SYS_acct,
      SYS_quotactl,
      SYS_syslog,
      SYS_sethostname,
      SYS_lookup_dcookie,
      SYS_move_pages,
      SYS_migrate_pages,
      SYS_mbind,
      SYS_vmsplice,
      SYS_seccomp,
      SYS_memfd_secret,
      SYS_io_setup,
#ifdef __x86_64__
      SYS_iopl,
      SYS_ioperm,
      SYS_modify_ldt,
      SYS_kexec_file_load,
#endif
  };
  for (const long number : refused)
    EXPECT_EQ(probe(number, -1, -1, -1, -1, -1), EPERM) << "system call " << number;
}

TEST_F(SandboxPolicy, LetsNoNamespaceBeMade) {
  for (const long flag : {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER,
                          CLONE_NEWPID, CLONE_NEWNET, 0x80 /* CLONE_NEWTIME */}) {
    const int error = underFilter(program_, [&] {
      const long pid = syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0);
      if (pid == 0) _exit(0);
      return pid < 0 ? errno : 0;
    });
    EXPECT_EQ(error, EPERM) << std::hex << flag;
  }
  EXPECT_EQ(probe(SYS_clone3, 0, 0), ENOSYS) << "so that the C library falls back";
}

TEST_F(SandboxPolicy, AnswersNewerCallsAsAnOldKernelWould) {
  EXPECT_EQ(probe(453), ENOSYS);
  EXPECT_EQ(probe(1000), ENOSYS);
  EXPECT_EQ(probe(0x3fffffff), ENOSYS);
}

#ifdef __x86_64__
TEST_F(SandboxPolicy, RefusesTheForeignAbisOfTheMachine) {
  EXPECT_EQ(probe(0x40000000 | SYS_getpid), EPERM) << "x32";
  EXPECT_EQ(probe(0x40000000 | 512), EPERM) << "x32 only";
  const int i386 = underFilter(program_, [] {
    long result = 20;  // getpid of i386
    asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return result < 0 ? static_cast<int>(-result) : 0;
  });
  EXPECT_TRUE(i386 == EPERM || i386 == 1000 + SIGSEGV) << "or the kernel has no i386: " << i386;
}
#endif

TEST_F(SandboxPolicy, GivesOnlyPlainSockets) {
  const auto open = [&](int family, int type, int protocol) {
    return probe(SYS_socket, family, type, protocol);
  };
  EXPECT_EQ(open(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), 0);
  EXPECT_EQ(open(AF_UNIX, SOCK_DGRAM, 0), 0);
  EXPECT_EQ(open(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), 0);
  EXPECT_EQ(open(AF_INET, SOCK_STREAM, IPPROTO_TCP), 0);
  EXPECT_EQ(open(AF_INET, SOCK_DGRAM, IPPROTO_UDP), 0);
  EXPECT_EQ(open(AF_INET, SOCK_STREAM, 132), EPERM) << "SCTP";
  EXPECT_EQ(open(AF_INET, SOCK_STREAM, 262), EPERM) << "MPTCP";
  EXPECT_EQ(open(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), EPERM);
  EXPECT_EQ(open(AF_INET, SOCK_RAW, IPPROTO_ICMP), EPERM);
  for (const int family : {AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG, AF_KEY, AF_BLUETOOTH, AF_CAN,
                           AF_TIPC, AF_RDS, AF_XDP, AF_NFC, AF_QIPCRTR, AF_SMC, 999}) {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET})
      EXPECT_EQ(open(family, type, 0), EPERM) << family << " " << type;
  }
  int pair[2];
  const long place = reinterpret_cast<long>(pair);
  EXPECT_EQ(probe(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET, 0, place), 0);
  EXPECT_EQ(probe(SYS_socketpair, AF_TIPC, SOCK_SEQPACKET, 0, place), EPERM);
}

TEST_F(SandboxPolicy, LetsOnlyKnownOptionsBeSet) {
  const auto set = [&](int level, int option) { return probe(SYS_setsockopt, -1, level, option); };
  EXPECT_EQ(set(SOL_SOCKET, SO_REUSEADDR), EBADF) << "allowed, of a wrong descriptor";
  EXPECT_EQ(set(IPPROTO_TCP, TCP_NODELAY), EBADF);
  EXPECT_EQ(set(IPPROTO_IPV6, IPV6_V6ONLY), EBADF);
  for (const int option : {SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ZEROCOPY})
    EXPECT_EQ(set(SOL_SOCKET, option), EPERM) << option;
  EXPECT_EQ(set(IPPROTO_TCP, TCP_ULP), EPERM);
  EXPECT_EQ(set(IPPROTO_UDP, UDP_ENCAP), EPERM);
  EXPECT_EQ(set(IPPROTO_IP, IP_ADD_MEMBERSHIP), EPERM);
  EXPECT_EQ(set(IPPROTO_IPV6, IPV6_JOIN_GROUP), EPERM);
  for (const int option : {IP_TRANSPARENT, IP_FREEBIND})
    EXPECT_EQ(set(IPPROTO_IP, option), EPERM) << option;
  for (const int option : {IPV6_TRANSPARENT, IPV6_FREEBIND})
    EXPECT_EQ(set(IPPROTO_IPV6, option), EPERM) << option;
}

TEST_F(SandboxPolicy, RefusesHugePagesOfTheHost) {
  const long name = reinterpret_cast<long>("huge");
  EXPECT_EQ(probe(SYS_mmap, 0, 1 << 21, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1),
            EPERM);
  EXPECT_EQ(probe(SYS_memfd_create, name, MFD_HUGETLB), EPERM);
  EXPECT_EQ(probe(SYS_memfd_create, name, MFD_HUGETLB | MFD_CLOEXEC), EPERM);
  EXPECT_EQ(probe(SYS_shmget, IPC_PRIVATE, 1 << 21, IPC_CREAT | SHM_HUGETLB), EPERM);
  EXPECT_EQ(probe(SYS_memfd_create, name, MFD_CLOEXEC), 0);
}

TEST_F(SandboxPolicy, RefusesTerminalInjection) {
  for (const long request : {TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS}) {
    EXPECT_EQ(probe(SYS_ioctl, -1, request), EPERM) << std::hex << request;
    EXPECT_EQ(probe(SYS_ioctl, -1, request | (1L << 32)), EPERM) << "with a high bit set";
  }
  EXPECT_EQ(probe(SYS_ioctl, -1, TIOCGWINSZ), EBADF) << "allowed, of a wrong descriptor";
  EXPECT_EQ(probe(SYS_ioctl, -1, FIONREAD), EBADF);
}

TEST_F(SandboxPolicy, ChecksArguments) {
  rlimit limit{};
  const long place = reinterpret_cast<long>(&limit);
  EXPECT_EQ(probe(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, place), 0);
  EXPECT_EQ(probe(SYS_prlimit64, 1, RLIMIT_NOFILE, 0, place), EPERM);
  EXPECT_EQ(probe(SYS_personality, 0xffffffff), 0);
  EXPECT_EQ(probe(SYS_personality, ADDR_NO_RANDOMIZE), EPERM);
  EXPECT_EQ(probe(SYS_personality, MMAP_PAGE_ZERO), EPERM);
  EXPECT_EQ(probe(SYS_prctl, PR_SET_NAME, reinterpret_cast<long>("name")), 0);
  EXPECT_EQ(probe(SYS_prctl, PR_SET_SECCOMP, 2, 0), EPERM);
  EXPECT_EQ(probe(SYS_prctl, PR_SET_MM, 1, 0), EPERM);
  EXPECT_EQ(probe(SYS_mknodat, -1, reinterpret_cast<long>("x"), S_IFBLK, 0), EPERM);
  EXPECT_EQ(probe(SYS_mknodat, -1, reinterpret_cast<long>("x"), S_IFCHR, 0), EPERM);
  EXPECT_EQ(probe(SYS_mknodat, -1, reinterpret_cast<long>("x"), S_IFIFO, 0), EBADF) << "allowed";
}

TEST_F(SandboxPolicy, OnlyPretendsToFlushTheHostsDisks) {
  EXPECT_EQ(probe(SYS_fsync, -1), 0);
  EXPECT_EQ(probe(SYS_syncfs, -1), 0);
  EXPECT_EQ(probe(SYS_sync), 0);
}

TEST_F(SandboxPolicy, LetsWorkBeDone) {
  const int code = underFilter(program_, [] {
    bool ran = false;
    std::thread([&] { ran = true; }).join();
    int pipe_ends[2];
    if (!ran || pipe(pipe_ends) != 0) return 1;
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(pipe_ends[1], 1);
      execl("/bin/sh", "sh", "-c", "echo $((6*7)) | cat", nullptr);
      _exit(1);
    }
    close(pipe_ends[1]);
    char text[8] = {};
    const ssize_t n = read(pipe_ends[0], text, sizeof text);
    int status = 0;
    waitpid(pid, &status, 0);
    return n == 3 && std::strcmp(text, "42\n") == 0 && status == 0 ? 0 : 2;
  });
  EXPECT_EQ(code, 0);
}

#ifdef __x86_64__
// Values of the C headers; see cmake/seccomp_constants.py.
constexpr uint32_t kKvmGetMsrIndexList = 0xc004ae02;
constexpr uint32_t kKvmSetCpuid2 = 0x4008ae90;

// Tests enforcement by the kernel: a permitted request reaches /dev/null, which knows no such
// request.
TEST(VmmPolicy, IsHeldByTheKernel) {
  const auto program = loadSeccomp(policyPath("sandbox.json"), {policyPath("vmm.json")});
  ASSERT_TRUE(program) << program.error().message;
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const auto ask = [&](long request) {
    return underFilter(*program, [&] { return errnoOf(SYS_ioctl, null, request); });
  };
  for (const int request : {static_cast<int>(kKvmGetMsrIndexList), static_cast<int>(KVM_RUN),
                            static_cast<int>(KVM_CREATE_VM), static_cast<int>(kKvmSetCpuid2)}) {
    EXPECT_EQ(ask(request), ENOTTY) << std::hex << request;
    EXPECT_EQ(ask(static_cast<unsigned>(request)), ENOTTY) << std::hex << request;
  }
  for (const int request :
       {static_cast<int>(KVM_CREATE_IRQCHIP), static_cast<int>(KVM_SET_GUEST_DEBUG),
        static_cast<int>(KVM_CREATE_DEVICE), static_cast<int>(KVM_GET_DIRTY_LOG)}) {
    EXPECT_EQ(ask(request), EPERM) << std::hex << request;
  }
  close(null);
}
#endif

TEST(EgressPolicy, DialsAndDoesNothingElse) {
  const auto program = loadSeccomp(policyPath("egress.json"));
  ASSERT_TRUE(program) << program.error().message;
  const auto probe = [&](long number, long a = 0, long b = 0, long c = 0) {
    return underFilter(*program, [&] { return errnoOf(number, a, b, c); });
  };
  for (const long number : {SYS_execve, SYS_ptrace, SYS_mount, SYS_setuid, SYS_kill, SYS_unshare,
                            SYS_setns, SYS_bpf, SYS_listen, SYS_clone3, SYS_io_uring_setup})
    EXPECT_EQ(probe(number), EPERM) << number;
  EXPECT_EQ(probe(SYS_clone, SIGCHLD), EPERM) << "a process";
  EXPECT_EQ(probe(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC), EPERM);
  EXPECT_EQ(probe(SYS_socket, AF_UNIX, SOCK_STREAM, 0), EPERM);
  EXPECT_EQ(probe(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_ICMP), EPERM);
  EXPECT_EQ(probe(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER), EPERM);
  EXPECT_EQ(probe(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), 0);
  EXPECT_EQ(probe(SYS_socket, AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), 0);
  int pair[2];
  const auto pairs = [&](long type) {
    return underFilter(*program, [&] {
      return errnoOf(SYS_socketpair, AF_UNIX, type, 0, reinterpret_cast<long>(pair));
    });
  };
  EXPECT_EQ(pairs(SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK), 0) << "to TLS with a proxy";
  EXPECT_EQ(pairs(SOCK_SEQPACKET), EPERM);
  const auto opens = [&](int flags) {
    return probe(SYS_openat, AT_FDCWD, reinterpret_cast<long>("/dev/null"), flags);
  };
  EXPECT_EQ(opens(O_RDONLY | O_CLOEXEC), 0);
  for (const int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_CREAT, O_RDONLY | O_TRUNC})
    EXPECT_EQ(opens(flags), EPERM) << flags;
}

TEST(ServerPolicy, KeepsTheServerFromStartingAnything) {
  const auto program = loadSeccomp(policyPath("cloisterd.json"));
  ASSERT_TRUE(program) << program.error().message;
  const auto probe = [&](long number, long a = 0, long b = 0, long c = 0) {
    return underFilter(*program, [&] { return errnoOf(number, a, b, c); });
  };
  for (const long number : {SYS_execve, SYS_execveat, SYS_ptrace, SYS_mount, SYS_setuid, SYS_kill,
                            SYS_unshare, SYS_bpf, SYS_io_uring_setup, SYS_capset})
    EXPECT_EQ(probe(number), EPERM) << number;
  EXPECT_EQ(probe(SYS_clone, SIGCHLD), EPERM) << "a process";
  EXPECT_EQ(probe(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC), EPERM);
  EXPECT_EQ(probe(SYS_mprotect, 0, 0, PROT_EXEC), EPERM);
  EXPECT_EQ(probe(SYS_socket, AF_NETLINK, SOCK_DGRAM, 0), EPERM);
  const int threads = underFilter(*program, [] {
    int answer = 0;
    std::thread([&] { answer = 42; }).join();
    return answer;
  });
  EXPECT_EQ(threads, 42);
}

constexpr std::string_view kMinimal =
    R"({"default":"allow","architectures":["x86_64","aarch64"],"groups":[)"
    R"({"name":"g","why":"a test","syscalls":[%]}]})";

std::string policyWith(const std::string& syscalls) {
  std::string text(kMinimal);
  return text.replace(text.find('%'), 1, syscalls);
}

TEST(Compile, TellsWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("no_such_call")", "unknown system call 'no_such_call'"},
      {R"({"name":"socket","args":[{"index":6,"in":[1]}],"action":"EPERM"})", "index"},
      {R"({"name":"socket","args":[{"index":0,"in":["AF_NONE"]}],"action":"EPERM"})", "'AF_NONE'"},
      {R"({"name":"socket","args":[{"index":0,"in":[]}],"action":"EPERM"})", "no values"},
      {R"({"name":"socket","args":[{"index":0,"mask":1,"in":[2]}],"action":"EPERM"})", "mask"},
      {R"({"name":"socket","action":"EWHAT"})", "unknown action 'EWHAT'"},
      {R"({"name":"socket","acton":"EPERM"})", "acton"},
      {R"(7)", "neither"},
  };
  for (const auto& [syscall, message] : cases) {
    const std::string text = policyWith(syscall);
    // A rule equal to the default is not compiled, so the default must differ.
    const auto result = compileText(std::string(text).replace(text.find("allow"), 5, "kill"));
    ASSERT_FALSE(result) << syscall;
    EXPECT_THAT(result.error().message + result.error().field, HasSubstr(message)) << syscall;
  }
}

TEST(Compile, RefusesADocumentThatIsNotWhole) {
  EXPECT_FALSE(compileText(R"({})"));
  EXPECT_FALSE(compileText(R"({"default":"EPERM","architectures":["z80"],"groups":[]})"));
  EXPECT_FALSE(compileText(
      R"({"default":"EPERM","architectures":["x86_64","aarch64"],"groups":[{"name":"g","syscalls":["read"]}]})"))
      << "a group without a why";
  EXPECT_FALSE(compileText(
      R"({"default":"EPERM","architectures":["x86_64","aarch64"],"groups":[],"more":1})"));
  EXPECT_FALSE(compileText(
      R"({"default":"EPERM","architectures":["x86_64","aarch64"],"groups":[],"beyond":{"above":1,"action":"ENOSYS"}})"));
}

TEST(Compile, ForgivesOptionalNames) {
  const auto program =
      compileText(policyWith(R"({"name":"no_such_call","optional":true,"action":"EPERM"},)"
                             R"({"name":"getppid","action":"ENOENT"})"));
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(underFilter(*program, [] { return errnoOf(SYS_getppid); }), ENOENT);
}

TEST(Compile, MatchesMaskedCombinations) {
  const auto program = compileText(
      policyWith(R"({"name":"personality","args":[{"index":0,"mask":"0xf0","in":["0x10","0x20"]},)"
                 R"({"index":1,"in":[1,2]}],"action":"ENOENT"})"));
  ASSERT_TRUE(program) << program.error().message;
  const auto probe = [&](long a, long b) {
    return underFilter(*program, [&] { return errnoOf(SYS_personality, a, b); });
  };
  EXPECT_EQ(probe(0xffffff1f, 1), ENOENT);
  EXPECT_EQ(probe(0xffffff2f, 2), ENOENT);
  EXPECT_EQ(probe(0xffffffff, 1), 0);
  EXPECT_EQ(probe(0xffffffff, 3), 0);
}

TEST(Install, CoversEveryThread) {
  const auto program = compileText(policyWith(R"({"name":"getppid","action":"ENOENT"})"));
  ASSERT_TRUE(program);
  const pid_t pid = fork();
  if (pid == 0) {
    int ends[2];
    if (pipe(ends) != 0) _exit(1);
    int seen = 0;
    std::thread other([&] {
      char byte;
      if (read(ends[0], &byte, 1) == 1) seen = errnoOf(SYS_getppid);
    });
    if (!installSeccomp(program->filter)) _exit(2);
    if (write(ends[1], "x", 1) != 1) _exit(3);
    other.join();
    _exit(seen == ENOENT ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace cloister::linux
