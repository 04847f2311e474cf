// SPDX-License-Identifier: Apache-2.0
// Tests the making, keeping and describing of a template, and that a hostile VMM changes no part of
// a template.
#include "sandbox/pool/template.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "confine/microvm/command.h"
#include "linux/message.h"
#include "sandbox/host/host.h"
#include "sandbox/pool/pool.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kBytes = 16'384;

std::string contentOf(const Fd& file) {
  std::string content(kBytes + 1, '\0');
  const ssize_t n = ::pread(file.get(), content.data(), content.size(), 0);
  content.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return content;
}

std::shared_ptr<Template> openOne() {
  auto made = Template::make(kBytes);
  EXPECT_TRUE(made);
  EXPECT_EQ(::pwrite((*made)->memory().get(), "memory", 6, 0), 6);
  EXPECT_EQ(::pwrite((*made)->state().get(), "state", 5, 0), 5);
  return *made;
}

std::shared_ptr<Template> sealedOne() {
  auto made = openOne();
  EXPECT_TRUE(made->seal());
  return made;
}

TEST(Template, IsNotSealedWhileSomebodyCanWriteToIt) {
  const auto made = *Template::make(kBytes);
  void* const mapped =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, made->memory().get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_FALSE(made->seal());
  ASSERT_EQ(::munmap(mapped, kBytes), 0);
  EXPECT_TRUE(made->seal());
}

class TemplatesTest : public testing::Test {
 protected:
  static Templates::Shape shape(uint32_t cpus, const Guest* guest = nullptr) {
    Templates::Shape shape{guest, root(), {}};
    shape.spec.guest_cpus = cpus;
    return shape;
  }
  // Only the root's identity matters.
  static const std::shared_ptr<const Spawner>& root() {
    static const auto kept = std::make_shared<int>();
    static const std::shared_ptr<const Spawner> alias(kept, nullptr);
    return alias;
  }

  Templates templates_{2};
};

TEST_F(TemplatesTest, TheLeastRecentlyUsedMakesRoom) {
  for (uint32_t cpus : {1U, 2U})
    templates_.keep(shape(cpus), sealedOne());
  EXPECT_NE(templates_.find(shape(1)), nullptr);
  templates_.keep(shape(3), sealedOne());
  EXPECT_EQ(templates_.count(), 2U);
  EXPECT_NE(templates_.find(shape(1)), nullptr);
  EXPECT_EQ(templates_.find(shape(2)), nullptr);
  EXPECT_NE(templates_.find(shape(3)), nullptr);
}

TEST_F(TemplatesTest, OneOfAShapeIsKept) {
  const auto later = sealedOne();
  templates_.keep(shape(1), sealedOne());
  templates_.keep(shape(1), later);
  EXPECT_EQ(templates_.count(), 1U);
  EXPECT_EQ(templates_.find(shape(1)), later);
}

TEST_F(TemplatesTest, ThoseOfAnotherRootFitNothingAndGoWithIt) {
  auto other = shape(1);
  auto its = std::make_shared<int>();
  other.root = std::shared_ptr<const Spawner>(its, nullptr);
  templates_.keep(other, sealedOne());
  EXPECT_EQ(templates_.find(shape(1)), nullptr);
  EXPECT_NE(templates_.find(other), nullptr);
  its.reset();
  templates_.keep(shape(2), sealedOne());
  EXPECT_EQ(templates_.count(), 1U);
}

// In a VMM's place, with its confinement and a template's files: the descriptors of command.h.
constexpr char kTries[] = R"(
import ctypes, fcntl, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
refused = 0
def tries(name, what):
    global refused
    try: what(); print(name, 'CHANGED', end='; ')
    except OSError: refused += 1
def check(result):
    if result in (-1, None, ctypes.c_void_p(-1).value): raise OSError(ctypes.get_errno(), 'x')
    return result
def shared(fd, prot, then=lambda at: 0):
    at = check(libc.mmap(None, 4096, prot, 1, fd, 0))
    check(then(at)); ctypes.memset(at, 0x58, 64)
def private(fd):
    at = check(libc.mmap(None, 4096, 3, 2, fd, 0)); ctypes.memset(at, 0x58, 64)
    return at
