// SPDX-License-Identifier: Apache-2.0
#include "policy/document_risk.h"

#include <array>

#include "model/yaml.h"
#include "policy/conditions.h"

namespace cloister::policy {
namespace {

using base::ObjectReader;

constexpr size_t kMaxNames = 256;

struct TableKey {
  std::string_view key;
  PointTable RiskWeights::* table;
};
constexpr std::array<TableKey, 5> kTables = {{{"languages", &RiskWeights::languages},
                                              {"commands", &RiskWeights::commands},
                                              {"network", &RiskWeights::network},
                                              {"roles", &RiskWeights::roles},
                                              {"tenants", &RiskWeights::tenants}}};

Result<PointTable> readTable(const base::json::object& object, const std::string& path) {
  if (object.size() > kMaxNames) return fail(Code::kInvalid, path + ": too many names", path);
  ObjectReader reader(object, path);
  PointTable table;
  for (const auto& [name, value] : object) {
    if (std::string(name).find_first_of("*?") != std::string::npos) {
      const std::string at = reader.pathOf(name);
      return fail(Code::kInvalid, at + ": points are given by name; a pattern cannot stand here",
                  at);
    }
    const auto points = TRY(reader.integer(name, 0, kMaxPoints));
    const std::string at = reader.pathOf(name);
    if (!points) return fail(Code::kInvalid, at + ": must be a number of points", at);
    table.points.emplace(name, static_cast<int>(*points));
  }
  return table;
}

Result<PointsEach> readEach(ObjectReader& reader) {
  PointsEach points;
  const auto each = TRY(reader.integer("each", 0, kMaxPoints));
  const std::string path = reader.pathOf("each");
  if (!each) return fail(Code::kInvalid, path + ": is required", path);
  points.each = static_cast<int>(*each);
  points.most = static_cast<int>(TRY(reader.integer("most", 0, kMaxScore)).value_or(kMaxPoints));
  return points;
}

}  // namespace

Result<RiskWeights> readRiskWeights(const base::json::object& object, const std::string& path) {
  ObjectReader reader(object, path);
  RiskWeights weights;
  for (const TableKey& row : kTables) {
    const base::json::object* table = TRY(reader.object(row.key));
    if (table != nullptr) weights.*row.table = TRY(readTable(*table, reader.pathOf(row.key)));
  }
  if (const base::json::object* some = TRY(reader.object("dependencies"))) {
    ObjectReader inner(*some, reader.pathOf("dependencies"));
    weights.dependencies = TRY(readEach(inner));
    TRY(inner.finish());
  }
  if (const base::json::object* some = TRY(reader.object("secrets"))) {
    ObjectReader inner(*some, reader.pathOf("secrets"));
    weights.secrets = TRY(readEach(inner));
    weights.secret_names = TRY(model::textList(inner, "names"));
    const std::string at = inner.pathOf("names");
    for (const std::string& name : weights.secret_names) {
      const std::string why = whyNoPattern(name);
      if (!why.empty()) return fail(Code::kInvalid, at + ": " + why, at);
    }
    if (weights.secret_names.empty()) return fail(Code::kInvalid, at + ": is required", at);
    TRY(inner.finish());
  }
  TRY(reader.finish());
  return weights;
}

}  // namespace cloister::policy
