// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/approval.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/id.h"

namespace cloister::api::mcp {
namespace {

constexpr size_t kNonceBytes = 16;
constexpr size_t kMaxState = 16'384;
constexpr std::string_view kPurpose = "cloister mcp approval 1\n";

json::value sorted(const json::value& value) {
  if (const json::array* items = value.if_array()) {
    json::array out;
    for (const json::value& item : *items)
      out.push_back(sorted(item));
    return out;
  }
  const json::object* object = value.if_object();
  if (object == nullptr) return value;
  std::vector<std::string> names;
  for (const auto& member : *object)
    names.emplace_back(member.key());
  std::ranges::sort(names);
  json::object out;
  for (const std::string& name : names)
    out[name] = sorted(object->at(name));
  return out;
}

std::string subjectText(const Subject& subject) {
  const model::Principal& who = subject.principal;
  return base::sha256Hex(base::toJson(json::array{who.tenant, who.app, who.agent, who.user,
                                                  who.key_id, subject.tool, subject.arguments}));
}

std::unexpected<RpcError> refused() {
  return rpcError(code::kInvalidParams,
                  "requestState: not one that this server gave for this request, or it has expired "
                  "or was used; make the call again without it");
}

}  // namespace

std::string Approvals::seal(const Subject& subject, json::object payload) {
  const json::object body{{"nonce", base::randomHex(kNonceBytes)},
                          {"expires", base::wallMicros() + life_.count() * 1000},
                          {"subject", subjectText(subject)},
                          {"payload", std::move(payload)}};
  const std::string text = base::toJson(body);
  const std::string signature = key_.sign(std::string(kPurpose) + text);
  return base::toBase64(text) + "." + base::toBase64(signature);
}

Rpc<json::object> Approvals::open(const Subject& subject, const std::string& state) {
  const size_t dot = state.find('.');
  if (state.size() > kMaxState || dot == std::string::npos) return refused();
  const auto text = base::fromBase64(state.substr(0, dot));
  const auto signature = base::fromBase64(state.substr(dot + 1));
  if (!text || !signature) return refused();
  if (!key_.verifyKey().verify(std::string(kPurpose) + *text, *signature)) return refused();
  Result<json::value> parsed = base::parseJson(*text);  // ours, from here on
  if (!parsed || !parsed->is_object()) return refused();
  json::object& body = parsed->get_object();
  const int64_t now = base::wallMicros();
  const int64_t expires = body.at("expires").to_number<int64_t>();
  if (expires <= now || textIn(body, "subject") != subjectText(subject)) return refused();
  std::erase_if(used_, [&](const auto& each) { return each.second <= now; });
  if (used_.size() >= kMaxUsed) return refused();
  if (!used_.emplace(textIn(body, "nonce"), expires).second) return refused();
  return std::move(body.at("payload").as_object());
}

std::string digestOf(const json::object& arguments) {
  return base::sha256Hex(base::toJson(sorted(arguments)));
}

}  // namespace cloister::api::mcp
