// SPDX-License-Identifier: Apache-2.0
// A strict double of libkrun.so.1 for tests of cloister-krun: the used functions of the published
// header, with its signatures and return codes, and its rules of order. Calls that the header
// forbids, or that our machines must not make, are reported on stderr and returned as an error.
//
// krun_start_enter() boots nothing. The function reports so and fails, like the library without
// working KVM, unless the environment has CLOISTER_KRUN_DOUBLE. Then the double plays the machine:
// checks its root, and runs the root's cloister-runner behind the socket of the vsock port.
// CLOISTER_KRUN_DOUBLE is "play"; "exit:CODE", "hang" or "deaf" (a machine that ends at once, never
// connects, or connects and says nothing); "hello" (for a sandbox: no runner, but its
// first word, after a check of the place); or "fail:FUNCTION:ERRNO".
//
// Built with -DOLD, a library from before krun_add_vsock(); with -DNO_VIRTIOFS3, a library from
// before krun_add_virtiofs3().
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CTX = 7, RUNNER_FD = 3 };

static struct {
  bool logging, made, started, sized, bare, vsock;
  uint32_t port;
  char root[4096], socket[108], console[4096], exec[4096];
  char* settings[64];
} vm;

static int32_t wrong(const char* function, const char* why, int32_t code) {
  fprintf(stderr, "libkrun double: %s: %s\n", function, why);
  return -code;
}

// The error ordered by the test for the function, or 0.
static int32_t ordered(const char* function) {
  const char* order = getenv("CLOISTER_KRUN_DOUBLE");
  if (order == NULL || strncmp(order, "fail:", 5) != 0) return 0;
  const size_t length = strlen(function);
  if (strncmp(order + 5, function, length) != 0 || order[5 + length] != ':') return 0;
  return -atoi(order + 6 + length);
}

#define BEGIN(ctx)                                                                                 \
  do {                                                                                             \
    const int32_t error = ordered(__func__);                                                       \
    if (error != 0) return error;                                                                  \
    if (!vm.made || vm.started || (ctx) != CTX) return wrong(__func__, "no such context", ENOENT); \
  } while (0)

static int32_t keep(const char* function, char* to, size_t room, const char* text) {
  if (text == NULL || text[0] == '\0') return wrong(function, "no text", EINVAL);
  if (to[0] != '\0') return wrong(function, "called twice", EINVAL);
  if (strlen(text) >= room) return wrong(function, "too long", EINVAL);
  strcpy(to, text);
  return 0;
}

int32_t krun_set_log_level(uint32_t level) {
  const int32_t error = ordered(__func__);
  if (error != 0) return error;
  if (level > 5) return wrong(__func__, "no such level", EINVAL);
  if (vm.logging) abort();  // the library panics: its logger is there already
  vm.logging = true;
  return 0;
}

int32_t krun_create_ctx(void) {
  const int32_t error = ordered(__func__);
  if (error != 0) return error;
  if (vm.made) return wrong(__func__, "one machine is enough", EINVAL);
  vm.made = true;
  return CTX;
}

int32_t krun_set_vm_config(uint32_t ctx, uint8_t cpus, uint32_t mebibytes) {
  BEGIN(ctx);
  if (cpus == 0 || cpus > 16) return wrong(__func__, "no such number of processors", EINVAL);
  if (mebibytes == 0) return wrong(__func__, "no memory", EINVAL);
  vm.sized = true;
  return 0;
}

int32_t krun_set_root(uint32_t ctx, const char* path) {
  BEGIN(ctx);
  return keep(__func__, vm.root, sizeof vm.root, path);
}

#ifndef NO_VIRTIOFS3
int32_t krun_add_virtiofs3(uint32_t ctx, const char* tag, const char* path, uint64_t window,
                           bool read_only) {
  BEGIN(ctx);
  if (tag == NULL || strcmp(tag, "/dev/root") != 0)
    return wrong(__func__, "not the root's tag", EINVAL);
  if (!read_only) return wrong(__func__, "it can be written", EINVAL);
  if (window != 0) return wrong(__func__, "a window into the host's page cache", EINVAL);
  return keep(__func__, vm.root, sizeof vm.root, path);
}
#endif

