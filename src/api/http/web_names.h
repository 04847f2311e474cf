// SPDX-License-Identifier: Apache-2.0
// The names by which browsers and clients reach the service: names in Host, origins of pages that
// may call the API (CORS), and the domain whose names are ports of sessions. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"

namespace cloister::api {

struct Request;
struct Response;

struct WebNames {
  std::vector<std::string> hosts = {};      // in Host, beyond names of loopback
  std::vector<std::string> origins = {};    // exact, as browsers send them, in lower case
  std::string ports_domain = {};            // NAME[:PORT]; "": no name is a port of a session
  std::vector<base::Network> proxies = {};  // whose X-Forwarded-* headers are believed
  std::string base_path = {};               // unless a proxy says another; "" or "/path"
};

// Finds out how the client reaches the service (Request::origin, base_path and peer).
void noteWayHere(Request& request, const WebNames& names);

// The host of an authority, without its port.
std::string_view hostOf(std::string_view authority);

// A port of a session, named by Host.
struct HostPort {
  std::string session;  // its id; "": the name is below the domain, and of no session
  uint16_t port = 0;
};
// The port for the value of Host `<port>-<id with - for _>.<domain>`, in any case, with any port
// number, and with or without a final dot. nullopt for other names.
std::optional<HostPort> hostPortOf(std::string_view host, std::string_view domain);
// The name of a port: "8000-ses-01jd….sandboxes.example.com", with the domain's port number, or
// else with that of `asked`, the Host of the present request.
std::string hostNameOf(const std::string& session, uint16_t port, std::string_view domain,
                       std::string_view asked);

// Whether a page of another origin sent the request, and the origin is listed.
bool isListedOrigin(const Request& request, const WebNames& names);
// The answer to a preflight of a listed origin (Fetch, "CORS protocol"); nullopt for other
// requests.
std::optional<Response> preflightAnswer(const Request& request, const WebNames& names);
// Lets the page read the answer. The service never accepts cookies from other origins, so no answer
// allows credentials.
void allowToRead(const Request& request, const WebNames& names, Response& response);

}  // namespace cloister::api
