// SPDX-License-Identifier: Apache-2.0
#include "sandbox/gvisor/gvisor.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "confine/gvisor/become_gvisor.h"
#include "confine/gvisor/become_saver.h"
#include "confine/gvisor/bundle.h"
#include "linux/message.h"
#include "sandbox/box/memory_image.h"
#include "sandbox/host/ask_version.h"

namespace cloister::runtime {
namespace {

using State = model::Finding::State;

// gVisor's own threads, and its host threads for each thread of the program: a task thread, a stub
// thread, and as many again while memory is set up.
constexpr uint32_t kOwnThreads = 256;
constexpr uint32_t kThreadsEach = 4;

Result<std::vector<Fd>> duplicates(std::initializer_list<int> of) {
  std::vector<Fd> fds;
  for (const int fd : of) {
    fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!fds.back()) return failErrno("keeping a descriptor");
  }
  return fds;
}

class Gvisor final : public Guest {
 public:
  Gvisor(GvisorConfig config, std::string version, Fd program, Fd guest)
      : config_(std::move(config)),
        version_(std::move(version)),
        program_(std::move(program)),
        guest_(std::move(guest)) {}

  [[nodiscard]] std::string name() const override { return "gvisor"; }
  [[nodiscard]] SpawnRequest::What what() const override { return SpawnRequest::What::kGvisor; }
  [[nodiscard]] uint32_t ready() const override { return config_.ready; }
  [[nodiscard]] std::vector<std::string> weakened() const override {
    return {"files have no limit of their number but memory",
            "the disk limit is of /workspace, /home/user, /tmp and /dev/shm each, all within the "
            "memory limit",
            "memory that gVisor does not need itself is the program's beyond its limit",
            "processes are refused at their limit without a word in the result",
            "a program can end its runner, and with it its run or session, which then says so"};
  }
  [[nodiscard]] Nesting nesting() const override {
    return config_.guest.empty() ? Nesting::kNone : Nesting::kPrepared;
  }
  [[nodiscard]] std::vector<std::string> weakenedWithin() const override {
    std::vector<std::string> all = Guest::weakenedWithin();
    all.emplace_back(
        "the memory of a sandbox within is its processes', looked at every 50 ms; what "
        "is in its files, pipes and shared memory counts in the outer limit alone");
    all.emplace_back("processes of a sandbox within count in the outer limit alone");
    return all;
  }
  [[nodiscard]] model::Finding finding() const override {
    return {"runtime", name(), State::kOk, version_ + ", systrap", ""};
  }

  [[nodiscard]] std::string noNetwork() const override { return {}; }
  [[nodiscard]] bool linked() const override { return true; }

  [[nodiscard]] bool showsAhead() const override { return true; }
  [[nodiscard]] bool showsShare() const override { return true; }

  void adjust(const model::Limits& limits, SandboxSpec& spec,
              linux::CgroupLimits& cgroup) const override {
    cgroup.memory_bytes += config_.overhead_bytes;
    cgroup.pids = kOwnThreads + kThreadsEach * cgroup.pids;
    // The guest kernel limits processes by RLIMIT_NPROC, which includes the runner's process.
    if (spec.limit_count < SandboxSpec::kMaxLimits) {
      spec.limits[spec.limit_count++] = {RLIMIT_NPROC, uint64_t{limits.pids} + 1};
    }
  }

  [[nodiscard]] Result<std::vector<Fd>> files(const SandboxSpec& spec,
                                              const std::string& /*walls*/) const override {
    std::vector<Fd> fds;
    fds.push_back(TRY(linux::sealedData(base::toJson(gvisor::makeBundle(spec)))));
    for (Fd& program : TRY(duplicates({program_.get(), guest_.get()})))
      fds.push_back(std::move(program));
    return fds;
  }

  [[nodiscard]] uint32_t fileCount() const override { return kGvisorFds - 1; }

  [[nodiscard]] std::string keepsNoMemory(bool one_user) const override {
    return one_user ? "runsc restores none for an ordinary user; run the node as root" : "";
  }
  [[nodiscard]] std::vector<std::string> imageFiles() const override {
    return {std::begin(gvisor::kImageFiles), std::end(gvisor::kImageFiles)};
  }
  [[nodiscard]] SpawnRequest::What saver() const override {
    return SpawnRequest::What::kGvisorSave;
  }
  [[nodiscard]] Result<std::vector<Fd>> filesToSave(int sandbox) const override {
    return duplicates({sandbox, program_.get()});
  }
  [[nodiscard]] Result<std::vector<Fd>> filesFrom(const SandboxSpec& spec, const std::string& walls,
                                                  const MemoryImage& image) const override {
    std::vector<Fd> fds = TRY(files(spec, walls));
    for (const Fd& file : image.files)
      fds.push_back(TRY(linux::openAnew(file)));
    return fds;
  }
  [[nodiscard]] std::string kernelVersion() const override { return version_; }
  [[nodiscard]] std::string shapeOf(const SandboxSpec& spec) const override {
    return base::toJson(gvisor::makeBundle(spec));
  }

  void describe(const SandboxSpec& spec, base::json::object& plan) const override {
    base::json::array argv;
    for (const std::string& argument : gvisor::command(spec, false))
      argv.emplace_back(argument);
    plan["gvisor"] = {{"version", version_},
                      {"platform", "systrap"},
                      {"command", std::move(argv)},
                      {"processors", spec.shown_cpus},
                      {"memory_bytes", spec.shown_memory},
                      {"bundle", gvisor::makeBundle(spec)}};
  }

 private:
  const GvisorConfig config_;
  const std::string version_;
  const Fd program_;
  const Fd guest_;  // cloister-guest, or a placeholder if absent
};

// "runsc version release-20240729.0\nspec: 1.1.0\n" → "runsc release-20240729.0"; "" for other
// text.
std::string versionIn(std::string_view text) {
  constexpr std::string_view kBefore = "runsc version ";
  if (!text.starts_with(kBefore)) return {};
  const std::string_view rest = text.substr(kBefore.size());
  const std::string version(rest.substr(0, rest.find('\n')));
  for (const char c : version) {
    if (c <= ' ' || c > '~') return {};
  }
  return version.empty() ? std::string() : "runsc " + version;
}

GuestFound lacks(std::string detail, std::string remedy) {
  return {nullptr, {"runtime", "gvisor", State::kMissing, std::move(detail), std::move(remedy)}};
}

}  // namespace

GuestFound findGvisor(const GvisorConfig& config) {
  if (config.runsc.empty()) return lacks("turned off", "set gvisor.runsc in the configuration");
  Fd program(::open(config.runsc.c_str(), O_RDONLY | O_CLOEXEC));
  if (!program) {
    return lacks(base::errnoError("opening " + config.runsc, errno).message,
                 "install runsc (Debian: from backports), or set gvisor.runsc, and start anew");
  }
  std::string version = versionIn(askVersion(program.get(), "runsc"));
  if (version.empty()) {
    return lacks(config.runsc + " --version says nothing that is gVisor's",
                 "install runsc anew, or set gvisor.runsc to where it is");
  }
  const std::string inside = config.guest.empty() ? "/dev/null" : config.guest;
  Fd within(::open(inside.c_str(), O_RDONLY | O_CLOEXEC));
  if (!within) {
    return lacks(base::errnoError("opening " + inside, errno).message, "install Cloister anew");
  }
  auto guest = std::make_shared<const Gvisor>(config, std::move(version), std::move(program),
                                              std::move(within));
  return {guest, guest->finding()};
}

}  // namespace cloister::runtime
