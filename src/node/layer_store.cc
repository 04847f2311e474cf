// SPDX-License-Identifier: Apache-2.0
#include "node/layer_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/awaiting.h"
#include "base/log.h"
#include "linux/process.h"
#include "linux/tree_digest.h"
#include "model/escalation.h"
#include "model/image_name.h"

namespace cloister::node {
namespace {

namespace asio = boost::asio;
using runtime::Task;

constexpr auto kQuiet = asio::as_tuple(asio::use_awaitable);
constexpr size_t kMostSaid = size_t{64} << 10;
constexpr size_t kMostShown = 512;
constexpr int kLayerFd = 3;

// The process of cloister-image, which reads the layer's files as descriptor 3.
[[noreturn]] void becomeImporter(const LayerStoreConfig& config, const std::string& name,
                                 int directory, int output) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd program(::open(config.importer.c_str(), O_RDONLY | O_CLOEXEC));
  const Fd from(::fcntl(directory, F_DUPFD_CLOEXEC, kLayerFd + 1));
  const Fd to(::fcntl(output, F_DUPFD_CLOEXEC, kLayerFd + 1));
  const Fd executed(::fcntl(program.get(), F_DUPFD_CLOEXEC, kLayerFd + 1));
  if (!null || !from || !to || !executed || !linux::dieWithParent() ||
      !linux::moveFd(null.get(), STDIN_FILENO) || !linux::moveFd(to.get(), STDOUT_FILENO) ||
      !linux::moveFd(to.get(), STDERR_FILENO) || !linux::moveFd(from.get(), kLayerFd)) {
    ::_exit(1);
  }
  const Error error = linux::executeFd(
      executed.get(),
      {"cloister-image", "import", "--json", "--replace", "--no-squashfs", "--images",
       config.directory, name, "/proc/self/fd/" + std::to_string(kLayerFd)},
      {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"});
  std::ignore = ::write(STDERR_FILENO, error.message.data(), error.message.size());
  ::_exit(1);
}

// A child that says something and ends. It is killed with this object.
class Child {
 public:
  static Result<Child> start(const std::function<void(int output)>& body) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
    Fd ours(ends[0]);
    const Fd theirs(ends[1]);
    linux::Cloned cloned = TRY(linux::cloneProcess(0));
    if (cloned.pid == 0) {
      body(theirs.get());
      ::_exit(1);
    }
    return Child(std::move(ours), std::move(cloned.pidfd));
  }
  Child(Child&&) noexcept = default;
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (!pidfd_) return;
    std::ignore = linux::signalPidfd(pidfd_.get(), SIGKILL);
    std::ignore = linux::reapPidfd(pidfd_.get());
  }

  // Until its end of file.
  Task<std::string> said(const asio::any_io_executor& executor, Millis patience) {
    asio::posix::stream_descriptor pipe(executor, output_.release());
    asio::steady_timer late(executor, patience);
    late.async_wait([pidfd = pidfd_.get()](const boost::system::error_code& error) {
      if (!error) std::ignore = linux::signalPidfd(pidfd, SIGKILL);
    });
    std::string text;
    std::array<char, 4096> piece;
    for (;;) {
      const auto [error, count] = co_await pipe.async_read_some(asio::buffer(piece), kQuiet);
      if (error) break;
      if (text.size() < kMostSaid) text.append(piece.data(), count);
    }
    late.cancel();
    co_return text;
  }

  // After its end of file. Whether it succeeded.
  bool succeeded() {
    siginfo_t info{};
    const int waited = ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED);
    pidfd_.reset();
    return waited == 0 && info.si_code == CLD_EXITED && info.si_status == 0;
  }

 private:
  Child(Fd output, Fd pidfd) : output_(std::move(output)), pidfd_(std::move(pidfd)) {}
  Fd output_;
  Fd pidfd_;
};

std::unexpected<Error> changed(const std::string& digest) {
  return fail(Code::kConflict, "the dependency layer " + digest +
                                   " was changed on the node's disk, so it is not used; remove it "
                                   "(cloister deps prune), and send the request again");
}

// The stamps for the next comparison, if the tree has the digest. Files whose inode, size and times
// are as they were `before` are not read again.
Result<std::string> compared(const std::string& path, const std::string& digest,
                             const std::string& before) {
  const Fd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root) return failErrno("opening the dependency layer " + digest);
  linux::TreeDigest tree(linux::TreeDigest::Of::kEverything, before);
  const auto read = tree.addAll(root.get());
  if (!read || tree.digest() != digest) return changed(digest);
  return tree.cache();
}

