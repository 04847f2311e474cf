// SPDX-License-Identifier: Apache-2.0
// OpenStack Swift's S3 interface for tests, behind a proxy with faults: tests/swift/serve.py. One
// for the whole program; each user has a prefix of its own.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <tuple>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>
#include <spawn.h>

#include "artifacts/s3/s3_blobs.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/json.h"
#include "net/blocking_client.h"

namespace cloister::artifacts {

class Swift {
 public:
  // `source`: the root of the project.
  static Swift& get(const std::string& source) {
    static Swift swift(source);
    return swift;
  }
  Swift(const Swift&) = delete;
  Swift& operator=(const Swift&) = delete;
  ~Swift() {
    input_.reset();  // the script ends at the end of its input
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] S3Options options() const {
    S3Options options;
    options.endpoint.url = *net::parseBaseUrl("http://127.0.0.1:" + std::to_string(port_));
    options.bucket = text("bucket");
    options.region = text("region");
    options.credentials = {text("key_id"), text("secret"), ""};
    options.timeout = Millis(20'000);
    options.attempts = 3;
    options.pause = Millis(10);
    return options;
  }
  // Blobs with a prefix of their own, and parts of 5 MiB, the least of the protocol.
  [[nodiscard]] S3BlobsOptions blobs(const std::string& dir) const {
    S3BlobsOptions options;
    options.client = this->options();
    options.prefix = base::randomHex(8);
    options.dir = dir;
    options.connections = 6;
    options.part_bytes = uint64_t{5} << 20;
    options.abandoned_us = int64_t{3600} * 1'000'000;
    return options;
  }
  // Faults of the proxy from now on (tests/swift/front.py).
  void breakWith(const std::string& faults) const {
    std::ignore = ask("POST", "/-/faults", faults);
  }
  // The lines of the requests since the last call.
  [[nodiscard]] std::string seen() const { return ask("GET", "/-/seen", ""); }

 private:
  explicit Swift(const std::string& source) {
    int to[2];
    int from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) std::abort();
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    ::posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    std::string script = source + "/tests/swift/serve.py";
    std::string python = "/usr/bin/python3";
    std::string front = "--front";
    char* const argv[] = {python.data(), script.data(), front.data(), nullptr};
    ::unsetenv("LD_PRELOAD");  // a sanitizer is for this program alone
    EXPECT_EQ(::posix_spawn(&pid_, python.c_str(), &actions, nullptr, argv, ::environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(to[0]);
    ::close(from[1]);
    input_ = Fd(to[1]);
    const Fd output(from[0]);
    std::string line;
    char c = 0;
    while (::read(output.get(), &c, 1) == 1 && c != '\n')
      line += c;
    const auto told = base::parseJson(line);
    if (!told || !told->is_object()) {
      std::fputs("Swift does not start: install the packages of ./dev's list\n", stderr);
      std::abort();
    }
    told_ = told->get_object();
    port_ = static_cast<int>(told_.at("port").as_int64());
  }
  [[nodiscard]] std::string text(const char* name) const {
    return std::string(told_.at(name).as_string());
  }
  [[nodiscard]] std::string ask(std::string_view method, const std::string& target,
                                const std::string& body) const {
    net::BlockingClient client(options().endpoint);
    const auto answer = client.exchange({.method = method, .target = target, .body = body});
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? answer->body : "";
  }

  pid_t pid_ = -1;
  Fd input_;
  base::json::object told_;
  int port_ = 0;
};

// Fresh, empty blobs in the bucket, for the conformance suite.
std::unique_ptr<Blobs> openOwnedBucket(boost::asio::io_context& io, boost::asio::thread_pool&);

}  // namespace cloister::artifacts
