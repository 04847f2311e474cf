// SPDX-License-Identifier: Apache-2.0
#include "egress/service/package_setup.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/crypto.h"
#include "base/file.h"
#include "net/trust.h"

namespace cloister::egress {
namespace {

using model::Ecosystem;

// The parts of an upstream, before there is an executor.
struct Prepared {
  Ecosystem ecosystem = Ecosystem::kPypi;
  std::shared_ptr<PackageFolder> folder;  // or:
  UpstreamOptions options = {};
  bool direct = false;  // never through the company's proxy
};

std::string keyOf(Ecosystem ecosystem) {
  return ecosystem == Ecosystem::kPypi ? "packages.pypi" : "packages.npm";
}

// Names of the operator's own networks do not take the company's proxy.
bool isInternal(const model::EgressSettings& egress, const std::string& host) {
  const auto internal = model::readInternal(egress.internal);
  return internal && std::ranges::any_of(internal->names, [&](const model::NetworkEntry& entry) {
           return model::coversName(entry.name, host);
         });
}

Result<Prepared> prepare(Ecosystem ecosystem, const model::PackageSettings& packages,
                         const model::EgressSettings& egress,
                         std::shared_ptr<boost::asio::ssl::context> tls) {
  const model::PackageSource& source = packages.source(ecosystem);
  const std::string key = keyOf(ecosystem);
  Prepared made{.ecosystem = ecosystem, .folder = {}};
  if (source.index.starts_with('/')) {
    auto folder = PackageFolder::open(source.index);
    if (!folder) return std::unexpected(std::move(folder).error().within(key));
    made.folder = *std::move(folder);
    return made;
  }
  auto url = parseUpstreamUrl(source.index);
  if (!url) return std::unexpected(std::move(url).error().within(key));
  while (url->target.ends_with('/'))
    url->target.pop_back();
  made.direct = isInternal(egress, url->host);
  made.options.index = *std::move(url);
  made.options.file_hosts = source.file_hosts;
  made.options.tls = std::move(tls);
  made.options.timeout = std::chrono::seconds(packages.timeout_seconds);
  made.options.most_index = size_t{packages.index_mb} << 20U;
  if (!source.credentials_file.empty()) {
    made.options.authorization =
        TRY(readAuthorization(source.credentials_file, key + ".credentials_file"));
  }
  return made;
}

// The public rules for addresses hold for every host but the index itself.
DialUpstream dialBy(Dialler& dialler, bool direct) {
  return [&dialler, direct](std::string host, uint16_t port,
                            bool own) -> boost::asio::awaitable<Result<Fd>> {
    auto dialled = own ? co_await dialler.dialOwn(host, port, direct)
                       : co_await dialler.dial({.name = host, .port = port});
    if (!dialled) co_return std::unexpected(std::move(dialled).error());
    if (!dialled->early.empty()) {
      co_return fail(Code::kUnavailable, "the package index speaks before it is asked");
    }
    boost::system::error_code error;
    const int socket = dialled->socket.release(error);
    if (error) co_return fail(Code::kInternal, "taking a socket: " + error.message());
    co_return Fd(socket);
  };
}

PackageOrigin originOf(const Prepared& prepared, Dialler& dialler) {
  PackageOrigin origin;
  origin.folder = prepared.folder;
  if (origin.folder) return origin;
  UpstreamOptions options = prepared.options;
  options.dial = dialBy(dialler, prepared.direct);
  origin.upstream = std::make_unique<PackageUpstream>(std::move(options));
  return origin;
}

}  // namespace

Result<std::string> readAuthorization(const std::string& path, const std::string& key) {
  constexpr size_t kMost = 8192;
  constexpr std::string_view kBearer = "Bearer ";
  auto text = base::readFile(path, kMost);
  if (!text) return std::unexpected(std::move(text).error().within(key));
  std::string_view line = *text;
  while (line.ends_with('\n') || line.ends_with('\r'))
    line.remove_suffix(1);
  const bool plain = std::ranges::none_of(
      line, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
  const bool token = line.starts_with(kBearer) && line.size() > kBearer.size();
  if (!plain || (!token && line.find(':') == std::string_view::npos)) {
    return fail(Code::kInvalid, key + ": must have one line, USER:PASSWORD or Bearer TOKEN", key);
  }
  return token ? std::string(line) : "Basic " + base::toBase64(line);
}

Result<MakeGateway> prepareGateway(const model::PackageSettings& packages,
                                   uint32_t advisories_seconds,
                                   const model::EgressSettings& egress) {
  const std::vector<Ecosystem> ecosystems = packages.ecosystems();
  if (ecosystems.empty()) return MakeGateway();
  auto tls = std::make_shared<boost::asio::ssl::context>(
      TRY(net::clientTls(packages.ca_file, "packages.ca_file")));
  auto prepared = std::make_shared<std::vector<Prepared>>();
  for (const Ecosystem each : ecosystems)
    prepared->push_back(TRY(prepare(each, packages, egress, tls)));
  GatewayBounds bounds;
  bounds.index_kept = std::chrono::seconds(packages.index_seconds);
  bounds.at_once = packages.concurrent;
  constexpr size_t kParts = 4;  // a single sandbox cannot take all
  bounds.of_one = std::max<size_t>(2, packages.concurrent / kParts);
  bounds.of_tenant = std::max<size_t>(2, packages.concurrent / 2);  // nor can a single tenant
  auto advisories = model::advisoriesOf(packages.advisories, advisories_seconds);
  if (advisories) TRY(advisories->now());
  return [prepared, bounds, advisories](boost::asio::any_io_executor executor, Dialler& dialler) {
    std::map<Ecosystem, PackageOrigin> origins;
    for (const Prepared& each : *prepared)
      origins.emplace(each.ecosystem, originOf(each, dialler));
    return std::make_unique<PackageGateway>(std::move(executor), std::move(origins), bounds,
                                            advisories);
  };
}

}  // namespace cloister::egress
