// SPDX-License-Identifier: Apache-2.0
#include "notify/smtp.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>

#include "auth/fetch.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/file.h"

namespace cloister::notify {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

template <class T>
using Task = asio::awaitable<T>;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr size_t kMaxReply = 16'384;
constexpr int kMaxLines = 100;
constexpr size_t kCode = 3;
constexpr size_t kMaxCommand = 512;  // RFC 5321 §4.5.3.1.4

struct Relay {
  std::string host;
  std::string port;
  std::string from;
  std::vector<std::string> to;
  bool starttls = true;
  std::string user;  // "": without authentication
  std::string password;
  asio::ssl::context tls;
  Millis timeout{0};
};

std::unexpected<Error> failed(const Relay& relay, const std::string& what) {
  return fail(Code::kUnavailable, "mail relay " + relay.host + ": " + what);
}

struct Reply {
  int code = 0;
  std::string text;  // all lines
};

// The words behind `keyword` in the answer to EHLO, in capitals, as " PLAIN LOGIN"; nullopt where
// it is not offered.
std::optional<std::string> offered(const Reply& ehlo, std::string_view keyword) {
  std::string text = "\n" + ehlo.text;
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  });
  const std::string line = "\n" + std::string(keyword);
  for (size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) {
    const size_t rest = at + line.size();
    if (text[rest] != ' ' && text[rest] != '\n') continue;
    return text.substr(rest, text.find('\n', rest) - rest);
  }
  return std::nullopt;
}

// One side of the conversation over `Stream`; what was read beyond a reply stays in `buffer_`.
template <class Stream>
class Conversation {
 public:
  Conversation(Stream& stream, const Relay& relay) : stream_(stream), relay_(relay) {}

  // RFC 5321 §4.2: lines of "NNN-text", the last "NNN text".
  Task<Result<Reply>> reply() {
    Reply reply;
    for (int lines = 0; lines < kMaxLines; lines++) {
      const auto [error, size] = co_await asio::async_read_until(
          stream_, asio::dynamic_buffer(buffer_, kMaxReply), "\r\n", kTuple);
      if (error) co_return failed(relay_, error.message());
      const std::string line = buffer_.substr(0, size - 2);
      buffer_.erase(0, size);
      const bool digits =
          line.size() >= kCode && std::all_of(line.begin(), line.begin() + kCode,
                                              [](char c) { return c >= '0' && c <= '9'; });
      if (!digits) co_return failed(relay_, "it does not speak SMTP");
      reply.code = std::stoi(line.substr(0, kCode));
      reply.text += line.substr(std::min(line.size(), kCode + 1)) + "\n";
      if (line.size() == kCode || line[kCode] == ' ') co_return reply;
    }
    co_return failed(relay_, "its answer has no end");
  }

  // Sends a command and takes an answer of the class `wanted` (2 or 3).
  Task<Result<Reply>> command(std::string line, int wanted) {
    Reply answer = CO_TRY(co_await exchange(line));
    if (answer.code / kClass == wanted) co_return answer;
    const std::string verb = line.substr(0, line.find_first_of(" \r"));
    co_return failed(relay_, "it answers " + std::to_string(answer.code) + " to " +
                                 (line.size() > kMaxCommand ? "the message" : verb) + ": " +
                                 model::safeText(answer.text, 300));
  }

  // The same of what is nobody's to read: neither it nor the answer, which may repeat it, is told.
  Task<Result<>> secret(std::string line, int wanted) {
    const Reply answer = CO_TRY(co_await exchange(std::move(line)));
    if (answer.code / kClass == wanted) co_return Result<>{};
    co_return failed(relay_, "it answers " + std::to_string(answer.code) + " to AUTH: see " +
                                 "escalation.smtp.user and password_file");
  }

  // RFC 4954: PLAIN (RFC 4616), or LOGIN, which some relays have alone.
  Task<Result<>> authenticate(const Reply& ehlo) {
    const std::string ways = offered(ehlo, "AUTH").value_or("") + " ";
    if (ways.contains(" PLAIN ")) {
      const std::string zero(1, '\0');
      co_return co_await secret(
          "AUTH PLAIN " + base::toBase64(zero + relay_.user + zero + relay_.password), 2);
    }
    if (!ways.contains(" LOGIN ")) co_return failed(relay_, "it offers no AUTH PLAIN or LOGIN");
    CO_TRY(co_await secret("AUTH LOGIN", 3));
    CO_TRY(co_await secret(base::toBase64(relay_.user), 3));
    co_return co_await secret(base::toBase64(relay_.password), 2);
  }

  // From EHLO on, with whatever protection there is by now.
  Task<Result<>> submit(const std::string& mail) {
    const Reply ehlo = CO_TRY(co_await command("EHLO cloister.invalid", 2));
    if (!relay_.user.empty()) CO_TRY(co_await authenticate(ehlo));
    CO_TRY(co_await command("MAIL FROM:<" + relay_.from + ">", 2));
    for (const std::string& recipient : relay_.to)
      CO_TRY(co_await command("RCPT TO:<" + recipient + ">", 2));
    CO_TRY(co_await command("DATA", 3));
    // No line begins with a dot: headers do not, and base64 has none.
    CO_TRY(co_await command(mail + ".", 2));
    // It is theirs now; how they say goodbye changes nothing.
    std::ignore = co_await command("QUIT", 2);
    co_return Result<>{};
  }

  // Whether something came that nobody asked for.
  [[nodiscard]] bool hasMore() const { return !buffer_.empty(); }

 private:
  static constexpr int kClass = 100;

