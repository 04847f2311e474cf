// SPDX-License-Identifier: Apache-2.0
#include "policy/agent/categories.h"

#include <algorithm>

#include "base/glob.h"
#include "base/network.h"

namespace cloister::policy {
namespace {

constexpr std::string_view kTemporary[] = {"/tmp/", "/var/tmp/", "/dev/shm/"};
constexpr std::string_view kOurs[] = {"/workspace/", "/home/"};
constexpr std::string_view kConfigEndings[] = {
    ".cfg",  ".conf",  ".config", ".env",    ".ini",         ".lock",
    ".mk",   ".plist", ".toml",   ".yaml",   ".yml",         ".properties",
    ".json", ".cmake", ".gradle", ".csproj", ".editorconfig"};
constexpr std::string_view kConfigNames[] = {
    "CMakeLists.txt", "Dockerfile",       "GNUmakefile", "Jenkinsfile",      "Makefile", "Procfile",
    "Vagrantfile",    "WORKSPACE",        "build.rs",    "conftest.py",      "go.mod",   "go.sum",
    "makefile",       "requirements.txt", "setup.py",    "sitecustomize.py", "tox.ini"};
constexpr std::string_view kInternalEndings[] = {".internal", ".local", ".lan", ".home.arpa",
                                                 ".localhost"};
constexpr std::string_view kInternalNetworks[] = {"127.0.0.0/8",    "10.0.0.0/8", "172.16.0.0/12",
                                                  "192.168.0.0/16", "::1/128",    "fc00::/7"};
constexpr std::string_view kDatabaseWords[] = {"migrat", "psql",   "mysql",   "sqlite",
                                               "mongo",  "redis-", "alembic", "pg_",
                                               "flyway", ".sql",   "prisma",  ".db"};
constexpr std::string_view kPrivilegedWords[] = {"sudo",  "doas",   "su ",    "mount",    "chown",
                                                 "chmod", "setcap", "pkexec", "systemctl"};

template <size_t N>
bool startsWithAny(std::string_view text, const std::string_view (&all)[N]) {
  return std::ranges::any_of(all, [&](std::string_view one) {
    return text.starts_with(one) || text == one.substr(0, one.size() - 1);
  });
}
template <size_t N>
bool endsWithAny(std::string_view text, const std::string_view (&all)[N]) {
  return std::ranges::any_of(all, [&](std::string_view one) { return text.ends_with(one); });
}
template <size_t N>
bool containsAny(std::string_view text, const std::string_view (&all)[N]) {
  return std::ranges::any_of(all, [&](std::string_view one) { return text.contains(one); });
}

std::string lowered(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string withoutDot(std::string host) {
  if (host.ends_with('.')) host.pop_back();
  return host;
}

// The port of a URL with a host: explicit, or the scheme's; "" for a scheme without a default.
std::string portOf(std::string_view url) {
  const size_t scheme = url.find("://");
  std::string_view rest = url.substr(scheme + 3);
  rest = rest.substr(0, rest.find_first_of("/?#\\"));
  const size_t behind = rest.contains(']') ? rest.find(']') : 0;
  const size_t colon = rest.find(':', behind);
  if (colon != std::string_view::npos) return std::string(rest.substr(colon + 1));
  const std::string name = lowered(url.substr(0, scheme));
  if (name == "https" || name == "wss") return "443";
  return name == "http" || name == "ws" ? "80" : "";
}

bool isIpv4(std::string_view host) {
  return !host.empty() && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool isAbout(std::string_view kind, const Operation& operation, std::string_view target) {
  const bool file = std::holds_alternative<FileOperation>(operation.what);
  const bool command = std::holds_alternative<CommandOperation>(operation.what);
  if (kind == nameOf(operation)) return true;
  const bool changes = file && std::get<FileOperation>(operation.what).access != FileAccess::kRead;
  if (kind == "file_write") return changes;
  if (kind == "config_change") return changes && isConfigPath(target);
  if (kind == "database_operation")
    return (command || changes) && containsAny(target, kDatabaseWords);
  if (kind == "system_file_access") return file && isSystemPath(target);
  if (kind == "privileged_operation") return command && containsAny(target, kPrivilegedWords);
  constexpr std::string_view kExact[] = {"file_read", "file_create",       "file_delete",
                                         "network",   "command_execution", "quality_gate",
                                         "workflow"};
  return std::ranges::find(kExact, kind) == std::end(kExact);
}

}  // namespace

bool isTemporaryPath(std::string_view path) {
  return startsWithAny(path, kTemporary);
}

bool isSystemPath(std::string_view path) {
  return !startsWithAny(path, kTemporary) && !startsWithAny(path, kOurs);
}

bool isConfigPath(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  // Hidden files and files in hidden directories are settings: .git/hooks, .npmrc, .github …
  return path.contains("/.") || endsWithAny(name, kConfigEndings) || name.starts_with(".env") ||
         name.contains(".config.") ||
         std::ranges::find(kConfigNames, name) != std::end(kConfigNames);
}

std::optional<std::string> hostOf(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return std::nullopt;
  std::string_view rest = url.substr(scheme + 3);
  rest = rest.substr(0, rest.find_first_of("/?#\\"));
  // A name before an @ makes a host look like another.
  if (rest.contains('@')) return std::nullopt;
  std::string_view host = rest;
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = host.substr(1, end - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  const bool plain = std::ranges::all_of(host, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == ':' || c == '_';
  });
  if (host.empty() || !plain) return std::nullopt;
  return lowered(host);
}

bool coversUrl(std::string_view pattern, std::string_view url) {
  const auto host = hostOf(url);
  if (!host) return false;
  if (const size_t scheme = pattern.find("://"); scheme != std::string_view::npos) {
    const std::string_view rest = pattern.substr(scheme + 3);
    const size_t path = std::min(rest.find_first_of("/?#"), rest.size());
    const size_t at = url.find("://");
    const std::string_view of_url = url.substr(at + 3);
    const std::string_view asked =
        of_url.substr(std::min(of_url.find_first_of("/?#"), of_url.size()));
    return lowered(pattern.substr(0, scheme)) == lowered(url.substr(0, at)) &&
           coversUrl(rest.substr(0, path), url) &&
           (path == rest.size() || base::globMatches(rest.substr(path), asked));
  }
  const size_t colon = pattern.rfind(':');
  const bool address = pattern.contains(']') ? pattern.ends_with(']') : pattern.find(':') != colon;
  const bool has_port = colon != std::string_view::npos && !address;
  if (has_port && pattern.substr(colon + 1) != portOf(url)) return false;
  std::string_view name = has_port ? pattern.substr(0, colon) : pattern;
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  return base::globMatches(withoutDot(lowered(name)), withoutDot(*host));
}

bool isInternalHost(std::string_view host) {
  if (isIpv4(host) || host.contains(':')) {
    const auto address =
        base::Network::parse(std::string(host) + (host.contains(':') ? "/128" : "/32"));
    return address && std::ranges::any_of(kInternalNetworks, [&](std::string_view range) {
             const auto network = base::Network::parse(std::string(range));
             return network && network->contains(*address);
           });
  }
  while (host.ends_with('.'))
    host.remove_suffix(1);
  const bool number = host.starts_with("0x");  // inet_aton(3) accepts the number as an address
  return !host.empty() && !number && (!host.contains('.') || endsWithAny(host, kInternalEndings));
}

bool needsHuman(const std::vector<std::string>& kinds, const Operation& operation,
                std::string_view target) {
  return std::ranges::any_of(
      kinds, [&](const std::string& kind) { return isAbout(kind, operation, target); });
}

}  // namespace cloister::policy
