// SPDX-License-Identifier: Apache-2.0
// A node over the fake runtime and a control plane's end of the connection, in one io_context, for
// tests.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "async/run_task.h"
#include "async/spawn.h"
#include "net/stream_testing.h"
#include "node/server.h"
#include "node/session.h"
#include "runtime/fake/fake_harness.h"
#include "runtime/remote/remote.h"

namespace cloister::node {

// A directory of its own, removed at the end.
class TempDir {
 public:
  TempDir() : path_("/tmp/cloister-test-" + base::randomHex(8)) {
    std::filesystem::create_directory(path_);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline model::Limits ceilingForTests() {
  model::Limits ceiling;
  ceiling.wall = Millis{600'000};
  ceiling.cpu_time = Millis{3'600'000};
  ceiling.cpu_millis = 4000;
  ceiling.memory_bytes = uint64_t{4} << 30;
  ceiling.disk_bytes = ceiling.file_bytes = uint64_t{4} << 30;
  ceiling.pids = 4096;
  ceiling.output_bytes = uint64_t{16} << 20;
  return ceiling;
}

// The node's side: a server on a socket of its own.
class NodeFixture {
 public:
  explicit NodeFixture(uint32_t max_sandboxes = 8) {
    config.socket = socket();
    config.control_uid = getuid();
    config.offer.node = "test-node";
    config.offer.runtimes = {"fake", "process"};
    config.offer.max_sandboxes = max_sandboxes;
    config.offer.memory_bytes = uint64_t{8} << 30;
    async::spawn(io.get_executor(), serveAll());
    io.poll();  // starts listening
  }
  NodeFixture(const NodeFixture&) = delete;
  NodeFixture& operator=(const NodeFixture&) = delete;
  ~NodeFixture() = default;

  [[nodiscard]] std::string socket() const { return dir.path() + "/node.sock"; }

  model::SignedPermit sign(const model::PermitFields& fields) const {
    model::SignedPermit permit{wire::encodePermit(fields), {}};
    permit.signature = key.sign(permit.encoded);
    return permit;
  }

  std::unique_ptr<runtime::RemoteNode> connect() {
    auto node = async::runTask(io, runtime::connectNode(socket()));
    if (!node) ADD_FAILURE() << node.error().message;
    return node ? *std::move(node) : nullptr;
  }

  // Serves `stream` as if a control plane had connected.
  void serve(std::unique_ptr<net::ByteStream> stream) {
    async::spawn(io.get_executor(), [](std::shared_ptr<Session> session) -> runtime::Task<void> {
      co_await session->run();
    }(std::make_shared<Session>(std::move(stream), config, gate, runtimes, [] {
                   return size_t{0};
                 })));
  }
  // A connection without a socket.
  std::unique_ptr<runtime::RemoteNode> connectInMemory() {
    auto [ours, theirs] = net::MemoryStream::pair(io.get_executor());
    serve(std::move(theirs));
    auto node = async::runTask(io, runtime::adoptNode(std::move(ours)));
    if (!node) ADD_FAILURE() << node.error().message;
    return node ? *std::move(node) : nullptr;
  }

  // Runs ready handlers until `done`; false if no handler is left.
  template <class Condition>
  bool runUntil(Condition done) {
    io.restart();
    while (!done()) {
      if (io.run_one() == 0) return false;
    }
    return true;
  }

  TempDir dir;
  boost::asio::io_context io;
  base::SigningKey key = base::SigningKey::generate();
  PermitGate gate{key.verifyKey(), ceilingForTests()};
  runtime::FakeRuntime fake{io.get_executor()};
  Runtimes runtimes{{"fake", &fake}, {"process", &fake}};
  ServerConfig config;

 private:
  runtime::Task<void> serveAll() {
    const auto served = co_await node::serve(config, gate, runtimes);
    EXPECT_TRUE(served) << served.error().message;
  }
};

// The remote runtime's side of runtime_suite.h.
class RemoteHarness {
 public:
  using Connect = std::unique_ptr<runtime::RemoteNode> (NodeFixture::*)();

  explicit RemoteHarness(Connect connect = &NodeFixture::connect) : node_((fixture_.*connect)()) {}

  boost::asio::io_context& io() { return fixture_.io; }
  runtime::Runtime& runtime() { return *node_; }
  model::SignedPermit sign(const model::PermitFields& fields) { return fixture_.sign(fields); }
  static std::string runtimeName() { return "fake"; }
  static std::vector<std::string> argv(runtime::Program program,
                                       const std::vector<std::string>& args) {
    return runtime::fakeArgv(program, args);
  }
  static std::string lacks(runtime::Program) { return ""; }
  size_t left() { return fixture_.fake.live(); }

 private:
  NodeFixture fixture_;
  std::unique_ptr<runtime::RemoteNode> node_;
};

class InMemoryHarness : public RemoteHarness {
 public:
  InMemoryHarness() : RemoteHarness(&NodeFixture::connectInMemory) {}
};

}  // namespace cloister::node
