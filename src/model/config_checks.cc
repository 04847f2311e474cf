// SPDX-License-Identifier: Apache-2.0
#include "model/config_checks.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "model/escalation.h"

namespace cloister::model {
namespace {

// Checks relations between keys.
Result<> agree(const Config& config) {
  struct Pair {
    std::string_view low;
    uint32_t low_value;
    std::string_view high;
    uint32_t high_value;
  };
  const SessionSettings& session = config.session;
  const Pair pairs[] = {
      {"pool.floor", config.pool.floor, "pool.ready", config.pool.ready},
      {"session.ttl_seconds", session.ttl_seconds, "session.max_ttl_seconds",
       session.max_ttl_seconds},
      {"session.idle_ttl_seconds", session.idle_ttl_seconds, "session.max_ttl_seconds",
       session.max_ttl_seconds},
  };
  for (const Pair& pair : pairs) {
    if (pair.low_value <= pair.high_value) continue;
    const std::string low(pair.low);
    return fail(Code::kInvalid,
                low + ": must be at most " + std::string(pair.high) + ", which is " +
                    std::to_string(pair.high_value) + "; lower it or raise that",
                low);
  }
  return {};
}

// A cgroup below the service's own, so no part of the path may lead elsewhere.
Result<> checkCgroup(const std::string& path) {
  const auto usable = [](auto part) {
    return !part.empty() && part[0] != '.' && std::ranges::all_of(part, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
             c == '-' || c == '_' || c == '.' || c == '@' || c == ':';
    });
  };
  for (size_t from = 0; from <= path.size();) {
    const size_t end = std::min(path.find('/', from), path.size());
    if (!usable(std::string_view(path).substr(from, end - from))) {
      return fail(Code::kInvalid,
                  "node.cgroup_parent: must be a name for a cgroup, or several with / between, of "
                  "letters, digits and -_.@: and none beginning with a dot; cloister is usual",
                  "node.cgroup_parent");
    }
    from = end + 1;
  }
  return {};
}

Result<> checkOperations(const std::vector<std::string>& safe) {
  constexpr const char* kPath = "escalation.safe_operations";
  for (const std::string& name : safe) {
    if (isOperationInSandboxes(name)) continue;
    return fail(Code::kInvalid,
                std::string(kPath) + ": has \"" + name + "\"; must be of " +
                    operationsInSandboxes() + (name == operation::kRun ? "; a run never is" : ""),
                kPath);
  }
  return {};
}

bool isDigits(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A name of host names, in lower case, with an optional port.
bool isHost(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  if (colon < text.size() && !isDigits(text.substr(colon + 1))) return false;
  std::string_view name = text.substr(0, colon);
  constexpr size_t kLongestName = 253;
  constexpr size_t kLongestLabel = 63;
  if (name.empty() || name.size() > kLongestName) return false;
  for (bool more = true; more;) {
    const size_t dot = name.find('.');
    const std::string_view label = name.substr(0, dot);
    const bool plain =
        !label.empty() && label.size() <= kLongestLabel && label.front() != '-' &&
        label.back() != '-' &&
        label.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
    if (!plain) return false;
    more = dot != std::string_view::npos;
    if (more) name.remove_prefix(dot + 1);
  }
  return true;
}

// RFC 6454 §6.2, as browsers send an origin: without a path, and without a scheme's own port.
bool isOrigin(std::string_view text) {
  for (const auto& [scheme, port] :
       {std::pair<std::string_view, std::string_view>{"https://", ":443"}, {"http://", ":80"}}) {
    if (!text.starts_with(scheme)) continue;
    const std::string_view host = text.substr(scheme.size());
    const bool v6 = host.starts_with('[') && host.contains(']');
    return !host.ends_with(port) && (v6 || isHost(host));
  }
  return false;
}

// Absolute, without a slash at the end, and without segments that a browser would resolve.
bool isBasePath(std::string_view path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~-";
  constexpr size_t kLongest = 256;
  if (path.size() > kLongest) return false;
  while (!path.empty()) {
    if (!path.starts_with('/')) return false;
    path.remove_prefix(1);
    const std::string_view segment = path.substr(0, path.find('/'));
    if (segment.empty() || segment == "." || segment == "..") return false;
    if (segment.find_first_not_of(kPlain) != std::string_view::npos) return false;
    path.remove_prefix(segment.size());
  }
  return true;
}

Result<> checkUi(const Config& config) {
  for (const std::string& network : config.http.trusted_proxies) {
    if (base::Network::parse(network)) continue;
    return fail(Code::kInvalid,
                "http.trusted_proxies: has \"" + network +
                    "\"; must be addresses or networks of reverse proxies, as 127.0.0.1 or "
                    "10.0.0.0/24",
                "http.trusted_proxies");
  }
  if (!isBasePath(config.ui.base_path)) {
    return fail(Code::kInvalid,
                "ui.base_path: must be an absolute path of letters, digits and -._~ without a "
                "slash at the end, as /cloister, or empty",
                "ui.base_path");
  }
  const OidcSettings& oidc = config.auth.oidc;
  if (!oidc.client_id.empty() && oidc.issuer.empty()) {
    return fail(Code::kInvalid, "auth.oidc.client_id: needs auth.oidc.issuer; set both or neither",
                "auth.oidc.client_id");
  }
  if (!oidc.client_secret_file.empty() && oidc.client_id.empty()) {
    return fail(Code::kInvalid,
                "auth.oidc.client_secret_file: needs auth.oidc.client_id; set both, or the "
                "client_id alone for a public client",
                "auth.oidc.client_secret_file");
  }
  return {};
}

Result<> checkWeb(const Config& config) {
  for (const std::string& origin : config.api.cors_origins) {
    if (isOrigin(origin)) continue;
    return fail(Code::kInvalid,
                "api.cors_origins: has \"" + origin +
                    "\"; must be exact origins as browsers send them, in lower case and without a "
                    "path, as https://app.example or http://localhost:5173",
                "api.cors_origins");
  }
  TRY(checkUi(config));
  if (config.ports.domain.empty() || isHost(config.ports.domain)) return {};
  return fail(Code::kInvalid,
              "ports.domain: must be a domain name in lower case, as sandboxes.example.com, with "
              ":PORT if clients reach the service at a port of its own",
              "ports.domain");
}

// How a file is scanned: by a command or by a URL.
Result<> checkScan(const Config::Artifacts::Scan& scan) {
  constexpr const char* kUrl = "artifacts.scan.url";
  if (scan.url.empty()) return {};
  if (scan.command.empty()) return {};
  return fail(Code::kInvalid,
              std::string(kUrl) + ": is given beside artifacts.scan.command; keep one of both",
              kUrl);
}

Result<> checkImages(const ImageSettings& images) {
  if (images.require_signature && images.keys.empty()) {
    return fail(Code::kInvalid,
                "images.require_signature: needs images.keys, the files of the public keys that "
                "sign images; set both or neither",
                "images.require_signature");
  }
  constexpr std::string_view kSeverities[] = {"low", "medium", "high", "critical"};
  if (std::ranges::find(kSeverities, images.severity) == std::end(kSeverities)) {
    return fail(Code::kInvalid, "images.severity: must be low, medium, high or critical",
                "images.severity");
  }
  for (const std::string& glob : images.deny) {
    if (!glob.empty()) continue;
    return fail(Code::kInvalid,
                "images.deny: has an empty text; an item is NAME or TYPE/NAME, as openssl or "
                "npm/@scope/*",
                "images.deny");
  }
  return {};
}

// Words of names in a request; net::percentEncode() is for the rest.
bool isPlainName(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

Result<> checkS3(const S3Settings& s3) {
  const auto wrong = [](std::string_view key, std::string_view what) {
    const std::string path = "artifacts.s3." + std::string(key);
    return fail(Code::kInvalid, path + ": " + std::string(what), path);
  };
  if (s3.endpoint.empty() && s3.bucket.empty()) return {};
  if (s3.endpoint.empty()) return wrong("endpoint", "must be given with artifacts.s3.bucket");
  if (s3.bucket.empty()) return wrong("bucket", "must be given with artifacts.s3.endpoint");
  if (!isPlainName(s3.bucket) || s3.bucket.size() > 63 || s3.bucket.size() < 3) {
    return wrong("bucket", "must be a name of 3 to 63 letters, digits, \"-\", \"_\" and \".\"");
  }
  if (s3.region.empty() || !isPlainName(s3.region) || s3.region.size() > 64) {
    return wrong("region", "must be a word of letters, digits and \"-\", as us-east-1");
  }
  if (!isPlainName(s3.prefix) || s3.prefix.size() > 64 || s3.prefix == "." || s3.prefix == "..") {
    return wrong("prefix",
                 "must be a name of at most 64 letters, digits, \"-\", \"_\" and \".\", or empty");
  }
  return {};
}

}  // namespace

Result<> checkConfig(const Config& config) {
  TRY(agree(config));
  TRY(checkCgroup(config.node.cgroup_parent));
  TRY(checkOperations(config.escalation.safe_operations));
  TRY(checkEgress(config.egress));
  TRY(checkWeb(config));
  TRY(checkDlp(config.dlp));
  TRY(checkScan(config.artifacts.scan));
  TRY(checkImages(config.images));
  TRY(checkS3(config.artifacts.s3));
  return checkPackages(config.packages);
}

}  // namespace cloister::model
