// SPDX-License-Identifier: Apache-2.0
// The ledger after its process was killed, and with a full disk. Each case runs a child: this
// program itself, started again with --child.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/fd.h"
#include "store/open.h"
#include "store/store_testing.h"

namespace cloister::store {
namespace {

using testing::accept;
using testing::queued;
using testing::TempDir;
using testing::update;

constexpr char kKey[] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

SqliteOptions options(const std::string& dir, Durability durability) {
  SqliteOptions out;
  out.path = dir + "/ledger.db";
  out.durability = durability;
  out.audit_key =
      std::make_shared<const base::SigningKey>(base::SigningKey::fromBase64(kKey).value());
  out.checkpoint_file = dir + "/audit.checkpoints";
  out.checkpoint_every = 50;
  return out;
}

Durability durabilityOf(const std::string& name) {
  return name == "power" ? Durability::kPower : Durability::kProcess;
}

// Walks the chain: every entry hashed, linked, numbered, and ended by the signed head.
void expectWholeChain(Store& store) {
  std::string prev(64, '0');
  uint64_t seq = 0;
  for (;;) {
    const auto entries = store.audit(Scope::allTenants(), seq, 1000);
    ASSERT_TRUE(entries) << entries.error().message;
    if (entries->empty()) break;
    for (const model::AuditEntry& entry : *entries) {
      ASSERT_EQ(entry.position, ++seq);
      ASSERT_EQ(entry.prev, prev);
      ASSERT_EQ(entry.hash, base::sha256Hex(model::canonicalForm(entry)));
      ASSERT_NE(entry.event.action, "ledger.recovered") << base::toJson(entry.event.details);
      prev = entry.hash;
    }
  }
  if (seq == 0) return;
  const auto head = store.head();
  ASSERT_TRUE(head && *head);
  EXPECT_EQ((*head)->seq, seq);
  EXPECT_EQ((*head)->hash, prev);
  const auto wrong = store.mismatches(0, 1);
  ASSERT_TRUE(wrong);
  EXPECT_TRUE(wrong->empty()) << wrong->front().id << ": " << wrong->front().problem;
}

// --child write DIR DURABILITY: runs executions on eight threads until killed, and reports each
// acknowledgement on stdout: "<status> <id>\n", one write(2) each.
int childWrite(const std::string& dir, const std::string& durability) {
  auto store = openSqlite(options(dir, durabilityOf(durability)));
  if (!store) return std::cerr << store.error().message << "\n", 1;
  const auto tell = [](std::string_view status, const std::string& id) {
    const std::string line = std::string(status) + " " + id + "\n";
    if (::write(1, line.data(), line.size()) < 0) ::_exit(0);
  };
  const auto run = [&] {
    for (;;) {
      NewExecution request = queued();
      request.idempotency_key = request.execution.id;
      if (!accept(**store, request)) ::_exit(2);
      tell("queued", request.execution.id);
      model::Execution e = request.execution;
      for (const auto status : {model::Status::kRunning, model::Status::kCompleted}) {
        e.status = status;
        if (!update(**store, e)) ::_exit(3);
        tell(model::statusName(status), e.id);
      }
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back(run);
  return 0;
}

// Free bytes needed to open and use a ledger.
constexpr char kSmallDisk[] = "size=2m,mode=0700";

// --child disk-full DIR: mounts a small file system of its own and fills it.
int childDiskFull(const std::string& dir) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", dir.c_str(), "tmpfs", 0, kSmallDisk) != 0) {
    return 77;
  }
  const auto say = [](const std::string& what) { return std::cerr << what << "\n", 1; };
  std::ofstream(dir + "/ballast") << std::string(600'000, 'b');
  auto opened = openSqlite(options(dir, Durability::kPower));
  if (!opened) return say(opened.error().message);
  Store& store = **opened;
  std::vector<std::string> acknowledged;
  std::optional<Error> refusal;
  while (!refusal && acknowledged.size() < 10'000) {
    NewExecution request = queued();
    request.spec = std::string(20'000, 's');
    if (const auto accepted = accept(store, request)) {
      acknowledged.push_back(request.execution.id);
    } else {
      refusal = accepted.error();
    }
  }
  if (!refusal || refusal->code != Code::kNoSpace) return say("no kNoSpace on a full disk");
  if (store.health()) return say("healthy on a full disk");
  for (const std::string& id : acknowledged) {
    if (!store.get(Scope::allTenants(), id)) return say("cannot read on a full disk");
  }
  std::filesystem::remove(dir + "/ballast");
  // The ledger finds out by itself, or with the first write.
  const auto deadline = base::monotonicNow() + std::chrono::seconds(20);
  while (!store.health() && base::monotonicNow() < deadline)
    std::this_thread::yield();
  if (!store.health()) return say("not healthy with space again");
  if (!accept(store, queued())) return say("cannot write with space again");
  opened->reset();
  opened = openSqlite(options(dir, Durability::kPower));
  if (!opened) return say(opened.error().message);
  expectWholeChain(**opened);
  const size_t stored = (*opened)->unfinished().value().size();
  if (stored != acknowledged.size() + 1) return say("stored and acknowledged differ");
  return ::testing::Test::HasFailure() ? 1 : 0;
}

struct Child {
  pid_t pid = -1;
  Fd out;
};

// Starts this program with `args`; its stdout is a pipe.
Child start(std::vector<std::string> args) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  args.insert(args.begin(), {"store_test", "--child"});
  std::vector<char*> argv;
  for (std::string& arg : args)
    argv.push_back(arg.data());
  argv.push_back(nullptr);
  Child child{.pid = ::fork(), .out = Fd(ends[0])};
  if (child.pid == 0) {
    ::dup2(ends[1], 1);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  return child;
}

int statusOf(const Child& child) {
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  return status;
}

// Reads about `bytes` of the child's output, kills the child, and returns its whole output.
std::string killAfter(const Child& child, size_t bytes) {
  std::string said;
  bool killed = false;
  char chunk[512];
  for (ssize_t n = 0; (n = ::read(child.out.get(), chunk, sizeof chunk)) > 0;) {
    said.append(chunk, static_cast<size_t>(n));
    if (!killed && said.size() >= bytes) {
      ::kill(child.pid, SIGKILL);
      killed = true;
    }
  }
  return said;
}

// The last acknowledged status of each execution.
using Acknowledged = std::map<std::string, model::Status>;

void addAcknowledged(const std::string& said, Acknowledged& acknowledged) {
  std::istringstream lines(said.substr(0, said.rfind('\n') + 1));
  std::string status;
  std::string id;
  while (lines >> status >> id)
    acknowledged[id] = model::statusFromName(status).value();
}

bool reached(model::Status status, model::Status acknowledged) {
  return status == acknowledged || acknowledged == model::Status::kQueued ||
         (acknowledged == model::Status::kRunning && status == model::Status::kCompleted);
}

void expectKept(Store& store, const Acknowledged& acknowledged) {
  for (const auto& [id, last] : acknowledged) {
    const auto e = store.get(Scope::allTenants(), id);
    ASSERT_TRUE(e) << id << ": " << e.error().message;
    ASSERT_TRUE(reached(e->status, last)) << id << " was " << model::statusName(last);
  }
  if (acknowledged.empty()) return;
  // A repeated request gets the same execution.
  NewExecution again = queued();
  again.idempotency_key = acknowledged.begin()->first;
  ASSERT_EQ(accept(store, again)->execution.id, again.idempotency_key);
}

void killRepeatedly(const std::string& durability, int times, size_t most_bytes) {
  const TempDir dir(std::filesystem::temp_directory_path());
  Acknowledged all;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < times; ++i) {
    const Child child = start({"write", dir.file(""), durability});
    Acknowledged now;
    addAcknowledged(killAfter(child, random() % most_bytes), now);
    const int status = statusOf(child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    const auto store = openSqlite(options(dir.file(""), durabilityOf(durability)));
    ASSERT_TRUE(store) << store.error().message;
    expectWholeChain(**store);
    all.insert(now.begin(), now.end());
    expectKept(**store, i + 1 < times ? now : all);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_FALSE(all.empty());
}

TEST(LedgerFault, KillNineLosesNothingAcknowledged) {
  killRepeatedly("process", 30, 20'000);
}

TEST(LedgerFault, KillNineLosesNothingAcknowledgedWithPower) {
  killRepeatedly("power", 5, 5'000);
}

TEST(LedgerFault, AFullDiskRefusesWritesAndRecovers) {
  const TempDir dir;
  const Child child = start({"disk-full", dir.file("")});
  const int status = statusOf(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "mounting a small file system needs root (or CAP_SYS_ADMIN)";
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace cloister::store

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv, argv + argc);
  if (args.size() >= 4 && args[1] == "--child") {
    if (args[2] == "write") return cloister::store::childWrite(args[3], args[4]);
    return cloister::store::childDiskFull(args[3]);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
