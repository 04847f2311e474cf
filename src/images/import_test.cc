// SPDX-License-Identifier: Apache-2.0
#include "images/import.h"

#include <sys/file.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "images/archive_maker.h"
#include "images/child.h"
#include "images/confine.h"

namespace cloister::images {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class Importing : public ::testing::Test {
 protected:
  Result<Imported> import(const std::string& path, bool replace = false) {
    return importImage(store_,
                       {.name = "image", .path = path, .replace = replace, .bounds = bounds_});
  }
  Result<Imported> importBytes(const std::string& bytes, bool replace = false) {
    writeFile(scratch_.path("archive"), bytes);
    return import(scratch_.path("archive"), replace);
  }
  void refused(const std::string& bytes, const char* why) {
    const auto imported = importBytes(bytes);
    ASSERT_FALSE(imported) << why;
    EXPECT_THAT(imported.error().message, HasSubstr(why));
    EXPECT_THAT(left(), IsEmpty());
  }
  // The entries of the store except its names.
  [[nodiscard]] std::vector<std::string> left() const {
    auto names = base::listDir(store_.directory()).value();
    std::erase(names, "names");
    return names;
  }
  static LayoutMaker twoLayers() {
    return LayoutMaker({{TarMaker().file("usr/bin/a", "1").link("bin", "usr/bin").bytes(), "gzip"},
                        {TarMaker().file("bin/.wh.a", "").file("bin/b", "2").bytes(), "zstd"}});
  }

  Scratch scratch_;
  Store store_{scratch_.path("store")};
  Bounds bounds_;
};

TEST_F(Importing, TakesOciArchivesAndLayouts) {
  LayoutMaker layout = twoLayers().finish();
  const auto imported = importBytes(layout.tar());
  ASSERT_TRUE(imported) << imported.error().message;
  const model::Image& image = imported->found.image;
  EXPECT_EQ(image.source, "oci");
  EXPECT_EQ(image.reference, LayoutMaker::digestOf(base::toJson(layout.config)));
  EXPECT_THAT(image.env, ElementsAre(Pair("PATH", "/bin"), Pair("LANG", "C")));
  EXPECT_THAT(imported->notes, Contains(HasSubstr("bad name")));
  EXPECT_EQ(image.size_bytes, 1U);
  EXPECT_EQ(computeDigest(imported->found).value(), image.digest);
  const auto contents = contentsOf(imported->found.root);
  EXPECT_THAT(contents, Contains(Pair("usr/bin/b", "f 2")));
  EXPECT_EQ(contents.size(), image.files);
  EXPECT_EQ(contents.size(), 12U);  // usr, usr/bin, b, bin, etc and the seven of sandboxes

  layout.writeTo(scratch_.path("layout"));
  EXPECT_EQ(import(scratch_.path("layout")).error().code, Code::kConflict);
  for (const std::string& bytes : {compressed(layout.tar(), false), compressed(layout.tar(), true)})
    EXPECT_EQ(importBytes(bytes, true).value().found.image.digest, image.digest);
  EXPECT_EQ(import(scratch_.path("layout"), true).value().found.image.digest, image.digest);
  EXPECT_EQ(left().size(), 1U);
}

TEST_F(Importing, TakesWhatDockerSaves) {
  const LayoutMaker made = twoLayers().finish();
  const std::string config = base::toJson(made.config);
  const std::string hex = base::sha256Hex(config);
  const std::string first = TarMaker().file("usr/bin/a", "1").link("bin", "usr/bin").bytes();
  const std::string second = TarMaker().file("bin/.wh.a", "").file("bin/b", "2").bytes();
  const auto archive = [&](const std::string& name, const std::string& last) {
    return TarMaker()
        .file("manifest.json",
              R"([{"Config":")" + name +
                  R"(","RepoTags":["x:1"],"Layers":["1/layer.tar","2/layer.tar"]}])")
        .file(name, config)
        .file("3/layer.tar", first)
        .link("1/layer.tar", "../3/layer.tar")
        .file("2/layer.tar", last)
        .bytes();
  };
  refused(archive(hex + ".json", first), "but the config says");
  refused(archive("other.json", second), "damaged or was changed");
  const auto imported = importBytes(archive(hex + ".json", second));
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->found.image.source, "docker");
  EXPECT_EQ(imported->found.image.reference, "sha256:" + hex);
  EXPECT_EQ(importBytes(made.tar(), true).value().found.image.digest, imported->found.image.digest);
}

