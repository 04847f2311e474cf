// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/request_rules.h"

namespace cloister::egress {

RequestRules::RequestRules(std::shared_ptr<const redact::Rules> rules)
    : rules_(std::move(rules)),
      body_(rules_),
      head_hits_(rules_->all().size()),
      told_(rules_->all().size()) {}

void RequestRules::head(RequestHead& head) {
  value(head.origin);
  for (HeadField& field : head.fields)
    value(field.value);
}

void RequestRules::value(std::string& text) {
  text = redact::masked(rules_, text, head_hits_);
}

std::string RequestRules::body(std::string_view bytes, bool last) {
  std::string out = body_.feed(bytes);
  if (last) out += body_.finish();
  return out;
}

const redact::Rule* RequestRules::refusing() const {
  for (size_t i = 0; i < head_hits_.size(); ++i) {
    const redact::Rule& rule = rules_->all()[i];
    if (head_hits_[i] > 0 && rule.action == redact::RuleAction::kRefuse) return &rule;
  }
  return body_.refusing();
}

std::vector<std::pair<const redact::Rule*, uint64_t>> RequestRules::news() {
  std::vector<std::pair<const redact::Rule*, uint64_t>> news;
  for (size_t i = 0; i < told_.size(); ++i) {
    const uint64_t all = head_hits_[i] + body_.hits()[i];
    if (all > told_[i]) news.emplace_back(&rules_->all()[i], all - told_[i]);
    told_[i] = all;
  }
  return news;
}

std::string dlpRuleName(const redact::Rule& rule) {
  return "dlp." + rule.name;
}

std::string dlpReason(const redact::Rule& rule) {
  return "The request has text that the rule " + rule.name + " refuses.";
}

}  // namespace cloister::egress