int32_t krun_disable_implicit_vsock(uint32_t ctx) {
  BEGIN(ctx);
  vm.bare = true;
  return 0;
}

#ifndef OLD
int32_t krun_add_vsock(uint32_t ctx, uint32_t tsi_features) {
  BEGIN(ctx);
  if (!vm.bare || vm.vsock) return wrong(__func__, "there is one", EEXIST);
  if (tsi_features != 0) return wrong(__func__, "the guest could ask for sockets", EINVAL);
  vm.vsock = true;
  return 0;
}
#endif

int32_t krun_add_vsock_port(uint32_t ctx, uint32_t port, const char* path) {
  BEGIN(ctx);
  if (vm.bare && !vm.vsock) return wrong(__func__, "no vsock", ENODEV);
  vm.port = port;
  return keep(__func__, vm.socket, sizeof vm.socket, path);
}

int32_t krun_set_console_output(uint32_t ctx, const char* path) {
  BEGIN(ctx);
  return keep(__func__, vm.console, sizeof vm.console, path);
}

int32_t krun_set_workdir(uint32_t ctx, const char* path) {
  BEGIN(ctx);
  return path != NULL && path[0] == '/' ? 0 : wrong(__func__, "not absolute", EINVAL);
}

int32_t krun_set_exec(uint32_t ctx, const char* path, const char* const argv[],
                      const char* const envp[]) {
  BEGIN(ctx);
  if (argv == NULL || argv[0] != NULL)
    return wrong(__func__, "the guest takes no arguments", EINVAL);
  if (envp == NULL) return wrong(__func__, "it would have the VMM's own environment", EINVAL);
  size_t line = 0;
  for (size_t i = 0; envp[i] != NULL; ++i) {
    if (i + 1 == sizeof vm.settings / sizeof *vm.settings)
      return wrong(__func__, "too much for a kernel", EINVAL);
    vm.settings[i] = strdup(envp[i]);
    line += strlen(envp[i]) + 3;
  }
  if (line > 1500) return wrong(__func__, "too long for a kernel's command line", EINVAL);
  return keep(__func__, vm.exec, sizeof vm.exec, path);
}

// --- the machine

static const char* setting(const char* name) {
  for (char** each = vm.settings; *each != NULL; ++each) {
    const size_t length = strlen(name);
    if (strncmp(*each, name, length) == 0 && (*each)[length] == '=') return *each + length + 1;
  }
  return NULL;
}

static int32_t lookAtRoot(void) {
  const int root = open(vm.root, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
  if (root < 0) return wrong("krun_start_enter", "the root cannot be read", ENOENT);
  const int made = openat(root, "made", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (made >= 0) return wrong("krun_start_enter", "a file can be made in the root", EINVAL);
  struct stat status;
  if (fstatat(root, vm.exec + 1, &status, 0) != 0 || !S_ISREG(status.st_mode) ||
      (status.st_mode & 0111) == 0) {
    return wrong("krun_start_enter", "the root has no such program", ENOENT);
  }
  if (openat(root, vm.exec + 1, O_WRONLY | O_CLOEXEC) >= 0 ||
      fchmodat(root, vm.exec + 1, 0777, 0) == 0) {
    return wrong("krun_start_enter", "a file of the root can be changed", EINVAL);
  }
  return root;
}

static int connectPort(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, vm.socket);
  const int port = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (port < 0 || connect(port, (struct sockaddr*)&address, sizeof address) != 0) {
    perror("libkrun double: connecting the port");
    exit(1);
  }
  return port;
}

// The file system of the original may forbid execution.
static int copyOf(int root, const char* name) {
  const int from = openat(root, name, O_RDONLY | O_CLOEXEC);
  const int to = memfd_create(name, MFD_CLOEXEC);
  struct stat status;
  if (from < 0 || to < 0 || fstat(from, &status) != 0 ||
      sendfile(to, from, NULL, status.st_size) != status.st_size) {
    perror("libkrun double: reading the runner");
    exit(1);
  }
  return to;
}

// The guest's view of the sandbox's root: programs, and writable places.
static bool enterPrograms(void) {
  if (chdir(vm.root) != 0 || mount("tmpfs", "root", "tmpfs", 0, NULL) != 0 || chdir("root") != 0)
    return false;
  for (const char* const* name = (const char* const[]){"usr", "proc", "dev", "workspace", NULL};
       *name; ++name)
    if (mkdir(*name, 0755) != 0) return false;
  for (const char* const* name = (const char* const[]){"bin", "lib", "lib64", NULL}; *name;
       ++name) {
    char to[16] = "usr/";
    if (symlink(strcat(to, *name), *name) != 0) return false;
  }
  return mount("/usr", "usr", NULL, MS_BIND | MS_REC, NULL) == 0 &&
         mount("/dev", "dev", NULL, MS_BIND | MS_REC, NULL) == 0 &&
         mount("proc", "proc", "proc", 0, NULL) == 0 && chroot(".") == 0;
}

// The runner is pid 1, as in a machine.
static void runRunner(int root, int port) {
  const int runner = copyOf(root, "cloister-runner");
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) {
    perror("libkrun double: making a place for the runner");
    exit(1);
  }
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char* argv[] = {"cloister-runner", NULL};
    char* envp[] = {NULL};
    if (enterPrograms() && dup2(port, RUNNER_FD) == RUNNER_FD) fexecve(runner, argv, envp);
    perror("libkrun double: executing the runner");
    _exit(1);
  }
  close(port);
  waitpid(child, NULL, 0);
}