for name, number in (('memory', 8), ('state', 10)):
    fds = [(name + ' given', number)]
    try: fds.append((name + ' anew', os.open(f'/proc/self/fd/{number}', os.O_RDWR)))
    except OSError: print(name, 'cannot be opened', end='; ')
    for name, fd in fds:
        tries(name + ' write', lambda: os.pwrite(fd, b'X', 0))
        tries(name + ' shrink', lambda: os.ftruncate(fd, 0))
        tries(name + ' grow', lambda: os.ftruncate(fd, 1 << 20))
        tries(name + ' map', lambda: shared(fd, 3))
        tries(name + ' protect', lambda: shared(fd, 1, lambda at: libc.mprotect(at, 4096, 3)))
        tries(name + ' punch', lambda: check(libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(4096))))
        tries(name + ' zero', lambda: check(libc.fallocate(fd, 16, ctypes.c_long(0), ctypes.c_long(4096))))
        tries(name + ' remove', lambda: check(libc.madvise(private(fd), 4096, 9)))
        tries(name + ' unseal', lambda: fcntl.fcntl(fd, 1033, 0))
    try: private(fd); print(name, 'private', end='; ')
    except OSError: print(name, 'no map', end='; ')
    tries(name + ' truncate', lambda: os.close(os.open(f'/proc/self/fd/{number}', os.O_RDWR | os.O_TRUNC)))
print(refused, 'refused', flush=True)
)";

class Impostor final : public Guest {
 public:
  explicit Impostor(std::string program) : program_(std::move(program)) {}
  [[nodiscard]] std::string name() const override { return "microvm"; }
  [[nodiscard]] SpawnRequest::What what() const override { return SpawnRequest::What::kMicrovm; }
  [[nodiscard]] std::vector<std::string> weakened() const override { return {}; }
  [[nodiscard]] model::Finding finding() const override { return {}; }
  [[nodiscard]] uint32_t ready() const override { return 0; }
  [[nodiscard]] std::string noNetwork() const override { return "none in tests"; }
  void adjust(const model::Limits& /*limits*/, SandboxSpec& /*spec*/,
              linux::CgroupLimits& /*cgroup*/) const override {}
  [[nodiscard]] std::shared_ptr<Templates> templates() const override { return templates_; }
  [[nodiscard]] Result<std::vector<Fd>> files(const SandboxSpec& /*spec*/,
                                              const std::string& /*walls*/) const override {
    std::vector<Fd> fds;
    fds.push_back(TRY(linux::sealedData(
        microvm::encodeCommand({"/usr/bin/python3", "-I", "-S", "-c", program_}))));
    for (uint32_t i = 0; i < microvm::kOpened; ++i)
      fds.push_back(TRY(linux::sealedData("")));
    return fds;
  }
  [[nodiscard]] Result<Ordered> filesWith(const SandboxSpec& spec,
                                          const Template& from) const override {
    auto [ours, theirs] = TRY(linux::socketPair(SOCK_STREAM));
    Ordered ordered{TRY(files(spec, "")), std::move(ours)};
    ordered.files.emplace_back(::dup(from.memory().get()));
    ordered.files.push_back(std::move(theirs));
    ordered.files.push_back(TRY(linux::openAnew(from.state())));
    return ordered;
  }
  [[nodiscard]] uint32_t fileCount() const override { return 1 + microvm::kOpened; }
  void describe(const SandboxSpec& /*spec*/, base::json::object& /*plan*/) const override {}

 private:
  const std::string program_;
  const std::shared_ptr<Templates> templates_ = std::make_shared<Templates>(2);
};

