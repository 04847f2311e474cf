// SPDX-License-Identifier: Apache-2.0
#include "registry/sources.h"

#include <utility>

#include "base/crypto.h"

namespace cloister::registry {
namespace {

constexpr std::string_view kManifestTypes =
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json";
constexpr std::string_view kIndexType = "application/vnd.oci.image.index.v1+json";
// Docker Hub's API is not at the name in its references.
constexpr std::string_view kDockerHubApi = "registry-1.docker.io";

// Keeps a blob in memory.
class Text : public Sink {
 public:
  Result<> write(std::string_view bytes) override {
    text += bytes;
    return {};
  }
  Result<> restart() override {
    text.clear();
    return {};
  }
  std::string text;
};

// The key of a mirror in the credentials: its host, with a port that is not the scheme's.
std::string hostOf(const net::Url& url) {
  const bool usual = url.port == (url.tls ? "443" : "80");
  const std::string host = url.host.contains(':') ? "[" + url.host + "]" : url.host;
  return usual ? host : host + ":" + url.port;
}

}  // namespace

Result<net::Url> parseMirror(std::string_view text) {
  auto url = net::parseUrl(text);
  if (!url) return url;
  while (url->target.ends_with('/'))
    url->target.pop_back();
  if (url->target.empty() || isRepository(url->target.substr(1))) return url;
  return fail(Code::kInvalid, "must have a path as repositories have, or none");
}

Result<Sources> Sources::of(const Reference& reference, const model::ImageSettings& settings,
                            base::Monotonic deadline) {
  const Credentials credentials = TRY(Credentials::load(settings.credentials_file));
  Sources out;
  const auto add = [&](net::Url url, const std::string& name) -> Result<> {
    ClientOptions options{.base = std::move(url),
                          .name = name,
                          .ca_file = settings.ca_file,
                          .login = TRY(credentials.at(name)),
                          .deadline = deadline,
                          .stall = std::chrono::seconds(settings.pull_stall_seconds),
                          .attempts = settings.pull_attempts};
    out.sources_.push_back(
        {.client = Client(std::move(options)), .repository = reference.repository});
    return {};
  };
  const auto mirrors = settings.mirrors.find(reference.registry);
  if (mirrors != settings.mirrors.end()) {
    for (const std::string& text : mirrors->second) {
      auto url = parseMirror(text);
      if (!url) {
        return std::unexpected(std::move(url).error().within("images.mirrors: " + text));
      }
      const std::string name = hostOf(*url);
      TRY(add(*std::move(url), name));
    }
  }
  const std::string host(reference.registry == kDockerHub ? kDockerHubApi : reference.registry);
  auto url = net::parseBaseUrl((reference.tls ? "https://" : "http://") + host);
  if (!url) return std::unexpected(std::move(url).error());
  TRY(add(*std::move(url), reference.registry));
  return out;
}

// The errors of all sources, with the code of the last one, which is the registry itself.
template <class T>
Result<T> Sources::firstOf(const auto& ask, bool* lacking) {
  std::optional<Error> failed;
  for (Source& source : sources_) {
    Result<T> result = source.down ? Result<T>(std::unexpected(*source.down)) : ask(source);
    if (result) return result;
    Error error = std::move(result).error();
    if (error.code == Code::kUnavailable) source.down = error;
    if (error.code == Code::kNotFound && lacking != nullptr) *lacking = true;
    if (failed) error.message = failed->message + "; " + error.message;
    failed = std::move(error);
  }
  if (failed) return std::unexpected(*std::move(failed));
  return fail(Code::kInternal, "no source of images");
}

Result<Document> Sources::manifest(const std::string& digest) {
  return firstOf<Document>([&](Source& source) -> Result<Document> {
    Document out = TRY(source.client.document(source.repository, "/manifests/" + digest,
                                              kManifestTypes, kMostManifest));
    const std::string found = "sha256:" + base::sha256Hex(out.bytes);
    if (found == digest) return out;
    return fail(Code::kInvalid, "registry " + source.client.name() + ": the manifest " + digest +
                                    " has the digest " + found + ": it is damaged or was changed");
  });
}

Result<std::optional<Document>> Sources::optionally(const std::string& rest) {
  bool lacking = false;
  auto found = firstOf<Document>(
      [&](Source& source) {
        return source.client.document(source.repository, rest, kManifestTypes, kMostManifest);
      },
      &lacking);
  if (found) return std::optional(*std::move(found));
  // A mirror may be all that can be reached. Nothing is permitted because something is absent.
  if (lacking) return std::nullopt;
  return std::unexpected(std::move(found).error());
}

Result<std::optional<Document>> Sources::tagged(const std::string& tag) {
  return optionally("/manifests/" + tag);
}

Result<std::optional<Document>> Sources::referrers(const std::string& digest) {
  auto found = TRY(optionally("/referrers/" + digest));
  // A registry without the interface may answer with a page of its own.
  if (found && found->type != kIndexType) found.reset();
  if (found) return found;
  std::string tag = digest;
  tag[tag.find(':')] = '-';
  return tagged(tag);
}

Result<> Sources::blob(const std::string& digest, uint64_t size, Sink& sink) {
  bool again = false;
  return firstOf<void>([&](Source& source) -> Result<> {
    if (std::exchange(again, true)) TRY(sink.restart());
    return source.client.blob(source.repository, digest, size, sink);
  });
}

Result<std::string> Sources::smallBlob(const std::string& digest, uint64_t size, size_t most) {
  if (size > most) {
    return fail(Code::kTooLarge, "blob " + digest + " is " + std::to_string(size) +
                                     " bytes, but at most " + std::to_string(most) + " are read");
  }
  Text text;
  TRY(blob(digest, size, text));
  return std::move(text.text);
}

}  // namespace cloister::registry
