// SPDX-License-Identifier: Apache-2.0
// Contestants that start a program: none, bubblewrap, crun and runsc.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include <spawn.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "bench/contestant.h"

namespace cloister::bench {
namespace {

namespace json = base::json;

constexpr const char* kPath = "PATH=/usr/local/bin:/usr/bin:/bin";
constexpr const char* kLang = "LANG=C.UTF-8";
// How Debian 12 reaches into its merged /usr.
constexpr const char* kMerged[] = {"bin", "sbin", "lib", "lib64"};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const std::string& text : texts)
    list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

Result<pid_t> start(const std::vector<std::string>& argv, int out) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, 1);
  const std::vector<std::string> env = {kPath, kLang};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0].c_str(), &actions, nullptr, pointers(argv).data(),
                                  pointers(env).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return failErrno("starting " + argv[0], error);
  return pid;
}

std::string readAll(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

// A program and the arguments before the work's own.
class Wrapped : public Contestant {
 public:
  Wrapped(std::string name, std::vector<std::string> prefix)
      : name_(std::move(name)), prefix_(std::move(prefix)) {}
  [[nodiscard]] std::string name() const override { return name_; }
  Result<std::unique_ptr<Client>> client() override { return std::make_unique<Each>(prefix_); }

 private:
  class Each : public Client {
   public:
    explicit Each(const std::vector<std::string>& prefix) : prefix_(prefix) {}
    Result<std::string> run(const Work& work) override {
      std::vector<std::string> argv = prefix_;
      argv.insert(argv.end(), work.argv.begin(), work.argv.end());
      return spawn(argv);
    }

   private:
    const std::vector<std::string>& prefix_;
  };

  std::string name_;
  std::vector<std::string> prefix_;
};

class Crun : public Contestant {
 public:
  explicit Crun(std::string dir) : dir_(std::move(dir)) {}
  [[nodiscard]] std::string name() const override { return "crun"; }
  Result<std::unique_ptr<Client>> client() override { return std::make_unique<Each>(*this); }

 private:
  class Each : public Client {
   public:
    explicit Each(Crun& all) : all_(all) {}
    Result<std::string> run(const Work& work) override {
      const std::string id =
          "cloister-bench-" + std::to_string(::getpid()) + "-" + std::to_string(all_.next_++);
      return spawn({"/usr/bin/crun", "--cgroup-manager=cgroupfs", "run", "--bundle",
                    all_.dir_ + "/" + work.name, id});
    }

   private:
    Crun& all_;
  };

  std::string dir_;
  std::atomic<uint64_t> next_ = 0;
};

json::object mount(std::string_view target, std::string_view type, std::string_view source,
                   const json::array& options) {
  return {{"destination", target}, {"type", type}, {"source", source}, {"options", options}};
}

json::array mounts() {
  const json::array scratch = {"nosuid", "nodev", "size=192m"};
  return {mount("/usr", "bind", "/usr", {"rbind", "ro"}),
          mount("/proc", "proc", "proc", {"nosuid", "noexec", "nodev"}),
          mount("/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=64k"}),
          mount("/tmp", "tmpfs", "tmpfs", scratch), mount("/workspace", "tmpfs", "tmpfs", scratch)};
}

json::object bundle(const Work& work) {
  json::array namespaces;
  for (const char* type : {"pid", "network", "ipc", "uts", "mount", "cgroup"})
    namespaces.push_back({{"type", type}});
  json::object process = {{"terminal", false},
                          {"user", {{"uid", 1000}, {"gid", 1000}}},
                          {"args", json::array(work.argv.begin(), work.argv.end())},
                          {"env", {kPath, kLang}},
                          {"cwd", "/workspace"},
                          {"noNewPrivileges", true}};
  json::object resources = {{"memory", {{"limit", 256 << 20}}},
                            {"cpu", {{"quota", 100'000}, {"period", 100'000}}},
                            {"pids", {{"limit", 64}}}};
  return {{"ociVersion", "1.0.0"},
          {"process", process},
          {"root", {{"path", "rootfs"}, {"readonly", true}}},
          {"mounts", mounts()},
          {"linux", {{"namespaces", namespaces}, {"resources", resources}}}};
}

Result<> makeBundle(const std::string& dir, const Work& work) {
  TRY(base::makeDirs(dir));
  for (const char* name : {"usr", "proc", "dev", "tmp", "workspace"})
    TRY(base::makeDirs(dir + "/rootfs/" + name));
  for (const char* name : kMerged) {
    if (::symlink((std::string("usr/") + name).c_str(), (dir + "/rootfs/" + name).c_str()) != 0) {
      return failErrno("linking " + dir + "/rootfs/" + name);
    }
  }
  return base::writeFileAtomic(dir + "/config.json", base::toJson(bundle(work)), 0644);
}

// crun 1.8 refuses a machine with cgroup v1 if some controller is in a v2 hierarchy beside it. crun
// needs no v2 hierarchy, so later children of this process do not see the hierarchy.
Result<> hideUnifiedHierarchy() {
  constexpr const char* kUnified = "/sys/fs/cgroup/unified";
  if (::access(kUnified, F_OK) != 0) return {};
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::umount2(kUnified, MNT_DETACH) != 0) {
    return failErrno("hiding " + std::string(kUnified));
  }
  return {};
}

}  // namespace

Result<std::string> spawn(const std::vector<std::string>& argv) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("making a pipe");
  const base::Fd read_end(ends[0]);
  base::Fd write_end(ends[1]);
  const pid_t pid = TRY(start(argv, write_end.get()));
  write_end.reset();
  std::string output = readAll(read_end.get());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    return fail(Code::kInternal, argv[0] + ": ended with status " + std::to_string(status));
  }
  return output;
}

std::unique_ptr<Contestant> bare() {
  return std::make_unique<Wrapped>("bare", std::vector<std::string>());
}

std::unique_ptr<Contestant> bubblewrap() {
  std::vector<std::string> argv = {
      "/usr/bin/bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind",
      "/usr",           "/usr"};
  for (const char* name : kMerged)
    argv.insert(argv.end(), {"--symlink", std::string("usr/") + name, std::string("/") + name});
  argv.insert(argv.end(), {"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs",
                           "/workspace", "--chdir", "/workspace", "--"});
  return std::make_unique<Wrapped>("bubblewrap", argv);
}

std::unique_ptr<Contestant> runscDo() {
  return std::make_unique<Wrapped>(
      "runsc do", std::vector<std::string>{"/usr/bin/runsc", "--platform=systrap", "--network=none",
                                           "--ignore-cgroups", "do"});
}

Result<std::unique_ptr<Contestant>> crun(const std::string& dir, const std::vector<Work>& works) {
  TRY(hideUnifiedHierarchy());
  for (const Work& work : works)
    TRY(makeBundle(dir + "/" + work.name, work));
  return std::make_unique<Crun>(dir);
}

}  // namespace cloister::bench
