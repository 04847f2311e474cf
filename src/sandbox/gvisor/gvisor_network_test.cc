// SPDX-License-Identifier: Apache-2.0
// gVisor's sandboxes with a network (ADR 0101). Skipped, with the reason, where there is no runsc.
#include <poll.h>

#include <set>

#include <gmock/gmock.h>

#include "base/file.h"
#include "confine/door_link.h"
#include "linux/nflog.h"
#include "sandbox/gvisor/gvisor.h"
#include "sandbox/network_fixture.h"

namespace cloister::runtime {
namespace {

using testing::Contains;
using testing::HasSubstr;

const Result<std::shared_ptr<ProcessHost>>& hostWithGvisor() {
  static const auto started = []() -> Result<std::shared_ptr<ProcessHost>> {
    const GuestFound found = findGvisor({"/usr/bin/runsc", 0, uint64_t{128} << 20, ""});
    if (!found.guest) return fail(Code::kUnsupported, found.finding.detail);
    ProcessConfig config = testbed::config();
    config.cgroup_parent = "cloister-test-gvisor-network";
    config.guests = {found.guest};
    return startProcessHost(config);
  }();
  return started;
}

class GvisorNetwork : public NetworkTest {
 protected:
  GvisorNetwork() : NetworkTest("gvisor", hostWithGvisor()) {}
};

TEST_F(GvisorNetwork, AProgramsConnectionReachesTheDoor) {
  wire::egress::Door door;
  Sandbox* const sandbox = served(door);
  ASSERT_NE(sandbox, nullptr);
  EXPECT_TRUE(door.transparent);
  EXPECT_THAT(sandbox->info().weakened, Contains(kWeakerLink));
  start(*sandbox, kReadsALine);
  Fd peer = accepted(door);
  ASSERT_TRUE(peer) << seen_.err;
  EXPECT_EQ(ownEnd(peer), "198.18.0.77 443");
  ASSERT_EQ(::send(peer.get(), "hello\n", 6, MSG_NOSIGNAL), 6);
  egress_.until([&] { return outcome_.has_value(); });
  EXPECT_EQ(seen_.out, "hello\n") << seen_.err;
  peer.reset();
  end(*sandbox, door);
}

constexpr char kAttempts[] = R"(exec python3 -c "
import socket
def tcp(address):
    made = socket.socket()
    made.settimeout(5)
    print('tcp', made.connect_ex((address, 443)))
def udp(address, port):
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(5)
    made.connect((address, port))
    try:
        made.send(b'?')
        print('udp', made.recv(9))
    except OSError as e:
        print('udp', e.errno)
tcp('203.0.113.5')
for _ in range(3): udp('203.0.113.5', 443)
try: socket.create_connection(('2001:db8::5', 443), 5)
except OSError as e: print('ipv6 fails')
print(open('/etc/resolv.conf').read(), end='')
")";

TEST_F(GvisorNetwork, OtherAttemptsAreRefusedAtOnceAndLogged) {
  wire::egress::Door door;
  Sandbox* const sandbox = served(door);
  ASSERT_NE(sandbox, nullptr);
  ASSERT_TRUE(door.has_log);
  start(*sandbox, kAttempts);
  egress_.until([&] { return outcome_.has_value(); });
  EXPECT_EQ(seen_.out,
            "tcp 111\nudp 111\nudp 111\nudp 111\nipv6 fails\nnameserver 198.18.0.1\n"
            "options timeout:1 attempts:5\n")
      << seen_.err;
  std::multiset<std::string> logged;
  while (const auto read = linux::readLog(egress_.fds.back().get())) {
    for (const linux::LoggedPacket& each : read->packets)
      logged.insert(std::string(linux::transportName(each.transport)) + " " +
                    each.destination.text() + " " + std::to_string(each.port));
  }
  EXPECT_THAT(logged, testing::ElementsAre("tcp 203.0.113.5 443", "udp 203.0.113.5 443",
                                           "udp 203.0.113.5 443", "udp 203.0.113.5 443"));
  end(*sandbox, door);
}

TEST_F(GvisorNetwork, APermitWithoutANetworkHasNoInterface) {
  auto fields = *wire::decodePermit(permitWithNetwork().encoded);
  fields.network_tier = "none";
  auto made = async::runTask(io_, runtime_->provision({wire::encodePermit(fields), {}}));
  ASSERT_TRUE(made) << made.error().message;
  start(**made, "cat /proc/net/dev");
  egress_.until([&] { return outcome_.has_value(); });
  EXPECT_THAT(seen_.out, HasSubstr("lo:"));
  EXPECT_THAT(seen_.out, testing::Not(HasSubstr("eth0")));
  std::ignore = async::runTask(io_, (*made)->teardown());
}

}  // namespace
}  // namespace cloister::runtime
