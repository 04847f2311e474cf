// SPDX-License-Identifier: Apache-2.0
#include "model/offer_json.h"

namespace cloister::model {
namespace {

namespace json = base::json;

std::string_view stateName(Finding::State state) {
  switch (state) {
    case Finding::State::kOk:
      return "ok";
    case Finding::State::kReduced:
      return "reduced";
    case Finding::State::kMissing:
      return "missing";
  }
  return "missing";
}

json::array textsOf(const std::vector<std::string>& texts) {
  json::array all;
  for (const std::string& text : texts)
    all.emplace_back(text);
  return all;
}

json::array findingsOf(const std::vector<Finding>& findings) {
  json::array all;
  for (const Finding& finding : findings) {
    all.push_back({{"area", finding.area},
                   {"name", finding.name},
                   {"state", stateName(finding.state)},
                   {"detail", finding.detail},
                   {"remedy", finding.remedy}});
  }
  return all;
}

}  // namespace

json::object offerJson(const NodeOffer& offer) {
  return {{"node", offer.node},
          {"version", offer.version},
          {"runtimes", textsOf(offer.runtimes)},
          {"weakened", textsOf(offer.weakened)},
          {"image_digest", offer.image_digest},
          {"languages", textsOf(offer.languages)},
          {"findings", findingsOf(offer.findings)},
          {"max_sandboxes", offer.max_sandboxes},
          {"memory_bytes", offer.memory_bytes},
          {"cpus", offer.cpus}};
}

}  // namespace cloister::model
