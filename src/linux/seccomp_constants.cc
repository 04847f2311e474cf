// SPDX-License-Identifier: Apache-2.0
#include "linux/seccomp_constants.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>

#include <termios.h>

// Newer than the headers this may be built with; the numbers are the kernel's for ever.
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_GET_MDWE 66
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

namespace cloister::linux {
namespace {

struct Constant {
  std::string_view name;
  uint64_t value;
};

// Every namespace that clone(2) can make.
constexpr uint64_t kCloneNewAny = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                  CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME;

constexpr Constant constant(std::string_view name, uint64_t value) {
  return {name, value};
}

#define CONSTANT(name) constant(#name, name)

constexpr Constant kConstants[] = {
    {"CLONE_NEW_ANY_AND_SHARED_FILES", kCloneNewAny | CLONE_FILES | CLONE_THREAD},
    {"CLONE_FILES_OF_A_THREAD", CLONE_FILES | CLONE_THREAD},
    {"F_OFD_ANY", 0x20},  // a bit of F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW and of no other command
    {"SOCK_TYPE_MASK", 0xf},
    // Not in the C library's headers, or only together with clashing ones.
    {"TCGETS2", 0x802c542a},
    {"TCSETS2", 0x402c542b},
    {"TCSETSW2", 0x402c542c},
    {"TCSETSF2", 0x402c542d},
    {"FS_IOC_FIEMAP", 0xc020660b},
    CONSTANT(CLONE_THREAD),
    CONSTANT(AF_UNIX),
    CONSTANT(AF_INET),
    CONSTANT(AF_INET6),
    CONSTANT(SOCK_STREAM),
    CONSTANT(SOCK_DGRAM),
    CONSTANT(SOCK_SEQPACKET),
    CONSTANT(IPPROTO_IP),
    CONSTANT(IPPROTO_TCP),
    CONSTANT(IPPROTO_UDP),
    CONSTANT(SOL_SOCKET),
    CONSTANT(SO_REUSEADDR),
    CONSTANT(SO_DONTROUTE),
    CONSTANT(SO_BROADCAST),
    CONSTANT(SO_SNDBUF),
    CONSTANT(SO_RCVBUF),
    CONSTANT(SO_KEEPALIVE),
    CONSTANT(SO_OOBINLINE),
    CONSTANT(SO_PRIORITY),
    CONSTANT(SO_LINGER),
    CONSTANT(SO_REUSEPORT),
    CONSTANT(SO_PASSCRED),
    CONSTANT(SO_RCVLOWAT),
    CONSTANT(SO_RCVTIMEO),
    CONSTANT(SO_SNDTIMEO),
    CONSTANT(SO_BINDTODEVICE),
    CONSTANT(SO_TIMESTAMP),
    CONSTANT(SO_TIMESTAMPNS),
    CONSTANT(SO_PEEK_OFF),
    CONSTANT(IP_TOS),
    CONSTANT(IP_TTL),
    CONSTANT(IP_PKTINFO),
    CONSTANT(IP_MTU_DISCOVER),
    CONSTANT(IP_RECVERR),
    CONSTANT(IP_RECVTTL),
    CONSTANT(IP_RECVTOS),
    CONSTANT(IP_FREEBIND),
    CONSTANT(IP_BIND_ADDRESS_NO_PORT),
    CONSTANT(IP_MULTICAST_IF),
    CONSTANT(IP_MULTICAST_TTL),
    CONSTANT(IP_MULTICAST_LOOP),
    CONSTANT(IP_MULTICAST_ALL),
    CONSTANT(IPPROTO_IPV6),
    CONSTANT(IPV6_UNICAST_HOPS),
    CONSTANT(IPV6_MULTICAST_IF),
    CONSTANT(IPV6_MULTICAST_HOPS),
    CONSTANT(IPV6_MULTICAST_LOOP),
    CONSTANT(IPV6_MTU_DISCOVER),
    CONSTANT(IPV6_RECVERR),
    CONSTANT(IPV6_V6ONLY),
    CONSTANT(IPV6_RECVPKTINFO),
    CONSTANT(IPV6_RECVHOPLIMIT),
    CONSTANT(IPV6_DONTFRAG),
    CONSTANT(IPV6_RECVTCLASS),
    CONSTANT(IPV6_TCLASS),
    CONSTANT(IPV6_FREEBIND),
    CONSTANT(TCP_NODELAY),
    CONSTANT(TCP_MAXSEG),
    CONSTANT(TCP_CORK),
    CONSTANT(TCP_KEEPIDLE),
    CONSTANT(TCP_KEEPINTVL),
    CONSTANT(TCP_KEEPCNT),
    CONSTANT(TCP_SYNCNT),
    CONSTANT(TCP_LINGER2),
    CONSTANT(TCP_DEFER_ACCEPT),
    CONSTANT(TCP_WINDOW_CLAMP),
    CONSTANT(TCP_QUICKACK),
    CONSTANT(TCP_CONGESTION),
    CONSTANT(TCP_USER_TIMEOUT),
    CONSTANT(TCP_FASTOPEN),
    CONSTANT(TCP_NOTSENT_LOWAT),
    CONSTANT(TCP_FASTOPEN_CONNECT),
    CONSTANT(TCP_INQ),
    CONSTANT(UDP_CORK),
    CONSTANT(UDP_SEGMENT),
    CONSTANT(UDP_GRO),
    CONSTANT(MFD_HUGETLB),
    CONSTANT(MAP_HUGETLB),
    CONSTANT(SHM_HUGETLB),
    CONSTANT(S_IFMT),
    CONSTANT(S_IFREG),
    CONSTANT(S_IFIFO),
    CONSTANT(S_IFSOCK),
    CONSTANT(PROT_EXEC),
    CONSTANT(PER_LINUX),
    CONSTANT(PR_SET_PDEATHSIG),
    CONSTANT(PR_GET_PDEATHSIG),
    CONSTANT(PR_SET_DUMPABLE),
    CONSTANT(PR_GET_DUMPABLE),
    CONSTANT(PR_SET_KEEPCAPS),
    CONSTANT(PR_GET_KEEPCAPS),
    CONSTANT(PR_GET_TIMING),
    CONSTANT(PR_SET_NAME),
    CONSTANT(PR_GET_NAME),
    CONSTANT(PR_GET_SECCOMP),
    CONSTANT(PR_CAPBSET_READ),
    CONSTANT(PR_GET_TSC),
    CONSTANT(PR_GET_SECUREBITS),
    CONSTANT(PR_SET_TIMERSLACK),
    CONSTANT(PR_GET_TIMERSLACK),
    CONSTANT(PR_SET_CHILD_SUBREAPER),
    CONSTANT(PR_GET_CHILD_SUBREAPER),
    CONSTANT(PR_SET_NO_NEW_PRIVS),
    CONSTANT(PR_GET_NO_NEW_PRIVS),
    CONSTANT(PR_SET_THP_DISABLE),
    CONSTANT(PR_GET_THP_DISABLE),
    CONSTANT(PR_CAP_AMBIENT),
    CONSTANT(PR_GET_SPECULATION_CTRL),
    CONSTANT(PR_SVE_SET_VL),
    CONSTANT(PR_SVE_GET_VL),
    CONSTANT(PR_PAC_RESET_KEYS),
    CONSTANT(PR_SET_TAGGED_ADDR_CTRL),
    CONSTANT(PR_GET_TAGGED_ADDR_CTRL),
    CONSTANT(PR_SET_PTRACER),
    CONSTANT(PR_SET_VMA),
    CONSTANT(PR_SET_MDWE),
    CONSTANT(PR_GET_MDWE),
    CONSTANT(TCGETS),
    CONSTANT(TCSETS),
    CONSTANT(TCSETSW),
    CONSTANT(TCSETSF),
    CONSTANT(TCSBRK),
    CONSTANT(TCSBRKP),
    CONSTANT(TCXONC),
    CONSTANT(TCFLSH),
    CONSTANT(TIOCEXCL),
    CONSTANT(TIOCNXCL),
    CONSTANT(TIOCSCTTY),
    CONSTANT(TIOCGPGRP),
    CONSTANT(TIOCSPGRP),
    CONSTANT(TIOCOUTQ),
    CONSTANT(TIOCGWINSZ),
    CONSTANT(TIOCSWINSZ),
    CONSTANT(TIOCMGET),
    CONSTANT(TIOCPKT),
    CONSTANT(TIOCNOTTY),
    CONSTANT(TIOCGSID),
    CONSTANT(TIOCGETD),
    CONSTANT(TIOCGPTN),
    CONSTANT(TIOCSPTLCK),
    CONSTANT(TIOCGPTPEER),
    CONSTANT(TIOCGDEV),
    CONSTANT(FIONREAD),
    CONSTANT(FIONBIO),
    CONSTANT(FIOASYNC),
    CONSTANT(FIOCLEX),
    CONSTANT(FIONCLEX),
    CONSTANT(FIOQSIZE),
    CONSTANT(SIOCATMARK),
    CONSTANT(SIOCGPGRP),
    CONSTANT(SIOCGSTAMP),
    CONSTANT(SIOCGIFNAME),
    CONSTANT(SIOCGIFINDEX),
    CONSTANT(SIOCGIFCONF),
    CONSTANT(SIOCGIFFLAGS),
    CONSTANT(SIOCGIFADDR),
    CONSTANT(SIOCGIFDSTADDR),
    CONSTANT(SIOCGIFBRDADDR),
    CONSTANT(SIOCGIFNETMASK),
    CONSTANT(SIOCGIFMTU),
    CONSTANT(SIOCGIFHWADDR),
    CONSTANT(FS_IOC_GETFLAGS),
    CONSTANT(FICLONE),
    CONSTANT(FICLONERANGE),
#if defined(__x86_64__)
    // KVM's requests, for a VMM. As numbers: with the kernel's own names some have another size in
    // C++, where an empty struct has one.
    {"KVM_GET_API_VERSION", 0x0000ae00},
    {"KVM_CHECK_EXTENSION", 0x0000ae03},
    {"KVM_CREATE_VM", 0x0000ae01},
    {"KVM_GET_VCPU_MMAP_SIZE", 0x0000ae04},
    {"KVM_GET_SUPPORTED_CPUID", 0xc008ae05},
    {"KVM_GET_MSR_INDEX_LIST", 0xc004ae02},
    {"KVM_GET_MSR_FEATURE_INDEX_LIST", 0xc004ae0a},
    {"KVM_X86_GET_MCE_CAP_SUPPORTED", 0x8008ae9d},
    {"KVM_GET_DEVICE_ATTR", 0x4018aee2},
    {"KVM_ENABLE_CAP", 0x4068aea3},
    {"KVM_SET_USER_MEMORY_REGION", 0x4020ae46},
    {"KVM_SET_IDENTITY_MAP_ADDR", 0x4008ae48},
    {"KVM_SET_TSS_ADDR", 0x0000ae47},
    {"KVM_SET_GSI_ROUTING", 0x4008ae6a},
    {"KVM_CREATE_IRQCHIP", 0x0000ae60},
    {"KVM_CREATE_PIT2", 0x4040ae77},
    {"KVM_GET_DIRTY_LOG", 0x4010ae42},
    {"KVM_GET_IRQCHIP", 0xc208ae62},
    {"KVM_SET_IRQCHIP", 0x8208ae63},
    {"KVM_GET_PIT2", 0x8070ae9f},
    {"KVM_SET_PIT2", 0x4070aea0},
    {"KVM_IRQFD", 0x4020ae76},
    {"KVM_SIGNAL_MSI", 0x4020aea5},
    {"KVM_IOEVENTFD", 0x4040ae79},
    {"KVM_REGISTER_COALESCED_MMIO", 0x4010ae67},
    {"KVM_UNREGISTER_COALESCED_MMIO", 0x4010ae68},
    {"KVM_GET_CLOCK", 0x8030ae7c},
    {"KVM_SET_CLOCK", 0x4030ae7b},
    {"KVM_X86_SET_MSR_FILTER", 0x4188aec6},
    {"KVM_CREATE_VCPU", 0x0000ae41},
    {"KVM_RUN", 0x0000ae80},
    {"KVM_SET_CPUID2", 0x4008ae90},
    {"KVM_GET_REGS", 0x8090ae81},
    {"KVM_SET_REGS", 0x4090ae82},
    {"KVM_GET_SREGS", 0x8138ae83},
    {"KVM_SET_SREGS", 0x4138ae84},
    {"KVM_GET_SREGS2", 0x8140aecc},
    {"KVM_SET_SREGS2", 0x4140aecd},
    {"KVM_GET_XSAVE", 0x9000aea4},
    {"KVM_GET_XSAVE2", 0x9000aecf},
    {"KVM_SET_XSAVE", 0x5000aea5},
    {"KVM_GET_XCRS", 0x8188aea6},
    {"KVM_SET_XCRS", 0x4188aea7},
    {"KVM_SET_FPU", 0x41a0ae8d},
    {"KVM_GET_CPUID2", 0xc008ae91},
    {"KVM_GET_MSRS", 0xc008ae88},
    {"KVM_SET_MSRS", 0x4008ae89},
    {"KVM_GET_LAPIC", 0x8400ae8e},
    {"KVM_SET_LAPIC", 0x4400ae8f},
    {"KVM_GET_MP_STATE", 0x8004ae98},
    {"KVM_SET_MP_STATE", 0x4004ae99},
    {"KVM_GET_VCPU_EVENTS", 0x8040ae9f},
    {"KVM_SET_VCPU_EVENTS", 0x4040aea0},
    {"KVM_GET_DEBUGREGS", 0x8080aea1},
    {"KVM_SET_DEBUGREGS", 0x4080aea2},
    {"KVM_GET_TSC_KHZ", 0x0000aea3},
    {"KVM_SET_TSC_KHZ", 0x0000aea2},
    {"KVM_KVMCLOCK_CTRL", 0x0000aead},
    {"KVM_X86_SETUP_MCE", 0x4008ae9c},
    {"KVM_TPR_ACCESS_REPORTING", 0xc028ae92},
    {"KVM_SET_VAPIC_ADDR", 0x4008ae93},
#endif
};

constexpr Constant kErrnos[] = {CONSTANT(EPERM),        CONSTANT(ENOENT),    CONSTANT(EACCES),
                                CONSTANT(EINVAL),       CONSTANT(ENOTTY),    CONSTANT(ENOSYS),
                                CONSTANT(EAFNOSUPPORT), CONSTANT(EOPNOTSUPP)};

#undef CONSTANT

template <class List>
const Constant* find(const List& list, std::string_view name) {
  const auto* found = std::ranges::find(list, name, &Constant::name);
  return found == std::end(list) ? nullptr : found;
}

}  // namespace

std::optional<uint64_t> seccompConstant(std::string_view name) {
  const Constant* constant = find(kConstants, name);
  if (constant == nullptr) return std::nullopt;
  return constant->value;
}

std::optional<int> errnoByName(std::string_view name) {
  const Constant* constant = find(kErrnos, name);
  if (constant == nullptr) return std::nullopt;
  return static_cast<int>(constant->value);
}

}  // namespace cloister::linux
