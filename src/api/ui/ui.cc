// SPDX-License-Identifier: Apache-2.0
#include "api/ui/ui.h"

#include <algorithm>
#include <iterator>

#include "api/http/fixed_body.h"
#include "api/http/problem.h"

namespace cloister::api::ui {
namespace {

constexpr std::string_view kImmutable = "public, max-age=31536000, immutable";
constexpr std::string_view kMissing =
    "The web interface is not installed. The package of Cloister has its files in "
    "share/cloister/web. In a source tree run `npm ci` and `npm run build` in web/, and start the "
    "service again. The API at /v1/ and the command line do not need the files.\n";

// The port number of Host, with its colon; "" without one.
std::string_view portOf(std::string_view origin) {
  const size_t colon = origin.rfind(':');
  const bool has = colon != std::string_view::npos && colon + 1 < origin.size() &&
                   origin.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  return has ? origin.substr(colon) : std::string_view();
}

std::string policyOf(const UiParts& parts, const Request& request) {
  std::string frames = "'self' blob:";
  if (const std::string& domain = parts.rest.ports_domain; !domain.empty()) {
    frames += " *." + domain;
    if (!domain.contains(':')) frames += portOf(request.origin);
  }
  // Not 'self': ports and artifacts of sandboxes are on this origin, too.
  const std::string own =
      request.origin.empty() ? "'self'" : request.origin + request.base_path + "/ui/assets/";
  return "default-src 'none'; script-src " + own +
         "; style-src 'self' 'unsafe-inline'; "
         "img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; worker-src " +
         own + "; frame-src " + frames +
         "; frame-ancestors 'none'; base-uri 'self'; form-action 'self'";
}

bool takesGzip(const Request& request) {
  std::string text = lowerCase(request.header("accept-encoding"));
  std::erase(text, ' ');
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view each = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(each.size() + 1, rest.size()));
    if (each == "gzip") return true;
    if (!each.starts_with("gzip;q=")) continue;
    return each.find_first_of("123456789") != std::string_view::npos;
  }
  return false;
}

// RFC 9110 §13.1.2, weak comparison.
bool isKnown(const Request& request, std::string_view etag) {
  std::string_view rest = request.header("if-none-match");
  if (rest == "*") return true;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    std::string_view each = rest.substr(0, end);
    while (each.starts_with(' '))
      each.remove_prefix(1);
    while (each.ends_with(' '))
      each.remove_suffix(1);
    if (each.starts_with("W/")) each.remove_prefix(2);
    if (each == etag) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

// Without the body.
Response answerOf(const Request& request, const std::string& type, std::string_view etag,
                  std::string_view caching) {
  Response response;
  response.with("ETag", std::string(etag))
      .with("Cache-Control", std::string(caching))
      .with("Vary", "Accept-Encoding");
  if (isKnown(request, etag)) {
    response.status = 304;
    return response;
  }
  response.with("Content-Type", type);
  return response;
}

Response fileAnswer(const Request& request, const File& file, bool hashed) {
  const std::string_view caching = hashed ? kImmutable : "no-cache";
  const bool packed = !file.gzip.empty() && takesGzip(request);
  const std::string etag = packed ? file.etag.substr(0, file.etag.size() - 1) + "-gz\"" : file.etag;
  Response response = answerOf(request, file.type, etag, caching);
  if (packed) response.with("Content-Encoding", "gzip");
  if (response.status == 200) sendFixed(response, packed ? file.gzip : file.bytes);
  return response;
}

Response indexAnswer(const UiParts& parts, const Request& request) {
  constexpr size_t kTagDigits = 32;
  std::string text = parts.files.index(request.base_path);
  const std::string etag = "\"" + base::sha256Hex(text).substr(0, kTagDigits) + "\"";
  Response response = answerOf(request, "text/html; charset=utf-8", etag, "no-cache");
  if (response.status == 200) response.body = std::move(text);
  return response;
}

Response missing() {
  Response response;
  response.status = 404;
  response.with("Content-Type", "text/plain; charset=utf-8");
  response.body = kMissing;
  return response;
}

Response redirect(std::string to) {
  Response response;
  response.status = 303;
  response.with("Location", std::move(to));
  return response;
}

// A path without a dot in its last segment is a screen of the interface, not a file.
bool isScreen(std::string_view path) {
  const size_t slash = path.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return !last.contains('.');
}

Task<Result<Response>> file(UiParts& parts, Request& request) {
  if (!parts.files.installed()) co_return missing();
  const std::string& path = request.params[0];
  if (path == "index.html") co_return indexAnswer(parts, request);
  if (const File* found = parts.files.find(path)) {
    co_return fileAnswer(request, *found, path.starts_with("assets/"));
  }
  if (isScreen(path) && !path.starts_with("assets/")) co_return indexAnswer(parts, request);
  co_return fail(Code::kNotFound, "the web interface has no such file; open /ui/", "url.path");
}

Task<Result<Response>> folder(UiParts&, Request& request) {
  co_return redirect(request.base_path + "/ui/");
}

// Browsers alone ask for a page; a client of the API learns that nothing is here.
Task<Result<Response>> root(UiParts&, Request& request) {
  if (lowerCase(request.header("accept")).contains("text/html")) {
    co_return redirect(request.base_path + "/ui/").with("Vary", "Accept");
  }
  co_return problem(404, "no such path; see /openapi.yaml").with("Vary", "Accept");
}

}  // namespace

void addHeaders(const UiParts& parts, const Request& request, Response& response) {
  response.with("Content-Security-Policy", policyOf(parts, request))
      .with("X-Frame-Options", "DENY")
      .with("Referrer-Policy", "no-referrer")
      .with("Cross-Origin-Opener-Policy", "same-origin")
      .with("Cross-Origin-Resource-Policy", "same-origin");
}

std::function<Task<Result<Response>>(Request&)> guarded(
    const UiParts& parts, std::function<Task<Result<Response>>(Request&)> handle) {
  return [&parts, handle = std::move(handle)](Request& request) -> Task<Result<Response>> {
    auto made = co_await handle(request);
    Response response = made ? *std::move(made) : problem(made.error(), request);
    addHeaders(parts, request, response);
    co_return response;
  };
}

std::vector<Route> fileRoutes(UiParts& parts) {
  const auto get = [&parts](std::string_view pattern, auto handler) {
    return Route{.method = "GET",
                 .pattern = pattern,
                 .access = anyone(),
                 .query = {},
                 .handle = [&parts, handler](Request& request) { return handler(parts, request); },
                 .any_query = true};
  };
  return {get("/", root), get("/ui", folder), get("/ui/{rest}", file)};
}

std::vector<Route> uiRoutes(UiParts& parts) {
  std::vector<Route> all;
  for (auto routes : {sessionRoutes, loginRoutes, fileRoutes}) {
    std::vector<Route> some = routes(parts);
    for (Route& route : some)
      route.handle = guarded(parts, std::move(route.handle));
    std::ranges::move(some, std::back_inserter(all));
  }
  return all;
}

}  // namespace cloister::api::ui
