// SPDX-License-Identifier: Apache-2.0
#include "notify/smtp.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/file.h"
#include "net/client_stream.h"
#include "net/trust.h"
#include "net/url.h"

namespace cloister::notify {
namespace {

namespace asio = boost::asio;
using net::ClientStream;

template <class T>
using Task = asio::awaitable<T>;

constexpr size_t kMaxReply = 16'384;
constexpr size_t kPiece = 1'024;  // read at once
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

// The words after `keyword` in the answer to EHLO, in capitals, as " PLAIN LOGIN"; nullopt if the
// relay does not offer the keyword.
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

// Our side of the conversation; `buffer_` keeps the bytes after a reply.
class Conversation {
 public:
  Conversation(ClientStream& stream, const Relay& relay) : stream_(stream), relay_(relay) {}

  // RFC 5321 §4.2: lines of "NNN-text", the last "NNN text".
  Task<Result<Reply>> reply() {
    Reply reply;
    for (int lines = 0; lines < kMaxLines; lines++) {
      const std::string line = CO_TRY(co_await readLine());
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

  // The same for a secret: errors show neither the line nor the answer, which may repeat the line.
  Task<Result<>> secret(std::string line, int wanted) {
    const Reply answer = CO_TRY(co_await exchange(std::move(line)));
    if (answer.code / kClass == wanted) co_return Result<>{};
    co_return failed(relay_, "it answers " + std::to_string(answer.code) + " to AUTH: see " +
                                 "escalation.smtp.user and password_file");
  }

  // RFC 4954: PLAIN (RFC 4616), or LOGIN, the only mechanism of some relays.
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

  // From EHLO on, with or without TLS.
  Task<Result<>> submit(const std::string& mail) {
    const Reply ehlo = CO_TRY(co_await command("EHLO cloister.invalid", 2));
    if (!relay_.user.empty()) CO_TRY(co_await authenticate(ehlo));
    CO_TRY(co_await command("MAIL FROM:<" + relay_.from + ">", 2));
    for (const std::string& recipient : relay_.to)
      CO_TRY(co_await command("RCPT TO:<" + recipient + ">", 2));
    CO_TRY(co_await command("DATA", 3));
    // No line begins with a dot: headers do not, and base64 has none.
    CO_TRY(co_await command(mail + ".", 2));
    // The relay has accepted the mail; its answer to QUIT does not matter.
    std::ignore = co_await command("QUIT", 2);
    co_return Result<>{};
  }

  // Whether unexpected bytes have come.
  [[nodiscard]] bool hasMore() const { return !buffer_.empty(); }

 private:
  static constexpr int kClass = 100;

  // Without its end.
  Task<Result<std::string>> readLine() {
    size_t end = buffer_.find("\r\n");
    while (end == std::string::npos) {
      const size_t before = buffer_.size();
      const size_t room = std::min(kPiece, kMaxReply - before);
      if (room == 0) co_return failed(relay_, "a line of its answer is too long");
      buffer_.resize(before + room);
      const auto [error, n] = co_await stream_.read(asio::buffer(buffer_.data() + before, room));
      buffer_.resize(before + n);
      if (error) co_return failed(relay_, error.message());
      end = buffer_.find("\r\n", before > 0 ? before - 1 : 0);
    }
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 2);
    co_return line;
  }

  Task<Result<Reply>> exchange(std::string line) {
    line += "\r\n";
    const auto error = co_await stream_.write(asio::buffer(line));
    if (error) co_return failed(relay_, error.message());
    co_return co_await reply();
  }

  ClientStream& stream_;
  const Relay& relay_;
  std::string buffer_;
};

// Puts TLS around `stream`, which is in clear text so far.
Task<Result<>> startTls(ClientStream& stream, Relay& relay) {
  Conversation clear(stream, relay);
  CO_TRY(co_await clear.reply());
  const Reply ehlo = CO_TRY(co_await clear.command("EHLO cloister.invalid", 2));
  if (!offered(ehlo, "STARTTLS")) {
    co_return failed(relay,
                     "it offers no STARTTLS; give it a certificate, or set "
                     "escalation.smtp.starttls to false");
  }
  CO_TRY(co_await clear.command("STARTTLS", 2));
  // Bytes from before TLS would pass for the relay's own (CVE-2011-0411).
  if (clear.hasMore()) co_return failed(relay, "it says more before TLS than it should");
  const auto error = co_await stream.secure(relay.tls, relay.host);
  if (error) co_return failed(relay, stream.tlsFault(error));
  co_return Result<>{};
}

Task<Result<>> sendMail(std::shared_ptr<Relay> relay, orchestrator::Message told) {
  const std::string mail = mailText(relay->from, relay->to, told);
  ClientStream stream(co_await asio::this_coro::executor);
  stream.expiresAt(base::monotonicNow() + relay->timeout);  // for the whole conversation
  const auto error = co_await stream.connect(relay->host, relay->port);
  if (error) co_return failed(*relay, error.message());
  if (relay->starttls) CO_TRY(co_await startTls(stream, *relay));
  Conversation conversation(stream, *relay);
  if (!relay->starttls) CO_TRY(co_await conversation.reply());
  co_return co_await conversation.submit(mail);
}

std::unexpected<Error> unusable(const std::string& key, const std::string& why) {
  return fail(Code::kInvalid, key + ": " + why, key);
}

Result<> checkAddresses(const model::EscalationSettings::Smtp& config) {
  if (!isMailAddress(config.from)) {
    return unusable("escalation.smtp.from", "must be a mail address, as cloister@example.org");
  }
  if (config.to.empty()) return unusable("escalation.smtp.to", "must name who is told");
  for (const std::string& each : config.to) {
    if (!isMailAddress(each)) {
      return unusable("escalation.smtp.to", "must be mail addresses, as security@example.org");
    }
  }
  return {};
}

// "" without a user.
Result<std::string> readPassword(const model::EscalationSettings::Smtp& config) {
  constexpr char kKey[] = "escalation.smtp.password_file";
  if (config.user.empty() && config.password_file.empty()) return "";
  if (config.user.empty()) return unusable("escalation.smtp.user", "is required with a password");
  if (config.password_file.empty()) return unusable(kKey, "is required with a user");
  if (!config.starttls) {
    return unusable("escalation.smtp.starttls", "must be true: the password would go in clear");
  }
  auto text = base::readFile(config.password_file, 4096);
  if (!text) return std::unexpected(std::move(text).error().within(kKey));
  while (text->ends_with('\n') || text->ends_with('\r'))
    text->pop_back();
  if (text->empty() || text->contains('\0')) return unusable(kKey, "the file has no password");
  if (config.user.contains('\0')) return unusable("escalation.smtp.user", "has a zero byte");
  return *std::move(text);
}

}  // namespace

Result<orchestrator::Channel> openSmtp(const model::EscalationSettings& config) {
  TRY(checkAddresses(config.smtp));
  // Parsed like a URL's authority, but with a mandatory port.
  const std::string& given = config.smtp.relay;
  const auto url = net::parseUrl("https://" + given);
  const size_t colon = given.rfind(':');
  const bool has_port = colon != std::string::npos && given.find(']', colon) == std::string::npos;
  if (!url || url->target != "/" || !has_port) {
    return unusable("escalation.smtp.relay", "must be host:port, as mail.example.org:587");
  }
  const auto relay = std::make_shared<Relay>(
      Relay{.host = url->host,
            .port = url->port,
            .from = config.smtp.from,
            .to = config.smtp.to,
            .starttls = config.smtp.starttls,
            .user = config.smtp.user,
            .password = TRY(readPassword(config.smtp)),
            .tls = TRY(net::clientTls(config.smtp.ca_file, "escalation.smtp.ca_file")),
            .timeout = Millis(config.notification_timeout_ms)});
  std::string shown;
  for (const std::string& each : relay->to)
    shown += (shown.empty() ? "" : ", ") + each;
  return orchestrator::Channel{
      .name = "smtp", .shown = shown, .send = [relay](orchestrator::Message told) {
        return sendMail(relay, std::move(told));
      }};
}

}  // namespace cloister::notify