class HostileVmm : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::access("/usr/bin/python3", X_OK), 0) << "install python3"; }

  // Whether `program`, run instead of the VMM, is accepted as a machine.
  bool begins(const std::string& program, const std::shared_ptr<Template>& kept) {
    const auto guest = std::make_shared<const Impostor>(program);
    ProcessConfig config = testbed::config();
    config.cgroup_parent = "cloister-test-template";
    config.guests = {guest};
    const auto host = startProcessHost(config);
    EXPECT_TRUE(host) << host.error().message;
    if (!host) return false;
    boost::asio::io_context io(1);
    const auto spawner =
        std::make_shared<PresentQueue>(io.get_executor(), (*host)->root(), config.spawn_patience);
    const auto pool = std::make_shared<Pool>(io.get_executor(), *host, spawner, guest);
    model::Limits limits;
    model::settle(limits);
    SandboxSpec spec = (*host)->planFor(limits, 0, guest.get()).spec;
    spec.ids = {};
    guest->templates()->keep({guest.get(), (*host)->root()->spawner(), spec}, kept);
    testing::internal::CaptureStderr();
    const auto made = async::runTask(io, pool->claim(limits, {}));
    said_ = testing::internal::GetCapturedStderr();
    if (made) {
      EXPECT_TRUE((*made)->resumed());
      EXPECT_TRUE(async::runTask(io, (*made)->bury()));
    } else {
      EXPECT_THAT(said_, HasSubstr("nothing begun from a template"));
      EXPECT_EQ(guest->templates()->count(), 0U);
    }
    return made.has_value();
  }

  std::string said_;
};

TEST_F(HostileVmm, ChangesNothingOfATemplate) {
  const auto kept = sealedOne();
  const std::string memory = contentOf(kept->memory());
  const std::string state = contentOf(kept->state());
  EXPECT_FALSE(begins(kTries, kept));
  EXPECT_THAT(said_, HasSubstr("memory anew private"));
  EXPECT_THAT(said_, HasSubstr("state anew private"));
  EXPECT_THAT(said_, HasSubstr("38 refused"));
  EXPECT_THAT(said_, Not(HasSubstr("CHANGED")));
  EXPECT_EQ(contentOf(kept->memory()), memory);
  EXPECT_EQ(contentOf(kept->state()), state);
}

// So the seals are what protects a template.
TEST_F(HostileVmm, WouldChangeOneThatIsNotSealed) {
  EXPECT_FALSE(begins(kTries, openOne()));
  for (const char* way : {"write", "shrink", "grow", "map", "protect", "punch"})
    EXPECT_THAT(said_, HasSubstr(std::string("memory anew ") + way + " CHANGED"));
}

// A double that waits for the order on the runner's socket, and answers. A booting machine gets no
// order.
std::string answering(const std::string& frame) {
  return "import os, select, struct, time\n"
         "if not select.select([3], [], [], 2)[0]: os._exit(1)\n"
         "header = struct.pack('<IBBHI', 76, 1, 0, 33, 0)\n"
         "order = os.read(3, 100)\n"
         "assert order[:12] == header and len(order) == 88, order\n"
         "now, nanoseconds = struct.unpack('<qI', order[76:])\n"
         "assert abs(now - time.time()) < 60 and nanoseconds < 10**9\n"
         "assert len(set(order[12:76])) > 32\n"
         "os.write(3, " +
         frame +
         ")\n"
         "time.sleep(60)\n";
}

TEST_F(HostileVmm, IsNoMachineUntilItHasSaidThatItIsAwake) {
  EXPECT_TRUE(begins(answering("struct.pack('<IBBHI', 0, 1, 0, 97, 0)"), sealedOne())) << said_;
  for (const char* frame : {"struct.pack('<IBBHII', 4, 1, 0, 65, 0, 1)",        // a runner's hello
                            "struct.pack('<IBBHI', 0, 1, 0, 97, 1)",            // of a channel
                            "struct.pack('<IBBHI', 1, 1, 0, 97, 0) + b'x'"}) {  // with more
    EXPECT_FALSE(begins(answering(frame), sealedOne()));
    EXPECT_THAT(said_, HasSubstr("it did not wake: it said something else")) << frame;
  }
  EXPECT_FALSE(begins(answering("struct.pack('<IBBHI', 10, 1, 0, 67, 0) + "
                                "struct.pack('<II', 0, 2) + b'no'"),
                      sealedOne()));
  EXPECT_THAT(said_, HasSubstr("starting the sandbox: no"));  // the driver's message
  EXPECT_FALSE(begins("pass", sealedOne()));
  EXPECT_THAT(said_, HasSubstr("it did not wake"));
}

}  // namespace
}  // namespace cloister::runtime
