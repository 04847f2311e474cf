// SPDX-License-Identifier: Apache-2.0
#include "egress/http/head.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace cloister::egress {
namespace {

constexpr std::string_view kCrlf = "\r\n";
constexpr size_t kMaxMethod = 32;
constexpr size_t kMaxHost = 253;

std::unexpected<Error> refuse(std::string message) {
  return fail(Code::kInvalid, std::move(message));
}

bool isAlnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// tchar of RFC 9110 §5.6.2.
bool isTokenChar(char c) {
  return isAlnum(c) || std::string_view("!#$%&'*+-.^_`|~").contains(c);
}

bool isToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, isTokenChar);
}

// Bytes of a target: visible ASCII. A fragment has no place in a request. Some servers read '\' as
// '/', and quotes and angle brackets are no part of a URI (RFC 3986 §2).
bool isTargetChar(char c) {
  return c > ' ' && c < 0x7f && !std::string_view("\"<>\\#").contains(c);
}

// Bytes of a field's value (RFC 9110 §5.5): visible, blank, tab, and bytes of other alphabets.
bool isValueChar(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte == '\t' || (byte >= ' ' && byte != 0x7f);
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const size_t begin = std::min(text.find_first_not_of(kBlank), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

// Takes the text before `separator` off `text`, and the separator.
std::string_view takeUntil(std::string_view& text, std::string_view separator) {
  const std::string_view taken = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(taken.size() + separator.size(), text.size()));
  return taken;
}

std::optional<uint64_t> numberOf(std::string_view digits, size_t most_digits) {
  const bool plain = !digits.empty() && digits.size() <= most_digits &&
                     digits.find_first_not_of("0123456789") == std::string_view::npos;
  uint64_t number = 0;
  if (!plain) return std::nullopt;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// --- first bytes

// Another protocol, by its first bytes; a sentence, or "".
std::string_view otherProtocol(std::string_view bytes) {
  constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  constexpr size_t kEnoughPreface = 4;  // "PRI ", before a longer match is worth waiting for
  constexpr char kTlsHandshake = 22;
  const size_t size = std::min(bytes.size(), kPreface.size());
  if (size >= kEnoughPreface && bytes.substr(0, size) == kPreface.substr(0, size)) {
    return "HTTP/2 without TLS is not understood: use HTTP/1.1.";
  }
  if (!bytes.empty() && bytes[0] == kTlsHandshake) {
    return "The rule of this port is for http, and the connection begins with TLS.";
  }
  if (!bytes.empty() && !isTokenChar(bytes[0])) return "The request does not begin with a method.";
  return "";
}

// Whether a line ends without CR: such a head may never have the end that a reader waits for.
bool hasBareLineFeed(std::string_view bytes) {
  for (size_t at = bytes.find('\n'); at != std::string_view::npos; at = bytes.find('\n', at + 1)) {
    if (at == 0 || bytes[at - 1] != '\r') return true;
  }
  return false;
}

// --- hosts

struct Authority {
  std::string host;
  std::optional<uint16_t> port = {};
};

bool isHostText(std::string_view host) {
  const auto plain = [](char c) { return isAlnum(c) || c == '-' || c == '.' || c == '_'; };
  return !host.empty() && host.size() <= kMaxHost && std::ranges::all_of(host, plain) &&
         !host.starts_with('.') && !host.ends_with('.') && !host.contains("..");
}

// "host", "host:port" or "[::1]:port". A name has one spelling in look-ups, so a final dot and
// percent escapes are refused.
std::optional<Authority> readAuthority(std::string_view text) {
  Authority authority;
  if (text.starts_with('[')) {
    text.remove_prefix(1);
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    authority.host = lowered(text.substr(0, end));
    text.remove_prefix(end + 1);
    constexpr std::string_view kAddress = "0123456789abcdef:.";
    if (!authority.host.contains(':') || authority.host.size() > kMaxHost) return std::nullopt;
    if (authority.host.find_first_not_of(kAddress) != std::string::npos) return std::nullopt;
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    authority.host = lowered(text.substr(0, colon));
    text.remove_prefix(colon);
    if (!isHostText(authority.host)) return std::nullopt;
  }
  if (text.empty()) return authority;
  constexpr size_t kPortDigits = 5;
  constexpr uint64_t kMaxPort = 65535;
  const auto port = numberOf(text.substr(1), kPortDigits);
  if (text[0] != ':' || !port || *port == 0 || *port > kMaxPort) return std::nullopt;
  authority.port = static_cast<uint16_t>(*port);
  return authority;
}

// --- the request line

// Splits the path and query of a target at its '?'.
void setPath(std::string_view origin, RequestHead& head) {
  head.origin = origin;
  head.path = origin.substr(0, origin.find('?'));
}

Result<> readAbsolute(std::string_view target, RequestHead& head) {
  const std::string_view scheme = takeUntil(target, "://");
  head.form = TargetForm::kAbsolute;
  head.scheme = lowered(scheme);
  if (head.scheme != "http" && head.scheme != "https") {
    return refuse("The target of the request has an unknown form.");
  }
  const size_t end = std::min(target.find_first_of("/?"), target.size());
  const auto authority = readAuthority(target.substr(0, end));
  if (!authority) return refuse("The target of the request names no host, or a host oddly.");
  head.host = authority->host;
  head.port = authority->port;
  const std::string_view rest = target.substr(end);
  setPath((rest.starts_with('/') ? "" : "/") + std::string(rest), head);
  return {};
}

Result<> readTarget(std::string_view target, RequestHead& head) {
  if (target.size() > kMaxTargetBytes) {
    return fail(Code::kTooLarge, "The target of the request is too long.");
  }
  if (target.empty() || !std::ranges::all_of(target, isTargetChar)) {
    return refuse("The target of the request has bytes that are not permitted.");
  }
  if (head.method == "CONNECT") {
    const auto authority = readAuthority(target);
    if (!authority || !authority->port) return refuse("CONNECT needs a host and a port.");
    head.form = TargetForm::kAuthority;
    head.host = authority->host;
    head.port = authority->port;
    return {};
  }
  if (target == "*") {
    if (head.method != "OPTIONS") return refuse("The target \"*\" is for OPTIONS alone.");
    head.form = TargetForm::kAsterisk;
    head.origin = target;
    return {};
  }
  if (!target.starts_with('/')) return readAbsolute(target, head);
  setPath(target, head);
  return {};
}

Result<> readRequestLine(std::string_view line, RequestHead& head) {
  const std::string_view method = takeUntil(line, " ");
  const std::string_view target = takeUntil(line, " ");
  if (!isToken(method) || method.size() > kMaxMethod) {
    return refuse("The method of the request has bytes that are not permitted.");
  }
  if (line != "HTTP/1.1" && line != "HTTP/1.0") {
    return fail(Code::kUnsupported, "The request line does not end in HTTP/1.1 or HTTP/1.0.");
  }
  head.method = method;
  head.http11 = line == "HTTP/1.1";
  return readTarget(target, head);
}

// --- fields

// Some programs read '_' in a name as '-' (CGI). The fields that frame or route a request must have
// one spelling.
bool imitates(std::string_view name) {
  constexpr std::array<std::string_view, 4> kDeciding = {"content-length", "transfer-encoding",
                                                         "connection", "host"};
  std::string other(name);
  std::ranges::replace(other, '_', '-');
  return other != name && std::ranges::find(kDeciding, other) != kDeciding.end();
}

Result<> addField(std::string name, std::string_view value, RequestHead& head) {
  if (!std::ranges::all_of(value, isValueChar)) {
    return refuse("The value of a header field has bytes that are not permitted.");
  }
  if (head.fields.size() == kMaxHeadFields) {
    return fail(Code::kTooLarge, "The request has too many header fields.");
  }
  if (imitates(name)) return refuse("The header field " + name + " imitates another.");
  head.fields.push_back({std::move(name), std::string(value)});
  return {};
}

Result<> readField(std::string_view line, RequestHead& head) {
  if (line.starts_with(' ') || line.starts_with('\t')) {
    return refuse("A header field continues in the next line.");
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !isToken(line.substr(0, colon))) {
    return refuse("The name of a header field has bytes that are not permitted.");
  }
  return addField(lowered(line.substr(0, colon)), trimmed(line.substr(colon + 1)), head);
}

size_t countOf(const RequestHead& head, std::string_view name) {
  return static_cast<size_t>(std::ranges::count(head.fields, name, &HeadField::name));
}

uint16_t usualPort(std::string_view scheme) {
  constexpr uint16_t kHttp = 80;
  constexpr uint16_t kHttps = 443;
  return scheme == "https" ? kHttps : kHttp;
}

uint16_t portOf(const RequestHead& head) {
  return head.port.value_or(usualPort(head.scheme));
}

// Host is there once, and agrees with the target. RFC 9112 §3.2.2 lets a proxy prefer the target;
// no ordinary client sends two hosts.
Result<> checkHost(RequestHead& head) {
  const size_t count = countOf(head, "host");
  if (count > 1) return refuse("Host is given twice.");
  const bool in_target = head.form == TargetForm::kAbsolute || head.form == TargetForm::kAuthority;
  if (count == 0) {
    if (head.http11 || !in_target) return refuse("Host is missing.");
    return {};
  }
  const auto host = readAuthority(head.field("host"));
  if (!host) return refuse("Host is no host, or a host and a port.");
  if (!in_target) {
    head.host = host->host;
    head.port = host->port;
    return {};
  }
  // With CONNECT the target alone has the port; some clients repeat it.
  const bool connect = head.form == TargetForm::kAuthority;
  const uint16_t port = host->port.value_or(connect || head.scheme != "https" ? 80 : 443);
  const bool same_port = (connect && !host->port) || port == portOf(head);
  if (host->host != head.host || !same_port) return refuse("Host differs from the target.");
  return {};
}

// All parties must agree on the end of the body (RFC 9112 §6.3).
Result<> checkFraming(RequestHead& head) {
  constexpr size_t kLengthDigits = 18;
  const size_t lengths = countOf(head, "content-length");
  const size_t codings = countOf(head, "transfer-encoding");
  if (lengths > 1) return refuse("Content-Length is given twice.");
  if (codings > 1) return refuse("Transfer-Encoding is given twice.");
  if (lengths > 0 && codings > 0) {
    return refuse("Content-Length and Transfer-Encoding are both given.");
  }
  if (codings > 0) {
    head.chunked = lowered(head.field("transfer-encoding")) == "chunked" && head.http11;
    if (!head.chunked) return refuse("Transfer-Encoding is not \"chunked\".");
  }
  if (lengths > 0) {
    head.content_length = numberOf(head.field("content-length"), kLengthDigits);
    if (!head.content_length) return refuse("Content-Length is no number.");
  }
  if ((lengths > 0 || codings > 0) && head.method == "CONNECT") {
    return refuse("CONNECT has no body.");
  }
  return {};
}

Result<> checkConnection(RequestHead& head) {
  const size_t expects = countOf(head, "expect");
  if (expects > 1 || (expects > 0 && lowered(head.field("expect")) != "100-continue")) {
    return fail(Code::kUnsupported, "Expect is not \"100-continue\".");
  }
  head.keep_alive =
      head.http11 ? !head.has("connection", "close") : head.has("connection", "keep-alive");
  head.websocket = head.http11 && head.method == "GET" && head.has("connection", "upgrade") &&
                   countOf(head, "upgrade") == 1 && lowered(head.field("upgrade")) == "websocket" &&
                   !head.chunked && head.content_length.value_or(0) == 0;
  return {};
}

// Fields by which a server takes another method or path than the request has. Frameworks read them
// in any spelling of CGI, and methods in any case.
void readOverrides(RequestHead& head) {
  constexpr std::array<std::string_view, 3> kMethods = {"x-http-method-override", "x-http-method",
                                                        "x-method-override"};
  constexpr std::array<std::string_view, 2> kPaths = {"x-original-url", "x-rewrite-url"};
  for (const HeadField& field : head.fields) {
    std::string name = field.name;
    std::ranges::replace(name, '_', '-');
    if (std::ranges::find(kMethods, name) != kMethods.end()) {
      for (std::string_view rest = field.value; !rest.empty();) {
        std::string method(trimmed(takeUntil(rest, ",")));
        for (char& c : method)
          c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
        if (!method.empty()) head.field_methods.push_back(std::move(method));
      }
    }
    if (std::ranges::find(kPaths, name) != kPaths.end()) {
      head.field_paths.push_back(field.value.substr(0, field.value.find('?')));
    }
  }
}

// --- HTTP/2

// Fields of a single connection, which HTTP/2 does not have (RFC 9113 §8.2.2).
constexpr std::array<std::string_view, 6> kOfConnections = {"connection",       "keep-alive",
                                                            "proxy-connection", "transfer-encoding",
                                                            "upgrade",          "http2-settings"};

Result<> addFields(std::vector<HeadField> fields, RequestHead& head) {
  for (HeadField& field : fields) {
    if (!isToken(field.name) || field.name != lowered(field.name)) {
      return refuse("The name of a header field has bytes that are not permitted.");
    }
    if (std::ranges::find(kOfConnections, field.name) != kOfConnections.end()) {
      return refuse("The header field " + field.name + " has no place in HTTP/2.");
    }
    TRY(addField(std::move(field.name), trimmed(field.value), head));
  }
  return {};
}

// :authority and Host are one host, and one of them is there.
Result<> readHosts(std::string_view authority, RequestHead& head) {
  if (countOf(head, "host") > 1) return refuse("Host is given twice.");
  const std::string_view field = head.field("host");
  const auto named = readAuthority(authority.empty() ? field : authority);
  if (!named) return refuse("The request names no host, or a host oddly.");
  head.host = named->host;
  head.port = named->port;
  if (authority.empty() || field.empty()) return {};
  const auto other = readAuthority(field);
  const bool same = other && other->host == head.host &&
                    other->port.value_or(usualPort(head.scheme)) == portOf(head);
  if (!same) {
    return refuse("Host differs from :authority.");
  }
  return {};
}

}  // namespace

Result<RequestHead> readRequest(RequestParts parts) {
  RequestHead head;
  if (!isToken(parts.method) || parts.method.size() > kMaxMethod || parts.method == "CONNECT") {
    return refuse("The method of the request is not permitted.");
  }
  head.method = std::move(parts.method);
  head.scheme = lowered(parts.scheme);
  TRY(readTarget(parts.path, head));
  if (head.form == TargetForm::kAbsolute) return refuse(":path is no path.");
  TRY(addFields(std::move(parts.fields), head));
  TRY(readHosts(parts.authority, head));
  TRY(checkFraming(head));
  TRY(checkConnection(head));
  readOverrides(head);
  return head;
}

std::string_view RequestHead::field(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, &HeadField::name);
  return found == fields.end() ? std::string_view() : std::string_view(found->value);
}