  Task<Result<Reply>> exchange(std::string line) {
    line += "\r\n";
    const auto [error, written] = co_await asio::async_write(stream_, asio::buffer(line), kTuple);
    if (error) co_return failed(relay_, error.message());
    co_return co_await reply();
  }

  Stream& stream_;
  const Relay& relay_;
  std::string buffer_;
};

Task<Result<>> submitSecured(beast::tcp_stream& plain, Relay& relay, const std::string& mail) {
  Conversation clear(plain, relay);
  CO_TRY(co_await clear.reply());
  const Reply ehlo = CO_TRY(co_await clear.command("EHLO cloister.invalid", 2));
  if (!offered(ehlo, "STARTTLS")) {
    co_return failed(relay,
                     "it offers no STARTTLS; give it a certificate, or set "
                     "escalation.smtp.starttls to false");
  }
  CO_TRY(co_await clear.command("STARTTLS", 2));
  // Bytes that came before the protection would be taken for the relay's own (CVE-2011-0411).
  if (clear.hasMore()) co_return failed(relay, "it says more before TLS than it should");
  asio::ssl::stream<beast::tcp_stream&> stream(plain, relay.tls);
  stream.set_verify_mode(asio::ssl::verify_peer);
  stream.set_verify_callback(asio::ssl::host_name_verification(relay.host));
  SSL_set_tlsext_host_name(stream.native_handle(), relay.host.c_str());
  const auto [error] = co_await stream.async_handshake(asio::ssl::stream_base::client, kTuple);
  if (error) co_return failed(relay, "TLS: " + error.message());
  Conversation secured(stream, relay);
  co_return co_await secured.submit(mail);
}

Task<Result<>> submitClear(beast::tcp_stream& stream, Relay& relay, const std::string& mail) {
  Conversation clear(stream, relay);
  CO_TRY(co_await clear.reply());
  co_return co_await clear.submit(mail);
}

Task<Result<>> send(std::shared_ptr<Relay> relay, orchestrator::Message told) {
  const std::string mail = mailText(relay->from, relay->to, told);
  const auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  const auto [error, found] = co_await resolver.async_resolve(relay->host, relay->port, kTuple);
  if (error) co_return failed(*relay, error.message());
  beast::tcp_stream stream(executor);
  stream.expires_after(relay->timeout);  // for all that follows
  const auto [connect_error, endpoint] = co_await stream.async_connect(found, kTuple);
  if (connect_error) co_return failed(*relay, connect_error.message());
  if (relay->starttls) co_return co_await submitSecured(stream, *relay, mail);
  co_return co_await submitClear(stream, *relay, mail);
}

std::unexpected<Error> wrong(const std::string& key, const std::string& why) {
  return fail(Code::kInvalid, key + ": " + why, key);
}

Result<> checkAddresses(const model::Config::Escalation::Smtp& config) {
  if (!isMailAddress(config.from)) {
    return wrong("escalation.smtp.from", "must be a mail address, as cloister@example.org");
  }
  if (config.to.empty()) return wrong("escalation.smtp.to", "must name who is told");
  for (const std::string& each : config.to) {
    if (!isMailAddress(each)) {
      return wrong("escalation.smtp.to", "must be mail addresses, as security@example.org");
    }
  }
  return {};
}

// "" without a user.
Result<std::string> readPassword(const model::Config::Escalation::Smtp& config) {
  constexpr char kKey[] = "escalation.smtp.password_file";
  if (config.user.empty() && config.password_file.empty()) return "";
  if (config.user.empty()) return wrong("escalation.smtp.user", "is required with a password");
  if (config.password_file.empty()) return wrong(kKey, "is required with a user");
  if (!config.starttls) {
    return wrong("escalation.smtp.starttls", "must be true: the password would go in clear");
  }
  auto text = base::readFile(config.password_file, 4096);
  if (!text) return std::unexpected(std::move(text).error().within(kKey));
  while (text->ends_with('\n') || text->ends_with('\r'))
    text->pop_back();
  if (text->empty() || text->contains('\0')) return wrong(kKey, "the file has no password");
  if (config.user.contains('\0')) return wrong("escalation.smtp.user", "has a zero byte");
  return *std::move(text);
}

}  // namespace

Result<orchestrator::Channel> openSmtp(const model::Config::Escalation& config) {
  TRY(checkAddresses(config.smtp));
  // As an authority it is read like that of a URL; a port has to be said.
  const std::string& given = config.smtp.relay;
  const auto url = auth::parseUrl("https://" + given);
  const size_t colon = given.rfind(':');
  const bool has_port = colon != std::string::npos && given.find(']', colon) == std::string::npos;
  if (!url || url->target != "/" || !has_port) {
    return wrong("escalation.smtp.relay", "must be host:port, as mail.example.org:587");
  }
  const auto relay = std::make_shared<Relay>(
      Relay{.host = url->host,
            .port = url->port,
            .from = config.smtp.from,
            .to = config.smtp.to,
            .starttls = config.smtp.starttls,
            .user = config.smtp.user,
            .password = TRY(readPassword(config.smtp)),
            .tls = TRY(auth::clientTls(config.smtp.ca_file, "escalation.smtp.ca_file")),
            .timeout = Millis(config.notification_timeout_ms)});
  std::string shown;
  for (const std::string& each : relay->to)
    shown += (shown.empty() ? "" : ", ") + each;
  return orchestrator::Channel{
      .name = "smtp", .shown = shown, .send = [relay](orchestrator::Message told) {
        return send(relay, std::move(told));
      }};
}

}  // namespace cloister::notify
