// SPDX-License-Identifier: Apache-2.0
#include "bin/scan.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "linux/command_helper.h"

namespace cloister {
namespace {

// As root the helpers become a separate user without access to our files.
constexpr uint32_t kScannerId = model::kFallbackId + 1;

Result<> checkProgram(const std::string& path) {
  constexpr const char* kKey = "artifacts.scan.command";
  const auto wrong = [](const std::string& what) {
    return fail(Code::kInvalid, std::string(kKey) + ": " + what, kKey);
  };
  if (!path.starts_with('/')) return wrong("must begin with an absolute path");
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return wrong("there is no " + path + "; install it, or leave the key empty to scan nothing");
  }
  if (!std::filesystem::is_regular_file(status) || ::access(path.c_str(), X_OK) != 0) {
    return wrong(path + " is no program that can be run; chmod +x it, or name another");
  }
  return {};
}

// One line of printable characters.
Result<std::string> readToken(const std::string& path) {
  constexpr const char* kKey = "artifacts.scan.token_file";
  constexpr size_t kMost = 8192;
  if (path.empty()) return std::string();
  auto text = base::readFile(path, kMost);
  if (!text) return std::unexpected(std::move(text).error().within(kKey));
  while (text->ends_with('\n') || text->ends_with('\r'))
    text->pop_back();
  const bool printable = std::ranges::all_of(*text, [](char c) { return c > ' ' && c < 0x7f; });
  if (text->empty() || !printable) {
    return fail(Code::kInvalid, std::string(kKey) + ": must have one line with a token", kKey);
  }
  return *std::move(text);
}

// The verdict of a scanner over HTTP: 0, 1, or another status, as of a command.
int verdictOf(int status) {
  constexpr int kClean = 0;
  constexpr int kRefused = 1;
  constexpr int kUnknown = 2;
  if (status >= 200 && status < 300) return kClean;
  return status == 403 || status == 406 || status == 422 ? kRefused : kUnknown;
}

// Sends the content as the body of a POST. The connection is new for each file.
Result<orchestrator::ScanEnd> scanOver(const net::Endpoint& endpoint, int interrupt, Millis timeout,
                                       const orchestrator::Scanner::More& more) {
  const base::Monotonic deadline = base::monotonicNow() + timeout;
  net::HttpRequest request{.method = "POST", .target = "", .accept = "*/*"};
  request.headers.emplace("Content-Type", "application/octet-stream");
  request.source = net::sourceOf([&more, deadline]() -> Result<std::string> {
    if (base::monotonicNow() < deadline) return more();
    return fail(Code::kUnavailable, "sending the content: it takes too long");
  });
  net::BlockingClient client(endpoint, interrupt);
  const net::HttpHead head = TRY(client.open(request, timeout));
  return orchestrator::ScanEnd{verdictOf(head.status),
                               "HTTP status " + std::to_string(head.status)};
}

// Each slot is a thread of the scanner, which waits for the answer.
std::unique_ptr<orchestrator::Scanner> makeUrlScanner(const boost::asio::any_io_executor& executor,
                                                      net::Endpoint endpoint,
                                                      const model::Config::Artifacts::Scan& scan) {
  const auto stopped = std::make_shared<Fd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const Millis timeout = std::chrono::seconds(scan.timeout_seconds);
  // Without a verdict the slot stays: the next file has a connection of its own.
  const auto run = [endpoint = std::move(endpoint), stopped, timeout](
                       size_t,
                       const orchestrator::Scanner::More& more) -> Result<orchestrator::ScanEnd> {
    auto end = scanOver(endpoint, stopped->get(), timeout, more);
    if (end) return end;
    return orchestrator::ScanEnd{-1, end.error().message};
  };
  const auto stop = [stopped] {
    const uint64_t one = 1;
    std::ignore = ::write(stopped->get(), &one, sizeof one);
  };
  return std::make_unique<orchestrator::Scanner>(executor, "artifacts.scan.url", scan.concurrent,
                                                 run, stop);
}

// Nullopt: no server.
Result<std::optional<net::Endpoint>> endpointOf(const model::Config& config) {
  constexpr const char* kKey = "artifacts.scan.url";
  const model::Config::Artifacts::Scan& scan = config.artifacts.scan;
  if (scan.url.empty()) return std::nullopt;
  auto url = net::parseUrl(scan.url);
  if (!url) {
    return fail(Code::kInvalid, std::string(kKey) + ": " + url.error().message, kKey);
  }
  TRY(net::clientTls(scan.ca_file, "artifacts.scan.ca_file"));
  net::Endpoint endpoint{.url = *std::move(url), .trust = {}, .key = {}};
  endpoint.trust.ca_file = scan.ca_file;
  endpoint.key = TRY(readToken(scan.token_file));
  return endpoint;
}

Result<std::vector<Fd>> startHelpers(const model::Config& config) {
  const model::Config::Artifacts::Scan& scan = config.artifacts.scan;
  std::vector<Fd> helpers;
  if (scan.command.empty()) return helpers;
  TRY(checkProgram(scan.command[0]));
  linux::HelperCommand command{
      .argv = scan.command, .timeout = std::chrono::seconds(scan.timeout_seconds), .user = {}};
  if (::geteuid() == 0) command.user = linux::User{kScannerId, kScannerId};
  for (uint32_t i = 0; i < scan.concurrent; ++i)
    helpers.push_back(TRY(linux::startCommandHelper(command)));
  return helpers;
}

}  // namespace

Result<ScanParts> prepareScan(const model::Config& config) {
  auto helpers = TRY(startHelpers(config));
  return ScanParts{std::move(helpers), TRY(endpointOf(config))};
}

std::unique_ptr<orchestrator::Scanner> makeScanner(const boost::asio::any_io_executor& executor,
                                                   const ScanParts& parts,
                                                   const model::Config& config) {
  if (parts.endpoint) return makeUrlScanner(executor, *parts.endpoint, config.artifacts.scan);
  const std::vector<Fd>& helpers = parts.helpers;
  if (helpers.empty()) return nullptr;
  // Adds time for a killed command to end on a busy machine.
  const Millis patience = std::chrono::seconds(config.artifacts.scan.timeout_seconds + 30);
  const auto run = [&helpers, patience](
                       size_t slot,
                       const orchestrator::Scanner::More& more) -> Result<orchestrator::ScanEnd> {
    const int socket = helpers[slot].get();
    for (bool all = false; !all;) {
      const auto piece = more();
      // An unreadable content ends early; the caller knows.
      all = !piece || piece->empty();
      TRY(linux::sendToHelper(socket, all ? std::string_view() : std::string_view(*piece)));
    }
    linux::HelperAnswer answer = TRY(linux::receiveFromHelper(socket, patience));
    return orchestrator::ScanEnd{answer.what, std::move(answer.said)};
  };
  const auto stop = [&helpers] {
    for (const Fd& helper : helpers)
      ::shutdown(helper.get(), SHUT_RDWR);
  };
  return std::make_unique<orchestrator::Scanner>(executor, "artifacts.scan.command", helpers.size(),
                                                 run, stop);
}

}  // namespace cloister
