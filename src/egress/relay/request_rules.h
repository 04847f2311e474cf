// SPDX-License-Identifier: Apache-2.0
// RequestRules: the operator's DLP rules over one HTTP request of a sandbox (docs/DLP.md): its
// target, its header fields and its body. Pure. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "egress/http/head.h"
#include "redact/rules.h"

namespace cloister::egress {

class RequestRules {
 public:
  explicit RequestRules(std::shared_ptr<const redact::Rules> rules);

  // Masks the target for the origin and the values of the fields.
  void head(RequestHead& head);
  // Masks one text: the value of a trailer.
  void value(std::string& text);
  // The bytes of the body that pass; lengths stay as they are. `last`: no more come.
  std::string body(std::string_view bytes, bool last);

  // The rule that refuses the request; null: none.
  [[nodiscard]] const redact::Rule* refusing() const;
  // The rules that matched since the last call, and how often.
  std::vector<std::pair<const redact::Rule*, uint64_t>> news();

 private:
  std::shared_ptr<const redact::Rules> rules_;
  redact::RuleStream body_;
  std::vector<uint64_t> head_hits_;
  std::vector<uint64_t> told_;
};

// The rule of records, "dlp.NAME", and the sentences of a refusal.
std::string dlpRuleName(const redact::Rule& rule);
std::string dlpReason(const redact::Rule& rule);
inline constexpr std::string_view kDlpRemedy =
    "Leave the text out, or ask the operator about dlp.rules.";

}  // namespace cloister::egress