TEST_F(Importing, TakesPlainTrees) {
  const std::string tar = TarMaker()
                              .file("bin/sh", "x", 0755)
                              .file("manifest.json", "not of docker")
                              .file(".wh.kept", "")
                              .bytes();
  const auto imported = importBytes(compressed(tar, true));
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->found.image.source, "directory");
  EXPECT_EQ(imported->found.image.reference, "");
  EXPECT_THAT(contentsOf(imported->found.root), Contains(Pair(".wh.kept", "f ")));
  writeFile(scratch_.path("tree/bin/sh"), "x");
  std::filesystem::permissions(scratch_.path("tree/bin/sh"), std::filesystem::perms(0775));
  writeFile(scratch_.path("tree/manifest.json"), "not of docker");
  writeFile(scratch_.path("tree/.wh.kept"), "");
  writeFile(scratch_.path("tree/tmp/dropped"), "x");
  EXPECT_EQ(import(scratch_.path("tree"), true).value().found.image.digest,
            imported->found.image.digest);
}

TEST_F(Importing, KeepsNamesThatAreNotAscii) {
  std::filesystem::create_directories(scratch_.path("tree"));
  const std::string name = "\xc3\xa9\xe2\x82\xac";
  writeFile(scratch_.path("tree/" + name), "1");
  writeFile(scratch_.path("tree/odd\xff"), "2");
  const auto copied = import(scratch_.path("tree"));
  ASSERT_TRUE(copied) << copied.error().message;
  const auto unpacked = importBytes(TarMaker().file(name, "1").file("odd\xff", "2").bytes(), true);
  ASSERT_TRUE(unpacked) << unpacked.error().message;
  EXPECT_EQ(unpacked->found.image.digest, copied->found.image.digest);
}

TEST_F(Importing, HoldsBlobsToTheirDescriptors) {
  LayoutMaker changed = twoLayers().finish();
  for (auto& [path, bytes] : changed.files) {
    if (path.starts_with("blobs/") && bytes[0] != '{') bytes.back() ^= 1;
  }
  refused(changed.tar(), "layer 1");
  LayoutMaker longer = twoLayers().finish();
  for (auto& [path, bytes] : longer.files) {
    if (path.starts_with("blobs/") && bytes[0] != '{') bytes += '\0';
  }
  refused(longer.tar(), "were announced");
  LayoutMaker config = twoLayers().finish();
  config.files["blobs/sha256/" + base::sha256Hex(base::toJson(config.config))].back() = ' ';
  refused(config.tar(), "damaged or was changed");
  LayoutMaker missing = twoLayers().finish();
  std::erase_if(missing.files, [](const auto& file) {
    return file.first.starts_with("blobs/") && file.second[0] != '{';
  });
  refused(missing.tar(), "No such file");
  LayoutMaker diffs = twoLayers();
  diffs.config["rootfs"].as_object()["diff_ids"].as_array()[1] = LayoutMaker::digestOf("x");
  refused(diffs.finish().tar(), "but the config says");
  LayoutMaker fewer = twoLayers();
  fewer.config["rootfs"].as_object()["diff_ids"].as_array().pop_back();
  refused(fewer.finish().tar(), "names 1 layers, the manifest 2");
}

TEST_F(Importing, ChoosesThePlatform) {
  const LayoutMaker mine = twoLayers().finish();
  LayoutMaker all = mine;
  json::array manifests = all.index["manifests"].as_array();
  manifests[0].as_object()["platform"] = {{"os", "linux"},
                                          {"architecture", LayoutMaker::platform(true)}};
  json::object other = manifests[0].as_object();
  other["digest"] = LayoutMaker::digestOf("other");
  other["platform"] = {{"os", "plan9"}, {"architecture", "vax"}};
  const auto nested = [&](const json::array& of) {
    LayoutMaker out = mine;
    const json::object inner = out.blob(base::toJson(json::object{{"manifests", of}}),
                                        "application/vnd.oci.image.index.v1+json");
    out.files["index.json"] = base::toJson(json::object{{"manifests", json::array{inner}}});
    return out;
  };
  refused(nested({other}).tar(), "only for: \"plan9/vax\"");
  json::object second = other;
  second["platform"] = manifests[0].at("platform");
  refused(nested({manifests[0], second}).tar(), "make an archive of one");
  EXPECT_TRUE(importBytes(nested({other, manifests[0]}).tar()));
  ASSERT_TRUE(store_.remove("image"));
  LayoutMaker wrong = twoLayers();
  wrong.config["architecture"] = "vax";
  refused(wrong.finish().tar(), "is an image for \"linux/vax\"");
}

