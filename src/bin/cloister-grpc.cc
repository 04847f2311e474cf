// SPDX-License-Identifier: Apache-2.0
// `cloister-grpc`: gRPC for internal clients of the REST API. A client of that API itself: it
// passes on the keys of its callers, and has neither a key nor a privilege.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include "base/file.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/version.h"
#include "net/trust.h"
#include "net/url.h"
#include "rpc/server.h"

namespace cloister {
namespace {

using base::Flag;
using base::Flags;

constexpr Flag kFlags[] = {
    {.name = "listen", .value = "ADDRESS", .help = "host:port or unix:/path"},
    {.name = "url", .value = "URL", .help = "the service, or unix:/path"},
    {.name = "tls-certificate", .value = "FILE", .help = "speak TLS"},
    {.name = "tls-key", .value = "FILE", .help = "its private key"},
    {.name = "insecure", .value = "", .help = "plain TCP on any address"},
    {.name = "max-calls", .value = "N", .help = "calls under way"},
    {.name = "max-message-bytes", .value = "N", .help = "size of a message"},
    {.name = "max-streams", .value = "N", .help = "calls of one connection"},
    {.name = "keepalive", .value = "SECONDS", .help = "between pings"},
    {.name = "stall", .value = "SECONDS", .help = "in which a stream moves nothing"},
    {.name = "grace", .value = "SECONDS", .help = "for calls under way at the end"},
    {.name = "version", .value = "", .help = "print the version"},
    {.name = "help", .value = "", .help = "print this", .letter = 'h'},
};

// tools/manual.py and tools/flag_completion.py read it: one line for each flag.
constexpr std::string_view kUsage =
    "usage: cloister-grpc [flags]     gRPC for internal clients of a service\n"
    "\n"
    "Flags:\n"
    "  --listen ADDRESS         HOST:PORT or unix:/path; port 0: any (default: 127.0.0.1:8751)\n"
    "  --url URL                http[s]://HOST:PORT or unix:/path of the service (default: below)\n"
    "  --tls-certificate FILE   speak TLS, with this chain of certificates (PEM)\n"
    "  --tls-key FILE           the private key of the certificate (PEM)\n"
    "  --insecure               plain TCP on an address other than loopback\n"
    "  --max-calls N            calls under way at once (default: 256)\n"
    "  --max-message-bytes N    size of one message, at least 131072 (default: 33554432)\n"
    "  --max-streams N          calls of one connection (default: 100)\n"
    "  --keepalive SECONDS      between pings on a silent connection (default: 60)\n"
    "  --stall SECONDS          for which a stream may move nothing (default: 60)\n"
    "  --grace SECONDS          for calls under way when the program stops (default: 10)\n"
    "  --version                print the version\n"
    "  -h, --help               print this\n"
    "\n"
    "The service is $CLOISTER_URL, or else http://127.0.0.1:8750. $CLOISTER_CA names a file with "
    "the\n"
    "authority of its certificate. The key of a caller comes in the metadata `authorization` "
    "(Bearer)\n"
    "or `x-api-key`, and is passed on. docs/howto/grpc.md describes the calls.\n"
    "\n"
    "Examples:\n"
    "  cloister-grpc --listen unix:/run/cloister-grpc/socket\n"
    "  cloister-grpc --listen 0.0.0.0:8751 --tls-certificate server.pem --tls-key server.key\n";

constexpr int kStatusFailed = 1;
constexpr int kStatusUsage = 2;
constexpr size_t kMaxPem = size_t{1} << 20;
constexpr size_t kMaxSocket = 107;  // sockaddr_un
constexpr std::string_view kUnix = "unix:";

Result<net::Url> urlOf(const Flags& flags) {
  const char* variable = ::getenv("CLOISTER_URL");
  const bool set = variable != nullptr && *variable != '\0';
  const std::string text = flags.text("url").value_or(set ? variable : "http://127.0.0.1:8750");
  if (!text.starts_with(kUnix)) return net::parseBaseUrl(text);
  net::Url url{.tls = false, .host = "localhost", .port = "80", .target = "", .socket = text};
  url.socket.erase(0, kUnix.size());
  if (!url.socket.starts_with('/') || url.socket.size() > kMaxSocket) {
    return fail(Code::kInvalid, "--url: must name a UNIX socket by its absolute path", "url");
  }
  return url;
}

Result<> readTls(const Flags& flags, rpc::Settings& settings) {
  const auto certificate = flags.text("tls-certificate");
  const auto key = flags.text("tls-key");
  if (certificate.has_value() != key.has_value()) {
    return fail(Code::kInvalid, "--tls-certificate and --tls-key belong together", "tls-key");
  }
  if (!certificate) return {};
  settings.tls_certificate = TRY(base::readFile(*certificate, kMaxPem));
  settings.tls_key = TRY(base::readFile(*key, kMaxPem));
  return {};
}

Result<> readBounds(const Flags& flags, rpc::Bounds& bounds) {
  constexpr int64_t kMostMessage = int64_t{1} << 28;
  constexpr int64_t kLeastMessage = 131'072;  // streams have pieces of 64 KiB
  constexpr int64_t kMostCalls = 100'000;
  constexpr int64_t kMostSeconds = 86'400;
  const auto seconds = [&](std::string_view name, Millis& into) -> Result<> {
    if (const auto given = TRY(flags.number(name, 0.1, kMostSeconds))) {
      into = Millis(static_cast<int64_t>(*given * 1'000));
    }
    return {};
  };
  if (const auto calls = TRY(flags.integer("max-calls", 1, kMostCalls))) {
    bounds.calls = static_cast<size_t>(*calls);
  }
  if (const auto bytes = TRY(flags.integer("max-message-bytes", kLeastMessage, kMostMessage))) {
    bounds.message_bytes = static_cast<size_t>(*bytes);
  }
  if (const auto streams = TRY(flags.integer("max-streams", 1, kMostCalls))) {
    bounds.streams_per_connection = static_cast<int>(*streams);
  }
  TRY(seconds("keepalive", bounds.keepalive));
  TRY(seconds("stall", bounds.stall));
  return seconds("grace", bounds.grace);
}

Result<rpc::Settings> settingsOf(const Flags& flags) {
  if (!flags.operands().empty() || !flags.rest().empty()) {
    return fail(Code::kInvalid, "takes flags alone; see --help");
  }
  rpc::Settings settings;
  settings.listen = flags.text("listen").value_or("127.0.0.1:8751");
  settings.insecure = flags.has("insecure");
  TRY(readTls(flags, settings));
  TRY(readBounds(flags, settings.bounds));
  return settings;
}

// The libraries' messages, as lines of ours.
void logLibraries() {
  gpr_set_log_function([](gpr_log_func_args* arguments) {
    const bool bad = arguments->severity == GPR_LOG_SEVERITY_ERROR;
    base::log(bad ? base::Level::kWarn : base::Level::kDebug, "gRPC",
              {{"message", arguments->message}});
  });
  google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string& message) {
        base::log(base::Level::kDebug, "protobuf", {{"message", message}});
      });
}

// An io_context that can drop pending handlers while the objects used by the handlers still exist.
struct IoContext : boost::asio::io_context {
  using boost::asio::execution_context::shutdown;
  using boost::asio::io_context::io_context;
};

Result<> serve(const Flags& flags) {
  rpc::Settings settings = TRY(settingsOf(flags));
  net::Url url = TRY(urlOf(flags));
  net::Trust trust = net::Trust::fromEnvironment();
  trust.certificate.clear();  // its authority would be that of every caller
  trust.key.clear();
  auto tls = TRY(net::clientTls(trust));
  const std::string service = url.socket.empty() ? url.origin() : std::string(kUnix) + url.socket;
  IoContext io(1);
  const auto server =
      TRY(rpc::Server::start(io, std::move(settings), std::move(url), std::move(tls)));
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&server](const boost::system::error_code& error, int) {
    if (error) return;
    base::log(base::Level::kInfo, "stopping");
    server->stop();
  });
  base::log(base::Level::kInfo, "listening",
            {{"address", server->address()}, {"service", service}});
  io.run();
  io.shutdown();
  return {};
}

int run(const std::vector<std::string>& arguments) {
  const auto flags = Flags::parse(kFlags, arguments);
  if (flags && flags->has("help")) {
    std::fputs(kUsage.data(), stdout);
    return 0;
  }
  if (flags && flags->has("version")) {
    std::printf("cloister-grpc %s\n", std::string(base::version()).c_str());
    return 0;
  }
  const auto served = flags ? serve(*flags) : std::unexpected(flags.error());
  if (served) return 0;
  std::fprintf(stderr, "cloister-grpc: %s\n", served.error().message.c_str());
  return served.error().code == Code::kInvalid ? kStatusUsage : kStatusFailed;
}

}  // namespace
}  // namespace cloister

int main(int argc, char** argv) {
  cloister::base::initLog("cloister-grpc");
  std::signal(SIGPIPE, SIG_IGN);
  cloister::logLibraries();
  return cloister::run({argv + 1, argv + argc});
}
