// SPDX-License-Identifier: Apache-2.0
// The simple API of PyPI: /simple/NAME/, /files/NAME/FILE and /files/NAME/FILE.metadata.
#include <utility>

#include "base/crypto.h"
#include "egress/packages/gateway_parts.h"

namespace cloister::egress {
namespace {

constexpr auto kPypi = model::Ecosystem::kPypi;
constexpr std::string_view kJsonType = "application/vnd.pypi.simple.v1+json";
constexpr std::string_view kHtmlType = "application/vnd.pypi.simple.v1+html";
constexpr std::string_view kMetadata = ".metadata";

// Whether the header takes the type, with a weight other than 0 (RFC 9110, section 12.5.1).
bool accepts(std::string_view header, std::string_view type) {
  while (!header.empty()) {
    const size_t comma = std::min(header.find(','), header.size());
    std::string_view one = header.substr(0, comma);
    header.remove_prefix(std::min(comma + 1, header.size()));
    while (one.starts_with(' '))
      one.remove_prefix(1);
    if (!one.starts_with(type)) continue;
    const size_t weight = one.find("q=0");
    const bool zero = weight != std::string_view::npos &&
                      one.substr(weight + 3).find_first_not_of(".0 ") == std::string_view::npos;
    if (!zero) return true;
  }
  return false;
}

GatewayAnswer page(const std::string& accept, std::string_view name, const PypiOffer& offer) {
  GatewayAnswer answer;
  if (accepts(accept, kJsonType)) {
    answer.type = kJsonType;
    answer.body = pypiJson(name, offer);
  } else {
    answer.type = accepts(accept, kHtmlType) ? std::string(kHtmlType) : "text/html; charset=utf-8";
    answer.body = pypiHtml(name, offer);
  }
  return answer;
}

// The refusal of a version of which no file is allowed.
std::optional<PackageRefusal> refusalOf(const PypiProject& project, std::string_view version,
                                        const PackageJudge& judge) {
  for (const PypiFile& file : project.files) {
    if (file.version != version) continue;
    if (auto refusal = judge.judge(file.candidate())) return refusal;
  }
  return std::nullopt;
}

}  // namespace

PackageGateway::Task<GatewayAnswer> PackageGateway::pypi(Asked& asked) {
  const auto& segments = asked.segments;
  const bool slash = segments.size() == 3 && segments[2].empty();
  const bool index = segments[0] == "simple" && (segments.size() == 2 || slash);
  const bool file = segments[0] == "files" && segments.size() == 3;
  if ((!index && !file) || !model::isPackageName(kPypi, segments[1])) {
    co_return sentence(kPypi, 404, "The package gateway has /simple/NAME/ alone.");
  }
  const std::string name = model::normalName(segments[1]);
  if (file) co_return co_await pypiFile(asked, name, segments[2]);
  if (!slash || name != segments[1]) {
    GatewayAnswer answer = sentence(kPypi, 301, "The page is elsewhere.");
    answer.reason = "Moved Permanently";
    answer.location = "/simple/" + name + "/";
    co_return answer;
  }
  co_return co_await pypiIndex(asked, name);
}

PackageGateway::Task<Result<std::shared_ptr<const PypiProject>>> PackageGateway::pypiProject(
    Asked& /*asked*/, std::string name) {
  co_return co_await pypi_.get(name, [this, name]() -> Task<Result<PypiProject>> {
    const auto place = CO_TRY(co_await turn(indexes_, bounds_.at_once));
    const PackageOrigin& origin = origins_.at(kPypi);
    if (origin.folder) co_return origin.folder->pypi(name);
    const auto document = CO_TRY(co_await origin.upstream->document(
        "/" + name + "/",
        std::string(kJsonType) + ", " + std::string(kHtmlType) + ";q=0.2, text/html;q=0.1"));
    if (const auto* json = std::get_if<base::json::value>(&document.content)) {
      co_return readPypiJson(*json, name, document.url);
    }
    co_return readPypiHtml(std::get<std::string>(document.content), name, document.url);
  });
}

PackageGateway::Task<GatewayAnswer> PackageGateway::pypiIndex(Asked& asked, std::string name) {
  const PackageJudge judge = asked.judge(name);
  const std::string& accept = asked.request.accept;
  if (const auto refusal = judge.name()) {
    GatewayAnswer answer = page(accept, name, refusedOffer(*refusal));
    answer.refusal = refusal;
    co_return answer;
  }
  const auto project = co_await pypiProject(asked, name);
  if (!project) co_return failedBy(kPypi, project.error());
  const PypiOffer offer = offerOf(**project, judge);
  GatewayAnswer answer = page(accept, name, offer);
  if (offer.allowed.empty() && !offer.refused.empty()) {
    answer.refusal = refusalOf(**project, offer.refused.back().version, judge);
  }
  co_return answer;
}

PackageGateway::Task<GatewayAnswer> PackageGateway::pypiFile(Asked& asked, std::string name,
                                                             std::string filename) {
  const PackageJudge judge = asked.judge(name);
  if (const auto refusal = judge.name()) co_return refusedBy(kPypi, *refusal);
  const auto project = co_await pypiProject(asked, name);
  if (!project) co_return failedBy(kPypi, project.error());
  const bool metadata = filename.ends_with(kMetadata);
  if (metadata) filename.resize(filename.size() - kMetadata.size());
  const PypiFile* file = (*project)->find(filename);
  const auto read = readPypiFileName(filename, name);
  if (file == nullptr && read) {
    const auto refusal = refusalOf(**project, read->version, judge);
    if (refusal) co_return refusedBy(kPypi, *refusal);
  }
  if (file == nullptr || (metadata && !file->has_metadata)) {
    co_return sentence(kPypi, 404, "The index does not have the file.");
  }
  if (const auto refusal = judge.judge(file->candidate())) co_return refusedBy(kPypi, *refusal);
  if (metadata) co_return co_await pypiMetadata(asked, *file);
  UpstreamUrl url = file->url;
  if (origins_.at(kPypi).folder) url.target = "/" + file->filename;
  co_return co_await sendFile(
      asked, name, std::move(url),
      {.file = file->filename, .version = file->version, .sha256 = file->sha256});
}

// PEP 658: the metadata of a wheel, beside it.
PackageGateway::Task<GatewayAnswer> PackageGateway::pypiMetadata(Asked& asked,
                                                                 const PypiFile& file) {
  constexpr size_t kMost = size_t{4} << 20;
  const PypiFile own = file;  // of the cache, which may drop it
  const auto place = co_await turn(files_, bounds_.at_once);
  if (!place) co_return failedBy(kPypi, place.error());
  const PackageOrigin& origin = origins_.at(kPypi);
  UpstreamUrl url = own.url;
  const size_t query = std::min(url.target.find('?'), url.target.size());
  url.target.insert(query, kMetadata);
  auto body = co_await origin.upstream->file(std::move(url));
  if (!body) co_return failedBy(kPypi, body.error());
  GatewayAnswer answer;
  answer.type = "application/octet-stream";
  while (true) {
    const auto piece = co_await origin.upstream->next(*body);
    if (!piece) co_return failedBy(kPypi, piece.error());
    if (piece->empty()) break;
    answer.body += *piece;
    if (answer.body.size() > kMost) {
      co_return sentence(kPypi, 502, "The metadata of the wheel is too large.");
    }
  }
  if (!own.metadata_sha256.empty() && base::sha256Hex(answer.body) != own.metadata_sha256) {
    co_return refusedBy(
        kPypi, asked.judge(asked.segments[1]).wrongHash(own.filename + std::string(kMetadata)));
  }
  co_return answer;
}

}  // namespace cloister::egress
