// SPDX-License-Identifier: Apache-2.0
#include "bin/scan.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/clock.h"
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

}  // namespace

Result<std::vector<Fd>> startScanHelpers(const model::Config& config) {
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

std::unique_ptr<orchestrator::Scanner> makeScanner(const boost::asio::any_io_executor& executor,
                                                   const std::vector<Fd>& helpers,
                                                   const model::Config& config) {
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
  return std::make_unique<orchestrator::Scanner>(executor, helpers.size(), run, stop);
}

}  // namespace cloister