TEST_F(Importing, RefusesBadDocuments) {
  LayoutMaker type = twoLayers();
  type.manifest["layers"].as_array()[0].as_object()["mediaType"] = "application/encrypted";
  refused(type.finish().tar(), "is no layer that can be unpacked");
  LayoutMaker path = twoLayers();
  path.manifest["layers"].as_array()[0].as_object()["digest"] = "sha256:../../../etc/passwd";
  refused(path.finish().tar(), "layers[0].digest");
  LayoutMaker env = twoLayers();
  env.config["config"].as_object()["Env"] = json::array{"A=" + std::string(33'000, 'x')};
  refused(env.finish().tar(), "env: more than 32768 bytes");
  LayoutMaker deep = twoLayers().finish();
  deep.files["index.json"] = std::string(100, '[') + std::string(100, ']');
  refused(deep.tar(), "index.json");
  LayoutMaker big = twoLayers().finish();
  big.files["index.json"] = std::string((4 << 20) + 1, ' ');
  refused(big.tar(), "larger than 4194304 bytes");
  // A link in an archive is resolved within the archive.
  LayoutMaker linked = twoLayers().finish();
  linked.files.erase("index.json");
  TarMaker tar;
  tar.link("index.json", "/etc/passwd").file("etc/passwd", "{}");
  for (const auto& [name, bytes] : linked.files)
    tar.file(name, bytes);
  refused(tar.bytes(), "manifests: must be there");
}

TEST_F(Importing, LeavesNothingOfABombOrARuin) {
  bounds_ = {.bytes = 1 << 20, .files = 100};
  const std::string bomb = TarMaker().file("zeros", std::string(8 << 20, '\0')).bytes();
  refused(compressed(bomb, false), "images.max_mb");
  refused(compressed(bomb, true), "images.max_mb");
  LayoutMaker layers({{bomb, "gzip"}});
  refused(layers.finish().tar(), "layer 1: ");
  TarMaker many;
  for (int i = 0; i < 101; ++i)
    many.file(std::to_string(i), "");
  refused(many.bytes(), "images.max_files");
  refused("", "archive of nothing");
  refused("no archive at all", "not a whole archive");
  const std::string whole = twoLayers().finish().tar();
  refused(whole.substr(0, whole.size() / 2), "");
  refused(compressed(whole, false).substr(0, 1'000), "");
  EXPECT_FALSE(import("/nonexistent"));
  EXPECT_FALSE(import("/dev/null"));
}

TEST_F(Importing, RefusesNames) {
  for (const char* name : {"host", "", "../x", "UPPER", ".tmp"}) {
    const auto imported = importImage(store_, {.name = name, .path = scratch_.path()});
    ASSERT_FALSE(imported);
    EXPECT_EQ(imported.error().code, Code::kInvalid) << name;
  }
}

TEST_F(Importing, EndsWhenItIsCancelled) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd read(ends[0]);
  Fd write(ends[1]);
  write.reset();
  writeFile(scratch_.path("tree/a"), "x");
  const auto imported =
      importImage(store_, {.name = "image", .path = scratch_.path("tree"), .cancel = read.get()});
  ASSERT_FALSE(imported);
  EXPECT_EQ(imported.error().code, Code::kUnavailable);
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(Importing, SharesTreesAndReplacesDamagedOnes) {
  writeFile(scratch_.path("tree/a"), "x");
  const auto first = import(scratch_.path("tree"));
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(importImage(store_, {.name = "second", .path = scratch_.path("tree")}));
  EXPECT_EQ(left().size(), 1U);
  ASSERT_TRUE(store_.remove("second"));
  EXPECT_TRUE(store_.find("image"));
  writeFile(first->found.root + "/a", "changed");
  EXPECT_NE(computeDigest(first->found).value(), first->found.image.digest);
  const auto again = import(scratch_.path("tree"), true);
  EXPECT_EQ(computeDigest(again->found).value(), first->found.image.digest);
}

TEST_F(Importing, KeepsWhatIsInUse) {
  writeFile(scratch_.path("tree/a"), "1");
  ASSERT_TRUE(import(scratch_.path("tree")));
  auto used = store_.use("image");
  ASSERT_TRUE(used) << used.error().message;
  const auto removed = store_.remove("image");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Code::kConflict);
  EXPECT_THAT(removed.error().message, HasSubstr("in use by sandboxes"));
  writeFile(scratch_.path("tree/a"), "2");
  ASSERT_TRUE(import(scratch_.path("tree"), true));
  EXPECT_EQ(base::readFile(used->found.root + "/a").value(), "1");
  EXPECT_EQ(left().size(), 2U);
  used->hold.reset();
  ASSERT_TRUE(store_.remove("image"));
  EXPECT_THAT(left(), IsEmpty());
  EXPECT_EQ(store_.find("image").error().code, Code::kNotFound);
  EXPECT_EQ(store_.hold(used->found.image).error().code, Code::kNotFound);
  EXPECT_EQ(store_.remove("image").error().code, Code::kNotFound);
}

TEST_F(Importing, SaysWhatIsBroken) {
  writeFile(scratch_.path("tree/a"), "1");
  const auto imported = import(scratch_.path("tree"));
  ASSERT_TRUE(imported);
  writeFile(store_.directory() + "/names/torn", "{");
  writeFile(store_.directory() + "/names/moved", model::toJson(imported->found.image));
  model::Image lost = imported->found.image;
  lost.name = "lost";
  lost.digest = LayoutMaker::digestOf("x");
  writeFile(store_.directory() + "/names/lost", model::toJson(lost));
  const auto listing = store_.list();
  ASSERT_TRUE(listing);
  ASSERT_EQ(listing->images.size(), 1U);
  ASSERT_EQ(listing->broken.size(), 3U);
  EXPECT_THAT(listing->broken[0].why, HasSubstr("is missing"));
  for (const char* name : {"torn", "moved", "lost"}) {
    EXPECT_EQ(store_.find(name).error().code, Code::kInternal);
    EXPECT_TRUE(store_.remove(name)) << name;
  }
  EXPECT_TRUE(store_.list()->broken.empty());
  EXPECT_TRUE(Store(scratch_.path("none")).list()->images.empty());
}

TEST_F(Importing, SweepsWhatOthersLeft) {
  writeFile(store_.directory() + "/.tmp-dead/root/x", "");
  writeFile(store_.directory() + "/.tmp-alive/root/x", "");
  writeFile(store_.directory() + "/sha256-" + std::string(64, 'a') + "/root/x", "");
  const Fd alive(::open((store_.directory() + "/.tmp-alive").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(alive.get(), LOCK_EX | LOCK_NB), 0);
  {
    ASSERT_TRUE(store_.begin());
  }
  EXPECT_THAT(left(), ElementsAre(".tmp-alive"));
}

// Operations still possible in the confined process.
TEST(Confinement, ReadsItsInputAndWritesItsDirectory) {
  const Scratch scratch;
  const Scratch outside;
  writeFile(outside.path("file"), "secret");
  const auto filter = unpackingFilter();
  ASSERT_TRUE(filter) << filter.error().message;
  const Fd work = scratch.open();
  const Fd other = outside.open();
  const auto status = runChild(
      [&](int) {
        if (!confineUnpacking(scratch.path(), work.get(), {}, *filter)) return 1;
        if (::openat(work.get(), "made", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0) return 2;
        if (::openat(other.get(), "file", O_RDONLY | O_CLOEXEC) >= 0) return 3;
        if (::openat(other.get(), "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0) return 4;
        if (::open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0) return 5;
        if (::socket(AF_INET, SOCK_STREAM, 0) >= 0 || ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0)
          return 6;
        if (::mknodat(work.get(), "device", S_IFCHR | 0666, makedev(1, 3)) == 0) return 7;
        if (::fchownat(work.get(), "made", 1, 1, 0) == 0) return 8;
        if (::fork() >= 0) return 9;
        return 0;
      },
      -1, [](std::string_view) {});
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(*status, 0);
}

}  // namespace
}  // namespace cloister::images
