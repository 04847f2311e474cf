// SPDX-License-Identifier: Apache-2.0
// `cloister policy export`: a document as data for another policy engine (docs/POLICY.md).
#include "cli/api.h"
#include "cli/command.h"
#include "cli/render/outline.h"
#include "model/yaml.h"

namespace cloister::cli {
namespace {

constexpr size_t kDigits = 16;  // of the digest, in the id of a policy

// The id in permits and results.
std::string idOf(const json::object& version) {
  return textOf(version, "name") + "@v" + textOf(version, "version") +
         ".sha256:" + textOf(version, "sha256").substr(0, kDigits);
}

Result<int> exportDocument(const Invocation& invocation) {
  const auto& operands = invocation.flags.operands();
  const std::string which = operands.empty() ? "current" : operands[0];
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object answer = TRY(call(client, "GET", "/v1/policies/" + net::percentEncode(which)));
  json::object document = TRY(model::parseYaml(textOf(answer, "document"), "the document"));
  const json::value* format = document.if_contains("version");
  if (format == nullptr || *format != json::value(2)) {
    return fail(Code::kUnsupported,
                "exporting the policy: only documents of version 2 can be; this one is older");
  }
  printJson(json::object{{"revision", idOf(answer)}, {"document", std::move(document)}});
  return 0;
}

}  // namespace

const Command kPolicyExport = {
    .name = "policy export",
    .operands = "[VERSION]",
    .max_operands = 1,
    .summary = "print a document as JSON, for the Open Policy Agent",
    .details =
        "With policies/opa/cloister.rego in OPA, this is data.cloister.policy: then OPA decides "
        "by the same rules (docs/POLICY.md, Another engine).",
    .examples =
        "cloister policy export | curl -X PUT --data-binary @- "
        "http://127.0.0.1:8181/v1/data/cloister/policy",
    .run = exportDocument};

}  // namespace cloister::cli
