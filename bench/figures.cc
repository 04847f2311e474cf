// SPDX-License-Identifier: Apache-2.0
#include "bench/figures.h"

#include <sys/utsname.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "base/file.h"

namespace cloister::bench {
namespace {

namespace json = base::json;

std::string line(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells)
    text += " " + cell + " |";
  return text + "\n";
}

// The path of `file` in the directory named by `variable`; "" without the variable.
std::string pathIn(const char* variable, std::string_view file) {
  const char* dir = ::getenv(variable);
  return dir == nullptr ? "" : std::string(dir) + "/" + std::string(file);
}

Result<> write(const std::string& path, std::string_view text) {
  return path.empty() ? Result<>() : base::writeFileAtomic(path, text, 0644);
}

}  // namespace

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string text = line(head) + line(std::vector<std::string>(head.size(), "---"));
  for (const auto& row : rows)
    text += line(row);
  return text;
}

json::object latency(const std::vector<double>& sorted) {
  return {{"runs", sorted.size()},
          {"min_ms", sorted.front()},
          {"p50_ms", quantile(sorted, 0.5)},
          {"p90_ms", quantile(sorted, 0.9)},
          {"p99_ms", quantile(sorted, 0.99)}};
}

std::vector<std::string> latencyCells(const std::vector<double>& sorted) {
  std::vector<std::string> cells;
  for (const double share : {0.0, 0.5, 0.9, 0.99})
    cells.push_back(number(quantile(sorted, share), 2));
  return cells;
}

json::object machine() {
  utsname name{};
  ::uname(&name);
  double load[3] = {0, 0, 0};
  ::getloadavg(load, 3);
  return {{"kernel", name.release},
          {"cpus", std::thread::hardware_concurrency()},
          {"load", load[0]},
          {"at", base::formatTime(base::wallMicros())}};
}

std::string describe(const json::object& machine) {
  return "Linux " + std::string(machine.at("kernel").as_string()) + ", " +
         std::to_string(machine.at("cpus").to_number<int>()) + " cores, load " +
         number(machine.at("load").as_double(), 1) + " at the end.\n";
}

Result<> writeJson(std::string_view name, const json::object& figures) {
  return write(pathIn("CLOISTER_BENCH_OUT", std::string(name) + ".json"),
               base::toJson(figures) + "\n");
}

Result<> writeSection(std::string_view name, std::string_view text) {
  const std::string path = pathIn("CLOISTER_BENCH_DOCS", "BENCHMARKS.md");
  if (path.empty()) return {};
  std::string page = TRY(base::readFile(path));
  const std::string marker = "<!-- bench " + std::string(name) + " -->\n";
  const size_t begin = page.find(marker);
  const size_t end = page.find("<!-- end -->", begin);
  if (begin == std::string::npos || end == std::string::npos) {
    return fail(Code::kInvalid, path + ": the markers of " + std::string(name) + " are missing");
  }
  page.replace(begin + marker.size(), end - begin - marker.size(), text);
  return write(path, page);
}

Result<> writePlot(std::string_view file, std::string_view svg) {
  return write(pathIn("CLOISTER_BENCH_DOCS", file), svg);
}

}  // namespace cloister::bench
