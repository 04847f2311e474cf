// SPDX-License-Identifier: Apache-2.0
#include "bench/plot.h"

#include <algorithm>
#include <cmath>

#include "bench/figures.h"

namespace cloister::bench {
namespace {

constexpr double kWidth = 760;
constexpr double kLeft = 70;
constexpr double kRight = 740;
constexpr double kTop = 70;     // of the first panel
constexpr double kPanel = 120;  // height of a panel
constexpr double kGap = 34;     // between two, for a title
constexpr double kBelow = 52;   // for the axis
constexpr double kFirstShare = 0.01;
constexpr double kLastShare = 0.99;

struct Look {
  const char* tool;
  const char* name;  // of the class
  const char* light;
  const char* dark;
  const char* dashes;
};

constexpr Look kLooks[] = {
    {"bare", "bare", "#59636e", "#9198a1", "2 3"},
    {"bubblewrap", "bwrap", "#bc4c00", "#f0883e", "7 4"},
    {"cloister", "ours", "#0969da", "#58a6ff", "none"},
    {"cloister run", "cli", "#1a7f37", "#3fb950", "9 3 2 3"},
};

const Look& lookOf(const std::string& tool) {
  const auto* found = std::ranges::find(kLooks, tool, &Look::tool);
  return found == std::end(kLooks) ? kLooks[0] : *found;
}

std::string styles() {
  std::string light;
  std::string dark;
  for (const Look& look : kLooks) {
    const std::string name = std::string(".") + look.name;
    light += name + "{stroke:" + look.light + ";stroke-dasharray:" + look.dashes + "}";
    dark += name + "{stroke:" + look.dark + "}";
  }
  return "<style>text{font:13px sans-serif;fill:#1f2328}.title,.panel{font-weight:bold}"
         ".back{fill:#ffffff}.grid{stroke:#d1d9e0}.curve{fill:none;stroke-width:2}" +
         light + "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.back{fill:#0d1117}" +
         ".grid{stroke:#30363d}" + dark + "}</style>\n";
}

// 1, 2 and 5 times the powers of ten.
std::vector<double> ticks(double low, double high) {
  std::vector<double> found;
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high * 10; power *= 10) {
    for (const double step : {1.0, 2.0, 5.0})
      found.push_back(power * step);
  }
  const auto first = std::ranges::upper_bound(found, low) - 1;
  const auto last = std::ranges::lower_bound(found, high);
  return {first, last + 1};
}

struct Axis {
  std::vector<double> marks;
  [[nodiscard]] double at(double millis) const {
    const double share = std::log(millis / marks.front()) / std::log(marks.back() / marks.front());
    return kLeft + share * (kRight - kLeft);
  }
};

Axis axisOf(const std::vector<Panel>& panels) {
  double low = HUGE_VAL;
  double high = 0;
  for (const Panel& panel : panels) {
    for (const Curve& curve : panel.curves) {
      low = std::min(low, quantile(curve.millis, kFirstShare));
      high = std::max(high, quantile(curve.millis, kLastShare));
    }
  }
  return {high == 0 ? std::vector<double>() : ticks(low, high)};
}

std::string text(double x, double y, const char* attributes, const std::string& content) {
  return "<text x=\"" + number(x, 1) + "\" y=\"" + number(y, 1) + "\" " + attributes + ">" +
         content + "</text>\n";
}

std::string line(const std::string& name, double x1, double y1, double x2, double y2) {
  return "<path class=\"" + name + "\" d=\"M" + number(x1, 1) + " " + number(y1, 1) + "L" +
         number(x2, 1) + " " + number(y2, 1) + "\"/>\n";
}

std::string curveOf(const Curve& curve, const Axis& axis, double bottom) {
  std::string path;
  for (double share = kFirstShare; share <= kLastShare + 1e-9; share += 0.01) {
    path += (path.empty() ? "M" : "L") + number(axis.at(quantile(curve.millis, share)), 1) + " " +
            number(bottom - share * kPanel, 1);
  }
  return std::string("<path class=\"curve ") + lookOf(curve.tool).name + "\" d=\"" + path +
         "\"/>\n";
}

std::string panelOf(const Panel& panel, const Axis& axis, double top) {
  const double bottom = top + kPanel;
  std::string svg = text(kLeft, top - 8, R"(class="panel")", panel.title);
  for (const double mark : axis.marks)
    svg += line("grid", axis.at(mark), top, axis.at(mark), bottom);
  for (const double share : {0.0, 0.5, 1.0}) {
    const double y = bottom - share * kPanel;
    svg += line("grid", kLeft, y, kRight, y);
    svg += text(kLeft - 8, y + 4, R"(text-anchor="end")", number(share * 100, 0) + " %");
  }
  for (const Curve& curve : panel.curves)
    svg += curveOf(curve, axis, bottom);
  return svg;
}

std::string legend(const std::vector<Panel>& panels) {
  std::string svg;
  double x = kLeft;
  for (const Look& look : kLooks) {
    const bool drawn = std::ranges::any_of(panels, [&](const Panel& panel) {
      return std::ranges::find(panel.curves, look.tool, &Curve::tool) != panel.curves.end();
    });
    if (!drawn) continue;
    svg += line(std::string("curve ") + look.name, x, 38, x + 34, 38) +
           text(x + 42, 42, "", look.tool);
    x += 150;
  }
  return svg;
}

}  // namespace

std::string latencyPlot(const std::string& title, const std::vector<Panel>& panels) {
  const Axis axis = axisOf(panels);
  if (axis.marks.empty()) return "";
  const double bottom = kTop + static_cast<double>(panels.size()) * (kPanel + kGap) - kGap;
  const std::string size = number(kWidth, 0) + " " + number(bottom + kBelow, 0);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 " + size +
                    "\">\n<title>" + title + "</title>\n" + styles() +
                    "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n" +
                    text(kLeft, 22, R"(class="title")", title) + legend(panels);
  double top = kTop;
  for (const Panel& panel : panels) {
    svg += panelOf(panel, axis, top);
    top += kPanel + kGap;
  }
  for (const double mark : axis.marks)
    svg += text(axis.at(mark), bottom + 18, R"(text-anchor="middle")",
                number(mark, mark < 1 ? (mark < 0.1 ? 2 : 1) : 0));
  svg += text((kLeft + kRight) / 2, bottom + 40, R"(text-anchor="middle")",
              "milliseconds, from the request to its result (logarithmic)");
  const std::string middle = number((kTop + bottom) / 2, 0);
  svg += text(
      0, 0,
      ("text-anchor=\"middle\" transform=\"translate(18 " + middle + ") rotate(-90)\"").c_str(),
      "share of runs that took at most as long");
  return svg + "</svg>\n";
}

}  // namespace cloister::bench