bool RequestHead::has(std::string_view name, std::string_view element) const {
  return std::ranges::any_of(fields, [&](const HeadField& each) {
    if (each.name != name) return false;
    for (std::string_view rest = each.value; !rest.empty();) {
      if (lowered(trimmed(takeUntil(rest, ","))) == element) return true;
    }
    return false;
  });
}

Result<std::optional<size_t>> headEnd(std::string_view bytes) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  if (const std::string_view why = otherProtocol(bytes); !why.empty()) {
    return refuse(std::string(why));
  }
  const std::string_view within = bytes.substr(0, kMaxHeadBytes);
  const size_t end = within.find(kEnd);
  if (hasBareLineFeed(within.substr(0, end))) {
    return refuse("A line of the head does not end in CR LF.");
  }
  if (end != std::string_view::npos) return end + kEnd.size();
  if (bytes.size() >= kMaxHeadBytes) {
    return fail(Code::kTooLarge, "The head of the request is too large.");
  }
  return std::nullopt;
}

Result<RequestHead> readHead(std::string_view bytes) {
  const auto end = TRY(headEnd(bytes));
  if (!end || *end != bytes.size()) return refuse("The head of the request is not whole.");
  std::string_view lines = bytes.substr(0, bytes.size() - kCrlf.size());
  RequestHead head;
  for (bool first = true; !lines.empty(); first = false) {
    const std::string_view line = takeUntil(lines, kCrlf);
    if (line.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) {
      return refuse("A line of the head has a CR, LF or NUL within.");
    }
    TRY(first ? readRequestLine(line, head) : readField(line, head));
  }
  TRY(checkHost(head));
  TRY(checkFraming(head));
  TRY(checkConnection(head));
  readOverrides(head);
  return head;
}

}  // namespace cloister::egress
