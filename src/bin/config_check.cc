// SPDX-License-Identifier: Apache-2.0
#include "bin/config_check.h"

#include <filesystem>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "api/http/tls.h"
#include "artifacts/keyring.h"
#include "auth/auth.h"
#include "auth/sign_in.h"
#include "base/file.h"
#include "bin/blob_store.h"
#include "bin/channels.h"
#include "bin/deciding.h"
#include "bin/settings.h"
#include "policy/agent/rules.h"
#include "policy/document.h"
#include "trace/otlp/exporter.h"

namespace cloister {
namespace {

// The result, whose error names the key of the configuration.
template <class T>
Result<T> keyed(const char* key, Result<T> result) {
  if (result || !result.error().field.empty()) return result;
  Error error = std::move(result).error();
  if (!error.message.contains(key)) error = std::move(error).within(key);
  error.field = key;
  return std::unexpected(std::move(error));
}

Result<> checkMasterKeys(const model::Config& config) {
  const std::string& path = config.artifacts.master_key_file;
  if (path.empty()) return {};  // made at the first start
  TRY(keyed("artifacts.master_key_file", artifacts::readMasterKeys(path)));
  return {};
}

// The documents that the configuration names.
Result<> checkDocuments(const model::Config& config) {
  const std::string share = base::shareDir() + "/policies/";
  const std::string policy =
      TRY(keyed("policy", readSetting("policy", config.policy.document, share + "default.yaml")));
  TRY(keyed("policy", policy::parsePolicy(policy, "policy", config.limits)));
  const std::string levels = TRY(keyed(
      "agents.levels", readSetting("agents.levels", config.agents.levels, share + "levels.yaml")));
  const auto known = TRY(keyed("agents.levels", policy::parseLevels(levels, "agents.levels")));
  TRY(checkDefaultLevel(config, known));
  TRY(keyed("tools", readTools(config)));
  return {};
}

}  // namespace

Result<> checkDefaultLevel(const model::Config& config, const policy::Levels& levels) {
  const std::string& level = config.agents.default_level;
  if (level.empty() || levels.levels.contains(level)) return {};
  return fail(Code::kInvalid,
              "agents.default_level: there is no level \"" + level + "\"; use one of " +
                  policy::levelNames(levels),
              "agents.default_level");
}

// A folder that is not there would pass every package.
Result<> checkAdvisories(const std::string& folder) {
  constexpr const char* kKey = "packages.advisories";
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return {};
  return fail(Code::kInvalid, std::string(kKey) + ": there is no folder " + folder, kKey);
}

Result<> judgeConfig(const model::Config& config) {
  boost::asio::io_context io(1);
  TRY(httpLimits(config));
  TRY(keyed("tls.certificate", api::ServerTls::open(config.tls)));
  TRY(checkDocuments(config));
  TRY(checkAdvisories(config.packages.advisories));
  TRY(checkMasterKeys(config));
  TRY(keyed("artifacts.s3", checkBucket(config)));
  const auto provider =
      TRY(keyed("auth.oidc", auth::openProvider(io.get_executor(), config.auth.oidc)));
  TRY(keyed("auth.oidc", authOptions(config, provider)));
  TRY(keyed("escalation", openChannels(config)));
  TRY(keyed("policies", openDeciding(io.get_executor(), config)));
  TRY(controlConfig(config));
  TRY(keyed("traces", trace::otlp::openExporter(config.traces, "")));
  return {};
}

}  // namespace cloister
