// SPDX-License-Identifier: Apache-2.0
#include "model/image_name.h"

#include <gtest/gtest.h>

namespace cloister::model {
namespace {

const std::string kDigest = "sha256:" + std::string(64, 'a');

TEST(ImageName, IsShortAndPlain) {
  for (const char* good : {"host", "py", "3", "data-science.v2_x"})
    EXPECT_TRUE(isImageName(good)) << good;
  for (const std::string& bad :
       {std::string(), std::string("-a"), std::string(".a"), std::string("A"), std::string("a/b"),
        std::string("a@b"), std::string("a b"), std::string(64, 'a')})
    EXPECT_FALSE(isImageName(bad)) << bad;
}

TEST(ImageName, TravelsWithItsDigest) {
  for (const ImageRef& image : {ImageRef{}, ImageRef{"py", kDigest}}) {
    const auto read = parseImageRef(toText(image));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, image);
  }
  EXPECT_EQ(toText(ImageRef{}), "host");
}

TEST(ImageName, NoOtherTextIsAnImage) {
  for (const std::string& bad :
       {std::string(), std::string("py"), "host@" + kDigest, "py@" + kDigest.substr(1),
        std::string("py@"), "@" + kDigest, "../x@" + kDigest, "py@" + kDigest + "0"})
    EXPECT_FALSE(parseImageRef(bad)) << bad;
}

TEST(ImageName, VariablesOfAnImageYieldToTheProgramsOwn) {
  std::vector<std::string> env = {"HOME=/workspace", "PATH=/usr/local/bin:/usr/bin:/bin", "A=1"};
  addImageEnv({"A=2", "HOME=/root", "PATH=/opt/bin:/usr/bin", "GOPATH=/go"}, env);
  EXPECT_EQ(env, (std::vector<std::string>{"HOME=/workspace", "PATH=/opt/bin:/usr/bin", "A=1",
                                           "GOPATH=/go"}));
  std::vector<std::string> own = {"PATH=/my/bin"};
  addImageEnv({"PATH=/opt/bin"}, own);
  EXPECT_EQ(own, std::vector<std::string>{"PATH=/my/bin"});
}

}  // namespace
}  // namespace cloister::model
