// SPDX-License-Identifier: Apache-2.0
// P12, P13, P14, P19: calls that must be refused. Prints "group name errno" for each; errno 0 means
// success. The arguments are valid enough to succeed if the kernel allows the call, and harmless in
// any case.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void say(const char* group, const char* name, long result) {
  printf("%s %s %d\n", group, name, result < 0 ? errno : 0);
  fflush(stdout);
}

static long cloneWith(uint64_t flags) {
  const long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid((pid_t)pid, 0, 0);
  return pid;
}

static long clone3With(uint64_t flags) {
  struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
  const long pid = syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid((pid_t)pid, 0, 0);
  return pid;
}

static void namespaces(void) {
  static const struct {
    const char* name;
    uint64_t flag;
  } kSpaces[] = {{"user", CLONE_NEWUSER},
                 {"net", CLONE_NEWNET},
                 {"mnt", CLONE_NEWNS},
                 {"pid", CLONE_NEWPID},
                 {"ipc", CLONE_NEWIPC},
                 {"uts", CLONE_NEWUTS},
                 {"time", 0x80},
                 {"cgroup", CLONE_NEWCGROUP},
                 {"user+net", CLONE_NEWUSER | CLONE_NEWNET}};
  for (size_t i = 0; i < sizeof kSpaces / sizeof *kSpaces; ++i) {
    char name[32];
    snprintf(name, sizeof name, "unshare-%s", kSpaces[i].name);
    say("P12", name, syscall(SYS_unshare, kSpaces[i].flag));
    snprintf(name, sizeof name, "clone-%s", kSpaces[i].name);
    if (kSpaces[i].flag != 0x80) say("P12", name, cloneWith(kSpaces[i].flag));
    snprintf(name, sizeof name, "clone3-%s", kSpaces[i].name);
    say("P12", name, clone3With(kSpaces[i].flag));
  }
  const int own = open("/proc/self/ns/net", O_RDONLY);
  say("P12", "setns", own < 0 ? -1 : syscall(SYS_setns, own, 0));
}

static void mounts(void) {
  mkdir("/tmp/m", 0700);
  say("P13", "mount-tmpfs", mount("none", "/tmp/m", "tmpfs", 0, 0));
  say("P13", "mount-bind", mount("/usr", "/tmp/m", 0, MS_BIND, 0));
  say("P13", "mount-proc", mount("proc", "/tmp/m", "proc", 0, 0));
  say("P13", "remount-rw", mount(0, "/usr", 0, MS_REMOUNT | MS_BIND, 0));
  say("P13", "umount2", umount2("/proc", MNT_DETACH));
  say("P13", "pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp"));
  say("P13", "chroot", chroot("/tmp"));
  say("P13", "open_tree", syscall(SYS_open_tree, AT_FDCWD, "/usr", 1));
  say("P13", "move_mount", syscall(SYS_move_mount, AT_FDCWD, "/usr", AT_FDCWD, "/tmp/m", 0));
  say("P13", "fsopen", syscall(SYS_fsopen, "tmpfs", 0));
  say("P13", "fspick", syscall(SYS_fspick, AT_FDCWD, "/usr", 0));
  say("P13", "fsconfig", syscall(SYS_fsconfig, 0, 0, "a", "b", 0));
  say("P13", "fsmount", syscall(SYS_fsmount, 0, 0, 0));
  uint64_t attr[4] = {0, 1, 0, 0};
  say("P13", "mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, attr, sizeof attr));
  say("P13", "write-usr", open("/usr/hostile", O_WRONLY | O_CREAT, 0600));
  say("P13", "write-etc", open("/etc/hostile", O_WRONLY | O_CREAT, 0600));
  say("P13", "write-root", open("/hostile", O_WRONLY | O_CREAT, 0600));
  say("P13", "write-dev", open("/dev/hostile", O_WRONLY | O_CREAT, 0600));
}

