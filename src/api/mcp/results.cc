// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/results.h"

#include <algorithm>
#include <utility>

#include "api/mcp/text.h"
#include "api/mcp/tool.h"

namespace cloister::api::mcp {
namespace {

std::string_view textAt(const json::value& result, std::string_view type) {
  const json::object* data = result.if_object();
  const json::value* found = data == nullptr ? nullptr : data->if_contains(type);
  return found != nullptr && found->is_string() ? std::string_view(found->get_string())
                                                : std::string_view();
}

}  // namespace

std::string shownResults(const json::array& results, size_t most) {
  std::string all;
  for (const json::value& result : results) {
    const std::string_view text = textAt(result, "text/plain");
    if (text.empty()) continue;
    if (!all.empty()) all += '\n';
    all += text;
    if (all.size() > most) break;
  }
  const std::string remedy = "show less, or write it to a file";
  return excerpt(all, all.size(), most, remedy).text;
}

std::vector<ShownFigure> figuresOf(const model::Execution& run, size_t most, size_t most_bytes) {
  std::vector<ShownFigure> figures;
  size_t shown = 0;
  for (size_t at = 0; at < run.results.size(); ++at) {
    std::optional<model::Figure> figure = model::figureOf(run.results[at]);
    if (!figure) continue;
    ShownFigure& next = figures.emplace_back();
    next.result = at;
    next.size = figure->bytes.size();
    next.type = figure->type;
    if (next.size <= most_bytes && shown < most) {
      ++shown;
      next.bytes = std::move(figure->bytes);
      continue;
    }
    const std::string path = model::figurePath(run.cell ? run.cell->number : 0, at, figure->type);
    const auto kept = std::ranges::find(run.artifacts, path, &model::ArtifactRef::path);
    if (kept != run.artifacts.end()) next.artifact = kept->id;
  }
  return figures;
}

json::array figureObjects(const std::vector<ShownFigure>& figures) {
  json::array all;
  for (const ShownFigure& figure : figures) {
    json::object& told = all.emplace_back(json::object()).get_object();
    told = {{"content_type", figure.type},
            {"size", figure.size},
            {"result", figure.result},
            {"shown", !figure.bytes.empty()}};
    if (figure.artifact.empty()) continue;
    told["id"] = figure.artifact;
    told["uri"] = artifactUri(figure.artifact);
  }
  return all;
}

std::string figureLines(const std::vector<ShownFigure>& figures) {
  std::string lines;
  for (const ShownFigure& figure : figures) {
    lines += "\n" + std::string(figure.type) + ", " + std::to_string(figure.size) + " bytes";
    if (!figure.bytes.empty()) {
      lines += ": shown";
    } else if (figure.artifact.empty()) {
      lines += ": too large to be shown, and left out; save it as a file";
    } else {
      lines += ": too large to be shown; download with artifact_id " + figure.artifact;
    }
  }
  return lines;
}

}  // namespace cloister::api::mcp
