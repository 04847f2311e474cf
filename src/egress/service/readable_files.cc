// SPDX-License-Identifier: Apache-2.0
#include "egress/service/readable_files.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <openssl/x509.h>

namespace cloister::egress {
namespace {

using Paths = std::vector<std::string>;

constexpr char kResolvConf[] = "/etc/resolv.conf";

bool isThere(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

// The directory of the file, of its target, and those of the programs that keep the target.
void addResolvConf(Paths& paths) {
  for (const char* each :
       {"/etc", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"})
    paths.emplace_back(each);
  std::error_code error;
  const auto target = std::filesystem::canonical(kResolvConf, error);
  if (!error) paths.push_back(target.parent_path());
}

// The directories of SSL_CTX_set_default_verify_paths(3), and those to which the links there lead.
void addAuthorities(Paths& paths) {
  const char* named = std::getenv(X509_get_default_cert_dir_env());
  std::string_view list = named != nullptr ? named : X509_get_default_cert_dir();
  while (!list.empty()) {
    const size_t colon = std::min(list.find(':'), list.size());
    if (colon > 0) paths.emplace_back(list.substr(0, colon));
    list.remove_prefix(std::min(colon + 1, list.size()));
  }
  for (const char* each : {"/etc/ssl/certs", "/etc/pki", "/usr/share/ca-certificates",
                           "/usr/local/share/ca-certificates"})
    paths.emplace_back(each);
}

}  // namespace

std::vector<linux::LandlockRule> readableFiles(const ReadableFiles& files) {
  Paths paths = {
      isThere(files.key) ? files.key : std::filesystem::path(files.key).parent_path().string(),
      "/etc/ssl/openssl.cnf", kResolvConf};
  if (files.host_resolver) addResolvConf(paths);
  if (files.host_authorities) addAuthorities(paths);
  std::erase_if(paths, [](const std::string& path) { return !isThere(path); });
  std::vector<linux::LandlockRule> rules;
  for (std::string& path : paths)
    rules.push_back({std::move(path), linux::LandlockAccess::kReadFile});
  return rules;
}

}  // namespace cloister::egress
