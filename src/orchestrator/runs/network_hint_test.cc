// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/network_hint.h"

#include <gtest/gtest.h>

namespace cloister::orchestrator {
namespace {

model::Execution ended(model::Status status, std::optional<int> exit_code) {
  model::Execution execution;
  execution.status = status;
  execution.exit_code = exit_code;
  return execution;
}

bool hints(std::string_view text) {
  return networkHint(ended(model::Status::kCompleted, 1), {.err = text, .out = {}}).has_value();
}

// As printed by the programs of Debian 12 in a sandbox without a network.
TEST(NetworkHint, KnowsWhatToolsPrint) {
  EXPECT_TRUE(hints("curl: (6) Could not resolve host: example.com\n"));
  EXPECT_TRUE(hints("curl: (7) Couldn't connect to server: Network is unreachable\n"));
  EXPECT_TRUE(hints("wget: unable to resolve host address 'example.com'\n"));
  EXPECT_TRUE(
      hints("ERROR: Could not find a version that satisfies the requirement numpy (from versions: "
            "none)\nERROR: No matching distribution found for numpy\n"));
  EXPECT_TRUE(
      hints("npm ERR! code EAI_AGAIN\nnpm ERR! syscall getaddrinfo\nnpm ERR! errno EAI_AGAIN\n"
            "npm ERR! request to https://registry.npmjs.org/left-pad failed, reason: getaddrinfo "
            "EAI_AGAIN registry.npmjs.org\n"));
  EXPECT_TRUE(
      hints("urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name "
            "resolution>\n"));
  EXPECT_TRUE(
      hints("fatal: unable to access 'https://github.com/a/b/': Could not resolve host: "
            "github.com\n"));
  EXPECT_TRUE(
      hints("Err:1 http://deb.debian.org/debian bookworm InRelease\n  Temporary failure resolving "
            "'deb.debian.org'\n"));
  EXPECT_TRUE(
      hints("Get \"https://example.com\": dial tcp: lookup example.com on [::1]:53: read udp: "
            "connection refused\n"));
  EXPECT_TRUE(hints("TypeError: fetch failed\n  [cause]: Error: getaddrinfo ENOTFOUND a.test\n"));
  EXPECT_TRUE(hints("OSError: [Errno 101] Network is unreachable\n"));
}

TEST(NetworkHint, SaysWhyAndHowToAsk) {
  const auto hint = networkHint(ended(model::Status::kFailed, 6),
                                {.err = "curl: (6) Could not resolve host: a.test\n", .out = {}});
  ASSERT_TRUE(hint);
  EXPECT_TRUE(hint->contains("network_policy.tier"));
  EXPECT_TRUE(hint->contains("--allow"));
}

TEST(NetworkHint, IsSilentWithoutReason) {
  EXPECT_FALSE(hints(""));
  EXPECT_FALSE(hints("Traceback (most recent call last):\nZeroDivisionError: division by zero\n"));
  EXPECT_FALSE(hints("connect: Connection refused\n")) << "a server on loopback may be missing";
}

TEST(NetworkHint, IsSilentForAProgramThatEndedWell) {
  constexpr std::string_view kWords = "Network is unreachable";
  EXPECT_FALSE(networkHint(ended(model::Status::kCompleted, 0), {.err = kWords, .out = kWords}));
}

// Node's console.log(), `2>&1`, and test runners.
TEST(NetworkHint, ReadsStandardOutputToo) {
  EXPECT_TRUE(networkHint(ended(model::Status::kCompleted, 1),
                          {.err = {}, .out = "Error: getaddrinfo EAI_AGAIN a.test\n"}));
  EXPECT_TRUE(networkHint(ended(model::Status::kFailed, std::nullopt),
                          {.err = "Terminated\n", .out = "curl: (6) Could not resolve host: a\n"}));
  EXPECT_FALSE(networkHint(ended(model::Status::kCompleted, 1),
                           {.err = "AssertionError\n", .out = "1 failed\n"}));
}

}  // namespace
}  // namespace cloister::orchestrator
