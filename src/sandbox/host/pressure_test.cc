// SPDX-License-Identifier: Apache-2.0
// The tests use files in place of the kernel's.
#include "sandbox/host/pressure.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/id.h"

namespace cloister::runtime {
namespace {

class PressureTest : public testing::Test {
 protected:
  PressureTest() { put("loadavg", "0.86 1.73 1.09 1/98 7004\n"); }
  ~PressureTest() override { std::filesystem::remove_all(dir_); }
  PressureTest(const PressureTest&) = delete;
  PressureTest& operator=(const PressureTest&) = delete;

  void put(const std::string& name, const std::string& text) {
    const std::string path = dir_ + "/" + name;
    ASSERT_TRUE(base::makeDirs(path.substr(0, path.rfind('/'))));
    ASSERT_TRUE(base::writeFileAtomic(path, text, 0644));
  }
  void memory(int available_kb) {
    put("meminfo", "MemTotal:        1000000 kB\nMemFree:               1 kB\nMemAvailable:  " +
                       std::to_string(available_kb) + " kB\n");
  }
  // Places this process in /a/b of a mount at `dir_`/cg.
  void mounted(const std::string& type, const std::string& options, const std::string& own) {
    put("self/mountinfo",
        "31 23 0:28 / " + dir_ + "/cg rw - " + type + " " + type + " " + options + "\n");
    put("self/cgroup", own);
    put("cg/a/b/cgroup.procs", "");
  }
  void group(const std::string& path, const std::string& limit, const std::string& usage,
             const std::string& stat) {
    const bool v1 = stat.starts_with("cache");
    put("cg" + path + (v1 ? "/memory.limit_in_bytes" : "/memory.max"), limit + "\n");
    put("cg" + path + (v1 ? "/memory.usage_in_bytes" : "/memory.current"), usage + "\n");
    put("cg" + path + "/memory.stat", stat);
  }
  [[nodiscard]] Pressure pressure(uint32_t spare = 10, uint32_t cpu = 60) const {
    return Pressure({.spare_memory = spare, .cpu_pressure = cpu, .cpus = 2, .proc = dir_});
  }

  std::string dir_ = "/tmp/cloister-test-" + base::randomHex(8);
};

TEST_F(PressureTest, MemoryOfTheMachine) {
  memory(100'000);
  EXPECT_FALSE(pressure().memoryShort()) << "just enough";
  memory(99'999);
  EXPECT_TRUE(pressure().memoryShort());
  EXPECT_FALSE(pressure(0).memoryShort()) << "none need be spared";
}

TEST_F(PressureTest, WhatCannotBeReadIsNotShort) {
  EXPECT_FALSE(pressure().memoryShort());
  put("meminfo", "MemTotal: lots\n");
  put("loadavg", "none\n");
  put("pressure/cpu", "some\n");
  EXPECT_FALSE(pressure().memoryShort());
  EXPECT_FALSE(pressure().cpuShort());
}

TEST_F(PressureTest, MemoryOfTheGroup) {
  memory(1'000'000);
  mounted("cgroup2", "rw", "0::/a/b\n");
  group("/a/b", "max", "5000", "anon 1\ninactive_file 0\nactive_file 0\n");
  const Pressure found = pressure();
  EXPECT_FALSE(found.memoryShort()) << "it has no limit";
  group("/a/b", "1000", "900", "anon 1\ninactive_file 0\nactive_file 0\n");
  EXPECT_FALSE(found.memoryShort());
  group("/a/b", "1000", "901", "anon 1\ninactive_file 0\nactive_file 0\n");
  EXPECT_TRUE(found.memoryShort());
  group("/a/b", "1000", "1001", "anon 1\ninactive_file 100\nactive_file 1\n");
  EXPECT_FALSE(found.memoryShort()) << "files can be dropped";
}

TEST_F(PressureTest, MemoryOfTheGroupsAbove) {
  memory(1'000'000);
  mounted("cgroup2", "rw", "0::/a/b\n");
  group("/a", "1000", "950", "anon 1\ninactive_file 0\nactive_file 0\n");
  EXPECT_TRUE(pressure().memoryShort());
}

TEST_F(PressureTest, MemoryOfAnOldGroup) {
  memory(1'000'000);
  mounted("cgroup", "rw,memory", "4:memory:/a/b\n1:cpu:/\n");
  const std::string stat = "cache 1\ninactive_file 0\ntotal_inactive_file 20\ntotal_active_file ";
  group("/a/b", "1000", "950", stat + "0\n");
  EXPECT_TRUE(pressure().memoryShort());
  group("/a/b", "1000", "950", stat + "30\n");
  EXPECT_FALSE(pressure().memoryShort());
  group("/a/b", "9223372036854771712", "950", stat + "0\n");  // v1's value for no limit
  EXPECT_FALSE(pressure().memoryShort());
}

TEST_F(PressureTest, ProcessorsByStallAndByWhatIsRunnable) {
  put("pressure/cpu", "some avg10=60.01 avg60=7.04 avg300=26.31 total=227069046\n");
  EXPECT_FALSE(pressure().cpuShort()) << "nothing waits now";
  put("loadavg", "0.86 1.73 1.09 4/98 7004\n");  // includes the reading process
  EXPECT_TRUE(pressure().cpuShort());
  EXPECT_FALSE(pressure(10, 100).cpuShort()) << "never";
  put("pressure/cpu", "some avg10=60.00 avg60=7.04 avg300=26.31 total=227069046\n");
  EXPECT_FALSE(pressure().cpuShort()) << "nothing waited for long";
}

TEST_F(PressureTest, WithoutStallsByWhatIsRunnable) {
  put("loadavg", "0.86 1.73 1.09 3/98 7004\n");
  EXPECT_FALSE(pressure().cpuShort());
  put("loadavg", "0.86 1.73 1.09 4/98 7004\n");
  EXPECT_TRUE(pressure().cpuShort());
}

TEST_F(PressureTest, TheKernelsFilesAreReadable) {
  const Pressure here({.spare_memory = 100, .cpu_pressure = 99});
  EXPECT_TRUE(here.memoryShort()) << "some memory is always in use";
}

}  // namespace
}  // namespace cloister::runtime