// Looks from a guest's view: programs, and nothing of the VMM's own.
static void lookAtPrograms(int root) {
  struct stat status;
  if (fstatat(root, "root/usr/bin/env", &status, 0) != 0 ||
      fstatat(root, "root/proc/self", &status, 0) == 0 ||
      fstatat(root, "root/dev/null", &status, 0) == 0 ||
      openat(root, "root/made", O_WRONLY | O_CREAT, 0600) >= 0) {
    fprintf(stderr, "libkrun double: the root of programs is not as it should be\n");
    exit(1);
  }
  if (open("/proc/self/mem", O_RDWR) >= 0 || open("/made", O_WRONLY | O_CREAT, 0600) >= 0 ||
      open("/tmp/made", O_WRONLY | O_CREAT, 0600) >= 0 || socket(AF_VSOCK, SOCK_STREAM, 0) >= 0) {
    fprintf(stderr, "libkrun double: the VMM can do what it should not\n");
    exit(1);
  }
}

static void play(const char* order, int root) {
  const int console = open(vm.console, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (console < 0) {
    perror("libkrun double: opening the console");
    exit(1);
  }
  dprintf(console, "a machine of %s, %s\n", vm.exec,
          setting("cloister_memory") ? "with limits" : "without limits");
  if (strncmp(order, "exit:", 5) == 0) exit(atoi(order + 5));
  if (strcmp(order, "hang") == 0) pause();
  const int port = connectPort();
  if (strcmp(order, "deaf") == 0) pause();
  if (strcmp(order, "hello") == 0) {
    lookAtPrograms(root);
    const char hello[16] = {4, 0, 0, 0, 1, 0, 65, 0,
                            0, 0, 0, 0, 1, 0, 0,  0};  // src/wire/frame.h, runner.h
    if (write(port, hello, sizeof hello) == sizeof hello) pause();
  }
  runRunner(root, port);
  dprintf(console, "the machine ends\n");
  exit(0);
}

int32_t krun_start_enter(uint32_t ctx) {
  BEGIN(ctx);
  vm.started = true;
  if (!vm.sized || vm.root[0] == '\0' || vm.exec[0] != '/' || vm.console[0] == '\0' ||
      vm.socket[0] == '\0') {
    return wrong(__func__, "something was not set", EINVAL);
  }
  const char* port = setting("cloister_vsock");
  if (port == NULL || (uint32_t)atol(port) != vm.port)
    return wrong(__func__, "guest and host differ in the port", EINVAL);
  const char* order = getenv("CLOISTER_KRUN_DOUBLE");
  if (order == NULL) return wrong(__func__, "it boots no machine", EINVAL);
  const int root = lookAtRoot();
  if (root < 0) return root;
  play(order, root);
  return wrong(__func__, "unreachable", EINVAL);
}
