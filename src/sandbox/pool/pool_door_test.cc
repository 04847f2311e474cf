// SPDX-License-Identifier: Apache-2.0
// Doors of real sandboxes, of the spawner's and of a zygote's.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/network.h"
#include "linux/nflog.h"
#include "sandbox/box/run.h"
#include "sandbox/pool/pool_fixture.h"

namespace cloister::runtime {
namespace {

// Prints what each attempt comes to.
constexpr char kAttempts[] = R"(
import os, socket
def tcp(address, port, family=socket.AF_INET):
    made = socket.socket(family)
    made.settimeout(10)
    print('tcp', address, port, made.connect_ex((address, port)), flush=True)
    return made
def udp(address, port, family=socket.AF_INET):
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.settimeout(10)
    made.connect((address, port))
    try:
        made.send(b'?')
        print('udp', address, port, made.recv(9), flush=True)
    except OSError as e:
        print('udp', address, port, e.errno, flush=True)
def may(what, do):
    try:
        do()
        print(what, 'yes', flush=True)
    except OSError as e:
        print(what, e.errno, flush=True)
kept = tcp('198.18.0.77', 443)
kept.send(b'hello')
tcp('198.18.0.77', 444)
tcp('203.0.113.5', 443)
tcp('2001:db8::5', 443, socket.AF_INET6)
udp('203.0.113.5', 443)
own = socket.socket()
own.bind(('127.0.0.1', 0))
own.listen()
socket.create_connection(own.getsockname(), 10)
print('own server', flush=True)
may('transparent', lambda: socket.socket().setsockopt(0, 19, 1))
may('freebind', lambda: socket.socket().setsockopt(0, 15, 1))
may('netlink', lambda: socket.socket(16, socket.SOCK_RAW, 0))
may('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
may('ping', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))
may('sctp', lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132))
may('low port', lambda: socket.socket().bind(('0.0.0.0', 54)))
print(open('/etc/resolv.conf').read(), end='', flush=True)
)";

constexpr char kOutcomes[] =
    "tcp 198.18.0.77 443 0\ntcp 198.18.0.77 444 111\ntcp 203.0.113.5 443 111\n"
    "tcp 2001:db8::5 443 111\nudp 203.0.113.5 443 111\nown server\n"
    "transparent 1\nfreebind 1\nnetlink 1\nraw 1\nping 1\nsctp 1\nlow port 13\n"
    "nameserver 127.0.0.1\noptions timeout:1 attempts:5\n";

class DoorTest : public PoolTest {
 protected:
  void SetUp() override {
    PoolTest::SetUp();
    if (IsSkipped()) return;
    constexpr uint16_t kPorts[] = {443};
    order_ = doorOrder("198.18.0.0/15", kPorts).value_or(DoorOrder());
  }

  Result<DoorSockets> opened(const std::shared_ptr<Live>& live) {
    return async::runTask(io_, pool_->openDoor(live, order_));
  }

  std::string output(const std::shared_ptr<Live>& live, const model::ExecSpec& spec) {
    testbed::Recorder seen;
    const auto run = std::make_shared<runtime::Run>(live, spec, seen, [] {});
    const auto outcome = async::runTask(io_, run->go());
    EXPECT_TRUE(outcome) << outcome.error().message;
    return seen.out + seen.err;
  }