// Removes layers that no sandbox has, as long as all together have `max_bytes`.
Result<> makeRoom(images::Store& store, uint64_t max_bytes) {
  struct Present {
    std::string name;
    uint64_t bytes;
    timespec used;
  };
  uint64_t total = 0;
  std::vector<Present> all;
  for (const images::Found& each : TRY(store.list()).images) {
    struct stat status{};
    const std::string tree = store.treePath(each.image.digest);
    if (::stat(tree.c_str(), &status) != 0) continue;
    total += each.image.size_bytes;
    all.push_back({each.image.name, each.image.size_bytes, status.st_mtim});
  }
  std::ranges::sort(all, [](const Present& a, const Present& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Present& each : all) {
    if (total < max_bytes) return {};
    if (store.remove(each.name)) total -= each.bytes;  // else a sandbox has it
  }
  if (total < max_bytes) return {};
  return fail(Code::kQuota,
              "running sandboxes use all the space for dependency layers "
              "(node.layers_mb); wait for them, or have it raised");
}

}  // namespace

LayerStore::LayerStore(asio::any_io_executor executor, LayerStoreConfig config)
    : executor_(std::move(executor)),
      config_(std::move(config)),
      store_(config_.directory),
      changed_(executor_) {}

template <class T>
Task<T> LayerStore::aside(std::function<T()> work) {
  while (wants_quiet_ > 0)
    co_await changed_.wait();
  ++working_;
  if (!thread_) thread_.emplace(1);
  T made = co_await async::inBackground<T>(*thread_, std::move(work));
  --working_;
  changed_.notify();
  co_return made;
}

Task<void> LayerStore::quiet() {
  ++wants_quiet_;
  while (working_ > 0)
    co_await changed_.wait();
  --wants_quiet_;
  changed_.notify();
}

Task<Result<>> LayerStore::look(std::string digest) {
  if (const auto under_way = known_[digest].under_way) {
    while (!under_way->result)
      co_await under_way->ended.wait();
    co_return *under_way->result;
  }
  Known& known = known_[digest];
  const bool lately = base::monotonicNow() - known.looked < config_.looks_every;
  if (!known.stamps.empty() && lately) co_return Result<>{};
  const auto look = known.under_way = std::make_shared<Look>(executor_);
  auto stamps = co_await aside<Result<std::string>>(
      [root = store_.treePath(digest) + "/root", digest, before = known.stamps] {
        return compared(root, digest, before);
      });
  look->result = stamps ? Result<>{} : std::unexpected(stamps.error());
  if (stamps) {
    known_[digest] = {*std::move(stamps), base::monotonicNow(), nullptr};
  } else {
    known_.erase(digest);
  }
  look->ended.notify();
  co_return *look->result;
}

Task<Result<Fd>> LayerStore::open(std::string digest) {
  if (!model::isImageDigest(digest))
    co_return fail(Code::kInvalid, "a layer's digest is malformed");
  model::Image image;
  image.name = digest;
  image.digest = digest;
  auto hold = store_.hold(image);
  if (!hold) {
    co_return fail(
        Code::kNotFound,
        "the dependency layer " + digest + " is not on this node any more; send the request again",
        "layers");
  }
  CO_TRY(co_await look(digest));
  // The order of use, for makeRoom().
  std::ignore = ::futimens(hold->get(), nullptr);
  co_return std::move(*hold);
}

Task<Result<base::json::object>> LayerStore::add(std::string name, Fd directory) {
  CO_TRY(co_await aside<Result<>>(
      [store = store_, most = config_.max_bytes]() mutable { return makeRoom(store, most); }));
  co_await quiet();
  Child child = CO_TRY(
      Child::start([&](int output) { becomeImporter(config_, name, directory.get(), output); }));
  const std::string said = co_await child.said(executor_, config_.patience);
  if (!child.succeeded()) {
    co_return fail(Code::kInternal, "cloister-image: " + model::safeText(said, kMostShown));
  }
  const auto value = base::parseJson(said, {.max_bytes = kMostSaid});
  const auto* image = value ? value->if_object() : nullptr;
  if (image == nullptr) co_return fail(Code::kInternal, "cloister-image says nothing of the layer");
  base::json::object made;
  for (const char* member : {"digest", "size_bytes", "files"}) {
    const auto* found = image->if_contains(member);
    if (found == nullptr)
      co_return fail(Code::kInternal, "cloister-image names no " + std::string(member));
    made[member] = *found;
  }
  base::log(base::Level::kInfo, "dependency layer made",
            {{"layer", name}, {"digest", std::string(made["digest"].as_string())}});
  co_return made;
}

}  // namespace cloister::node
