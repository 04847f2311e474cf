// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/network_hint.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace cloister::orchestrator {
namespace {

struct Known {
  std::string_view text;  // in lower case
  std::string_view why;   // whose text it is
};

// The rows are compared without regard to case.
constexpr std::array kKnown = {
    Known{"temporary failure in name resolution", "EAI_AGAIN of glibc: Python, ssh, wget, ping"},
    Known{"name or service not known", "EAI_NONAME of glibc"},
    Known{"name does not resolve", "EAI_NONAME of musl"},
    Known{"could not resolve host", "curl (6), git over http, pip's vendored urllib3"},
    Known{"unable to resolve host", "wget"},
    Known{"temporary failure resolving", "apt-get"},
    Known{"getaddrinfo eai_again", "Node, and npm"},
    Known{"getaddrinfo enotfound", "Node, and npm"},
    Known{"code eai_again", "npm, which prints the code alone"},
    Known{"enetunreach", "Node: connect(2) without a route"},
    Known{"network is unreachable", "ENETUNREACH of strerror(3): curl (7), Python, Go, ssh"},
    Known{"dial tcp: lookup", "Go's net"},
    Known{"failed to lookup address information", "Rust's std::net"},
    Known{"java.net.unknownhostexception", "Java"},
    Known{"failed to open tcp connection to", "Ruby's net/http"},
    Known{"php_network_getaddresses", "PHP"},
    Known{"(from versions: none)", "pip without an index; it prints no reason of its own"},
    Known{"dns error: failed to lookup", "reqwest, so uv and cargo"},
};

// A program in a session has the network of its session, fixed when the session is made.
constexpr char kSessionHint[] =
    "this session has no network (network_policy.tier is \"none\"), and the program's output says "
    "that it looked for one; make a session that names the destinations in network_policy, as "
    "{\"tier\": \"restricted\", \"allow\": [\"example.com:443\"]} or with `--allow "
    "example.com:443`; the policy must grant them";
constexpr char kHint[] =
    "this run has no network (network_policy.tier is \"none\"), and its output says that it looked "
    "for one; name the destinations that it needs in network_policy, as {\"tier\": "
    "\"restricted\", \"allow\": [\"example.com:443\"]} or with `--allow example.com:443`; the "
    "policy must grant them";

bool hasText(std::string_view output, std::string_view text) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == static_cast<unsigned char>(b);
  };
  return std::ranges::search(output, text, same).begin() != output.end();
}

bool looksForNetwork(std::string_view output) {
  return std::ranges::any_of(kKnown,
                             [&](const Known& known) { return hasText(output, known.text); });
}

}  // namespace

// A program with exit code 0 did its task by its own account. The words in its output may then be
// data, as of a program that reads logs, and a hint would send its reader the wrong way.
std::optional<std::string> networkHint(const model::Execution& ended, const OutputTails& tails) {
  const bool well = ended.status == model::Status::kCompleted && ended.exit_code.value_or(0) == 0;
  if (well || !(looksForNetwork(tails.err) || looksForNetwork(tails.out))) return std::nullopt;
  return ended.session_id.empty() ? kHint : kSessionHint;
}

}  // namespace cloister::orchestrator