static void dangerous(void) {
  char zero[512] = {0};
  struct timespec now = {1, 0};
  say("P14", "bpf", syscall(SYS_bpf, 0, zero, 48));
  say("P14", "io_uring_setup", syscall(SYS_io_uring_setup, 4, zero));
  say("P14", "userfaultfd", syscall(SYS_userfaultfd, 1));
  say("P14", "keyctl", syscall(SYS_keyctl, 0, -3, 1));
  say("P14", "add_key", syscall(SYS_add_key, "user", "k", "v", 1, -3));
  say("P14", "request_key", syscall(SYS_request_key, "user", "k", 0, -3));
  say("P14", "perf_event_open", syscall(SYS_perf_event_open, zero, 0, -1, -1, 0));
  say("P14", "kexec_load", syscall(SYS_kexec_load, 0, 0, 0, 0));
  say("P14", "kexec_file_load", syscall(SYS_kexec_file_load, -1, -1, 0, 0, 0));
  say("P14", "init_module", syscall(SYS_init_module, zero, 1, ""));
  say("P14", "finit_module", syscall(SYS_finit_module, 0, "", 0));
  say("P14", "delete_module", syscall(SYS_delete_module, "none", 0));
  say("P14", "ptrace", syscall(SYS_ptrace, 16, 1, 0, 0));
  say("P14", "process_vm_readv", syscall(SYS_process_vm_readv, 1, 0, 0, 0, 0, 0));
  say("P14", "process_vm_writev", syscall(SYS_process_vm_writev, 1, 0, 0, 0, 0, 0));
  say("P14", "open_by_handle_at", syscall(SYS_open_by_handle_at, AT_FDCWD, zero, 0));
  say("P14", "name_to_handle_at", syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", zero, zero, 0));
  say("P14", "swapon", syscall(SYS_swapon, "/tmp/m", 0));
  say("P14", "swapoff", syscall(SYS_swapoff, "/tmp/m"));
  say("P14", "reboot", syscall(SYS_reboot, 0xfee1dead, 0x28121969, 0, 0));
  say("P14", "settimeofday", syscall(SYS_settimeofday, &now, 0));
  say("P14", "clock_settime", syscall(SYS_clock_settime, CLOCK_REALTIME, &now));
  say("P14", "clock_adjtime", syscall(SYS_clock_adjtime, CLOCK_REALTIME, zero));
  say("P14", "adjtimex", syscall(SYS_adjtimex, zero));
  say("P14", "acct", syscall(SYS_acct, "/tmp/acct"));
  say("P14", "quotactl", syscall(SYS_quotactl, 0, "", 0, 0));
  say("P14", "iopl", syscall(SYS_iopl, 3));
  say("P14", "ioperm", syscall(SYS_ioperm, 0, 1, 1));
  say("P14", "modify_ldt", syscall(SYS_modify_ldt, 0, zero, sizeof zero));
  say("P14", "vhangup", syscall(SYS_vhangup));
  say("P14", "syslog", syscall(SYS_syslog, 10, 0, 0));
  say("P14", "fanotify_init", syscall(SYS_fanotify_init, 0, 0));
  say("P14", "lookup_dcookie", syscall(SYS_lookup_dcookie, 0, zero, 1));
  say("P14", "nfsservctl", syscall(SYS_nfsservctl, 0, 0, 0));
  say("P14", "sethostname", syscall(SYS_sethostname, "x", 1));
  say("P14", "setdomainname", syscall(SYS_setdomainname, "x", 1));
  say("P14", "prlimit-other", syscall(SYS_prlimit64, 1, 7, 0, zero));
  const long pidfd = syscall(SYS_pidfd_open, 1, 0);
  say("P14", "pidfd_getfd", pidfd < 0 ? -1 : syscall(SYS_pidfd_getfd, pidfd, 0, 0));
  say("P14", "kcmp", syscall(SYS_kcmp, 1, 1, 0, 0, 0));
  say("P14", "move_pages", syscall(SYS_move_pages, 1, 0, 0, 0, 0, 0));
  say("P14", "migrate_pages", syscall(SYS_migrate_pages, 1, 0, 0, 0));
  say("P14", "process_madvise", syscall(SYS_process_madvise, pidfd, 0, 0, 0, 0));
}

static void devices(void) {
  say("P19", "mknod-block", mknod("/tmp/sda", S_IFBLK | 0600, makedev(8, 0)));
  say("P19", "mknod-mem", mknod("/tmp/mem", S_IFCHR | 0600, makedev(1, 1)));
  static const char* const kDevices[] = {"/dev/mem",
                                         "/dev/kmsg",
                                         "/dev/kvm",
                                         "/dev/fuse",
                                         "/dev/net/tun",
                                         "/dev/loop-control",
                                         "/dev/mapper/control",
                                         "/dev/vsock",
                                         "/dev/vda",
                                         "/dev/sda",
                                         "/dev/console",
                                         "/dev/tty",
                                         "/dev/port"};
  for (size_t i = 0; i < sizeof kDevices / sizeof *kDevices; ++i) {
    say("P19", kDevices[i], open(kDevices[i], O_RDWR));
  }
}

int main(void) {
  namespaces();
  mounts();
  dangerous();
  devices();
  puts("end");
  return 0;
}
