// SPDX-License-Identifier: Apache-2.0
// Names of hosts, network entries, plans, and attempts against a plan. The first byte chooses.
#include "egress/plan/judge.h"
#include "model/network.h"

#include "require.h"

using namespace cloister;

namespace {

// An accepted name is accepted as it is written then, and is no address.
void name(std::string_view text) {
  const auto read = model::hostName(text);
  if (!read) {
    REQUIRE(!read.error().message.empty() && read.error().message.size() < 1000);
    return;
  }
  REQUIRE(model::hostName(*read) == *read);
  REQUIRE(!read->empty() && read->size() <= 253 && !read->ends_with('.'));
  REQUIRE(read->find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") == std::string::npos);
  REQUIRE(model::coversName(*read, *read));
  const auto below = model::hostPattern("*." + *read);
  if (below) REQUIRE(!model::coversName(*below, *read));
}

// An accepted entry has one canonical form, which is read back.
void entry(std::string_view text, bool granting) {
  const auto value = base::parseJson(text);
  if (!value) return;
  const auto read = model::readNetworkEntry(*value, "entry", granting);
  if (!read) {
    REQUIRE(read.error().field.starts_with("entry"));
    REQUIRE(read.error().message.starts_with(read.error().field + ": "));
    return;
  }
  REQUIRE(model::readNetworkEntry(toJsonObject(*read), "entry", granting) == *read);
  REQUIRE(!read->ports.empty() || read->name == model::kAnyName);
  REQUIRE(model::coversPattern(read->name, read->name));
}

void plan(std::string_view text) {
  const auto read = model::decodePlan(text);
  if (!read) return;
  REQUIRE(model::encodePlan(*read) == text);
  for (const model::PlanRule& rule : read->rules) {
    const egress::Attempt attempt{.host = rule.entry.name};
    const bool pattern = rule.entry.name.starts_with('*');
    REQUIRE(egress::judge(*read, attempt).allowed != pattern);
  }
}

model::NetworkPlan fixedPlan() {
  model::NetworkPlan made;
  for (const char* each :
       {R"({"name":"a.example","ports":[80],"methods":["GET"],"paths":["/v1/*","/status"]})",
        R"({"name":"*.b.example","ports":[443],"dns":["TXT"]})",
        R"({"name":"c.example","ports":[7]})"}) {
    const auto value = base::parseJson(each).value();
    made.rules.push_back(
        {.entry = model::readNetworkEntry(value, each, true).value(), .rule = each});
  }
  return made;
}

// "host port method path", parted by spaces; the port is two bytes.
void attempt(std::string_view text) {
  static const model::NetworkPlan kPlan = fixedPlan();
  if (text.size() < 2) return;
  egress::Attempt made;
  made.port =
      static_cast<uint16_t>(static_cast<uint8_t>(text[0]) << 8 | static_cast<uint8_t>(text[1]));
  text.remove_prefix(2);
  const size_t host = std::min(text.find(' '), text.size());
  made.host = text.substr(0, host);
  text.remove_prefix(std::min(host + 1, text.size()));
  if (!text.empty()) {
    const size_t method = std::min(text.find(' '), text.size());
    made.protocol = model::Protocol::kHttp;
    made.method = text.substr(0, method);
    made.path = text.substr(std::min(method + 1, text.size()));
    made.record_type = *made.method;
  }
  const egress::Verdict verdict = egress::judge(kPlan, made);
  REQUIRE(verdict.allowed == verdict.reason.empty());
  REQUIRE(verdict.reason.size() < 1024 && verdict.remedy.size() < 1024);
  if (!verdict.allowed) return;
  REQUIRE(model::coversName(verdict.rule->entry.name, made.host));
  if (verdict.rule->entry.paths.empty() || made.port == 0 || !made.path) return;
  REQUIRE(*made.method == "GET" && (*made.path == "/status" || made.path->starts_with("/v1/")));
  REQUIRE(!made.path->contains("/../") && !made.path->ends_with("/.."));
  REQUIRE(!made.path->contains("//") && !made.path->contains(';'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'n':
      name(text);
      break;
    case 'e':
      entry(text, false);
      break;
    case 'g':
      entry(text, true);
      break;
    case 'p':
      plan(text);
      break;
    case 'a':
      attempt(text);
      break;
    default:
      break;
  }
  return 0;
}