  // The one connection at the listener: its destination, and its bytes.
  static void expectHello(const DoorSockets& door) {
    const Fd peer(::accept4(door.listeners.front().get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(peer);
    sockaddr_in at{};
    socklen_t size = sizeof at;
    ASSERT_EQ(::getsockname(peer.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    EXPECT_EQ(ntohl(at.sin_addr.s_addr), 0xC612004DU);
    EXPECT_EQ(ntohs(at.sin_port), 443);
    char text[16];
    EXPECT_EQ(std::string(text, static_cast<size_t>(::recv(peer.get(), text, sizeof text, 0))),
              "hello");
    EXPECT_LT(::accept(door.listeners.front().get(), nullptr, nullptr), 0) << "only that one";
  }

  static std::set<std::string> logged(const DoorSockets& door) {
    std::set<std::string> all;
    while (const auto read = linux::readLog(door.log.get())) {
      for (const linux::LoggedPacket& each : read->packets) {
        all.insert(std::string(linux::transportName(each.transport)) + " " +
                   each.destination.text() + " " + std::to_string(each.port));
      }
    }
    return all;
  }

  void expectAttempts(const std::shared_ptr<Live>& live, const model::ExecSpec& spec) {
    const auto door = opened(live);
    ASSERT_TRUE(door) << door.error().message;
    if (!door->transparent || !door->log) GTEST_SKIP() << "no doors with tproxy here";
    EXPECT_TRUE(door->weakened.empty());
    EXPECT_EQ(output(live, spec), kOutcomes);
    expectHello(*door);
    EXPECT_THAT(logged(*door),
                testing::UnorderedElementsAre("tcp 198.18.0.77 444", "tcp 203.0.113.5 443",
                                              "tcp 2001:db8::5 443", "udp 203.0.113.5 443"));
  }

  static std::string hostNetwork() {
    std::string all;
    for (const char* file : {"dev", "route", "ipv6_route", "if_inet6"}) {
      const std::string text = base::readFile(std::string("/proc/self/net/") + file).value_or("");
      all += std::string(file) == "dev" ? std::to_string(std::ranges::count(text, '\n')) : text;
    }
    return all;
  }

  DoorOrder order_;
};

TEST_F(DoorTest, EachAttemptIsHeardOrRefusedAtOnce) {
  const std::string before = hostNetwork();
  const auto live = claim(limits_);
  ASSERT_TRUE(live);
  expectAttempts(live, testbed::command({"python3", "-c", kAttempts}));
  EXPECT_EQ(hostNetwork(), before);
  bury(live);
}

TEST_F(DoorTest, AReadySandboxHasOneAtItsClaim) {
  makeOneReady();
  const auto live = claim(limits_);
  ASSERT_TRUE(live);
  EXPECT_EQ(served(model::Served::kReady), 1U);
  expectAttempts(live, testbed::command({"python3", "-c", kAttempts}));
  bury(live);
}

TEST_F(DoorTest, ASandboxHasOneAtMost) {
  const auto live = claim(limits_);
  ASSERT_TRUE(live);
  EXPECT_TRUE(opened(live));
  const auto again = opened(live);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, testing::HasSubstr("opening a door: "));
  bury(live);
}

TEST_F(DoorTest, ASandboxThatIsGoneHasNone) {
  const auto live = claim(limits_);
  ASSERT_TRUE(live);
  bury(live);
  EXPECT_FALSE(opened(live));
}

TEST_F(DoorTest, UnsoundOrdersAreRefused) {
  const auto live = claim(limits_);
  ASSERT_TRUE(live);
  order_.pool_bits = 0;
  EXPECT_FALSE(opened(live));
  bury(live);
}

// What a program of the tier none sees of the network: nothing, at once.
constexpr char kNothing[] = R"(
import fcntl, os, socket, struct
def tcp(address, port, family=socket.AF_INET):
    made = socket.socket(family)
    made.settimeout(10)
    print('tcp', address, port, made.connect_ex((address, port)), flush=True)
def udp(address, port):
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(10)
    try:
        made.connect((address, port))
        made.send(b'?')
        print('udp', address, port, made.recv(9), flush=True)
    except OSError as e:
        print('udp', address, port, e.errno, flush=True)
for address in ('198.18.0.1', '198.18.0.2', '198.18.0.77', '203.0.113.5'):
    tcp(address, 1)
tcp('2001:db8::5', 443, socket.AF_INET6)
udp('127.0.0.1', 53)
udp('198.18.0.77', 53)
own = socket.socket()
own.bind(('127.0.0.1', 0))
own.listen()
socket.create_connection(own.getsockname(), 10)
own.close()
asked = struct.pack('iP', 0, 0)
print('addresses', struct.unpack('iP', fcntl.ioctl(socket.socket(), 0x8912, asked))[0] // 40)
for table in ('tcp', 'udp'):
    rows = open('/proc/net/' + table).read().splitlines()[1:]
    print(table, 'listening', sum(row.split()[3] in ('0A', '07') for row in rows), flush=True)
)";

constexpr char kNothingSeen[] =
    "tcp 198.18.0.1 1 101\ntcp 198.18.0.2 1 101\ntcp 198.18.0.77 1 101\n"
    "tcp 203.0.113.5 1 101\ntcp 2001:db8::5 443 101\nudp 127.0.0.1 53 111\n"
    "udp 198.18.0.77 53 101\naddresses 1\ntcp listening 0\nudp listening 0\n";

// Claims with a network, whose doors are opened ahead.
class DoorAheadTest : public DoorTest {
 protected:
  std::shared_ptr<Live> claimWithDoor() {
    auto live = async::runTask(io_, pool_->claim(limits_, {.door = order_}));
    EXPECT_TRUE(live) << live.error().message;
    return live ? *live : nullptr;
  }
  // As makeOneReady().
  void makeOneReadyWithDoor() {
    bury(claimWithDoor());
    bury(claimWithDoor());
    pool_->refill();
    ASSERT_TRUE(until([&] { return !pool_->refilling(); }));
    ASSERT_EQ(pool_->ready(), 1U);
  }
  static size_t openFiles() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
};

TEST_F(DoorAheadTest, AReadySandboxHasADoorBeforeItsClaim) {
  makeOneReadyWithDoor();
  const auto live = claimWithDoor();
  ASSERT_TRUE(live);
  EXPECT_EQ(served(model::Served::kReady), 1U);
  EXPECT_TRUE(live->hasDoor());
  expectAttempts(live, testbed::command({"python3", "-c", kAttempts}));
  EXPECT_FALSE(live->hasDoor()) << "taken";
  bury(live);
}

TEST_F(DoorAheadTest, AClaimWithoutANetworkNeverTakesOne) {
  makeOneReadyWithDoor();
  const auto live = claim(limits_);
  ASSERT_TRUE(live);
  EXPECT_EQ(served(model::Served::kReady), 0U);
  EXPECT_FALSE(live->hasDoor());
  EXPECT_EQ(pool_->ready(), 1U);
  EXPECT_EQ(output(live, testbed::command({"python3", "-c", kNothing})), kNothingSeen);
  bury(live);
}

TEST_F(DoorAheadTest, AClaimWithANetworkTakesOneWithoutADoorToo) {
  makeOneReady();
  const auto live = claimWithDoor();
  ASSERT_TRUE(live);
  EXPECT_EQ(served(model::Served::kReady), 1U);
  EXPECT_FALSE(live->hasDoor());
  expectAttempts(live, testbed::command({"python3", "-c", kAttempts}));
  bury(live);
  bury(claimWithDoor());
  pool_->refill();
  ASSERT_TRUE(until([&] { return !pool_->refilling(); }));
  const auto next = claimWithDoor();
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->hasDoor()) << "the pool learned that claims need doors";
  bury(next);
}

TEST_F(DoorAheadTest, AReadyDoorGoesWithItsSandbox) {
  makeOneReadyWithDoor();
  const size_t before = openFiles();
  pool_->drop();
  ASSERT_TRUE(until([&] { return testbed::slotsInUse(*host_) == 0; }));
  EXPECT_LE(openFiles() + 3, before) << "a listener, the resolver and the log, at least";
}

// The sockets keep the network namespace, and nothing else of the sandbox.
TEST_F(DoorTest, ADoorThatIsHeldKeepsNoSandbox) {
  const auto live = claim(limits_);
  ASSERT_TRUE(live);
  const auto door = opened(live);
  ASSERT_TRUE(door);
  bury(live);
  EXPECT_EQ(testbed::slotsInUse(*host_), 0U) << "sockets hold no more than the network";
}

class CopiedDoorTest : public DoorTest {
 protected:
  void SetUp() override {
    DoorTest::SetUp();
    ProcessConfig config = testbed::config();
    config.ready = 2;
    config.max_sandboxes = 4;
    config.zygote_copies = 2;
    config.interpreters = {{kPython.argv,
                            {"json"},
                            base::programDir() + "/cloister-zygote-python.so",
                            base::shareDir() + "/languages/zygote/python.py"}};
    auto host = ProcessHost::start(config);
    if (!host) GTEST_SKIP() << host.error().message;
    start(*std::move(host));
  }

  std::shared_ptr<Live> claimCopy() {
    pool_->learn(limits_, {.key = "key"}, kPython);
    for (int i = 0; i < 500; ++i) {
      const auto live = claim(limits_, "key");
      if (!live || live->ahead() == Live::Ahead::kCopied) return live;
      bury(live);
    }
    return nullptr;
  }

  const Prestart kPython{"main.py", {"python3", "main.py"}, {"PATH=/usr/bin"}};
};

// Its network belongs to the zygote's user namespace.
TEST_F(CopiedDoorTest, ACopyOfAZygoteHasOne) {
  const auto live = claimCopy();
  ASSERT_TRUE(live);
  model::ExecSpec spec = testbed::command(kPython.argv);
  spec.env = kPython.env;
  spec.files.push_back({.path = "main.py", .content = kAttempts});
  expectAttempts(live, spec);
  bury(live);
}

TEST_F(DoorTest, TheMachineIsProbed) {
  const auto& findings = host_->findings();
  const auto found = std::ranges::find(findings, "network door", &model::Finding::name);
  ASSERT_NE(found, findings.end());
  EXPECT_EQ(found->area, "isolation");
  EXPECT_EQ(found->state == model::Finding::State::kOk, found->remedy.empty()) << found->detail;
}

}  // namespace
}  // namespace cloister::runtime
