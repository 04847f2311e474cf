// SPDX-License-Identifier: Apache-2.0
// Heads of requests: an accepted head has one host, one end and one framing, and a head written
// from its values is read as the same head. Beast's parser, which origins of this kind resemble,
// agrees about method, target and fields.
#include <map>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "egress/http/head.h"

#include "require.h"

using namespace cloister;
using egress::RequestHead;
using egress::TargetForm;

namespace {

std::string written(const RequestHead& head) {
  const std::string port = head.port ? ":" + std::to_string(*head.port) : "";
  const std::string host = head.host.contains(':') ? "[" + head.host + "]" : head.host;
  std::string target = head.origin;
  if (head.form == TargetForm::kAbsolute) target = head.scheme + "://" + host + port + head.origin;
  if (head.form == TargetForm::kAuthority) target = host + port;
  std::string out = head.method + " " + target + (head.http11 ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
  for (const auto& [name, value] : head.fields)
    out += name + ": " + value + "\r\n";
  return out + "\r\n";
}

void requireSound(const RequestHead& head) {
  REQUIRE(!head.host.empty());
  REQUIRE(!head.port || *head.port != 0);
  REQUIRE(!(head.chunked && head.content_length));
  REQUIRE(head.fields.size() <= egress::kMaxHeadFields);
  const bool has_path = head.form == TargetForm::kOrigin || head.form == TargetForm::kAbsolute;
  REQUIRE(has_path == head.path.starts_with('/'));
  REQUIRE(head.origin.starts_with(head.path));
  for (const auto& [name, value] : head.fields) {
    REQUIRE(!name.empty());
    REQUIRE(name.find_first_of(std::string_view(" \t\r\n:\0", 6)) == std::string::npos);
    REQUIRE(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
  }
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return out;
}

// Whether another parser reads the same request.
void requireAgreement(std::string_view bytes, const RequestHead& head) {
  namespace http = boost::beast::http;
  http::request_parser<http::empty_body> parser;
  parser.header_limit(egress::kMaxHeadBytes + 1);
  parser.skip(true);
  boost::system::error_code error;
  parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  if (error) return;  // it refuses more, such as a zero-length chunked upgrade
  const auto& message = parser.get();
  REQUIRE(std::string_view(message.method_string()) == head.method);
  REQUIRE(message.version() == (head.http11 ? 11U : 10U));
  REQUIRE(parser.chunked() == head.chunked);
  REQUIRE(message.count("host") <= 1);
  // Beast puts fields of the same name beside each other, so only their order counts.
  std::multimap<std::string, std::string> ours;
  std::multimap<std::string, std::string> theirs;
  for (const auto& field : message) {
    theirs.emplace(lowered(field.name_string()), field.value());
  }
  for (const auto& [name, value] : head.fields)
    ours.emplace(name, value);
  REQUIRE(ours == theirs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto end = egress::headEnd(bytes);
  if (!end) {
    REQUIRE(!end.error().message.empty());
    REQUIRE(!egress::readHead(bytes));
    return 0;
  }
  if (!*end) {
    REQUIRE(size < egress::kMaxHeadBytes);
    REQUIRE(!egress::readHead(bytes));
    return 0;
  }
  REQUIRE(**end <= size);
  bytes = bytes.substr(0, **end);
  const auto head = egress::readHead(bytes);
  if (!head) {
    REQUIRE(!head.error().message.empty());
    return 0;
  }
  requireSound(*head);
  requireAgreement(bytes, *head);
  const auto again = egress::readHead(written(*head));
  if (!again) {  // the spaces that a field's value may leave out made room
    REQUIRE(again.error().code == Code::kTooLarge);
    return 0;
  }
  REQUIRE(again->method == head->method && again->form == head->form);
  REQUIRE(again->host == head->host && again->port == head->port);
  REQUIRE(again->path == head->path && again->origin == head->origin);
  REQUIRE(again->fields == head->fields && again->chunked == head->chunked);
  REQUIRE(again->content_length == head->content_length && again->websocket == head->websocket);
  return 0;
}
