// SPDX-License-Identifier: Apache-2.0
// The conformance suite of Blobs. An implementation instantiates it with a factory:
//   INSTANTIATE_TEST_SUITE_P(Local, BlobsSuite, ::testing::Values(&openLocal));
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "artifacts/blobs.h"
#include "base/crypto.h"

namespace cloister::artifacts {

// Gives fresh, empty Blobs.
using BlobsFactory = std::unique_ptr<Blobs> (*)();

class BlobsSuite : public ::testing::TestWithParam<BlobsFactory> {
 protected:
  std::string put(std::string_view bytes) {
    auto writer = blobs_->create().value();
    EXPECT_TRUE(writer->write(bytes));
    return writer->finish().value();
  }
  std::unique_ptr<Blobs> blobs_ = GetParam()();
};

TEST_P(BlobsSuite, KeepsBytesUnderTheirDigest) {
  const std::string bytes("a\0b\xff", 4);
  auto writer = blobs_->create().value();
  ASSERT_TRUE(writer->write(bytes.substr(0, 1)));
  ASSERT_TRUE(writer->write(""));
  ASSERT_TRUE(writer->write(bytes.substr(1)));
  const std::string digest = writer->finish().value();
  EXPECT_EQ(digest, base::sha256Hex(bytes));
  EXPECT_EQ(blobs_->size(digest).value(), 4U);
  EXPECT_EQ(blobs_->read(digest, 0, 100).value(), bytes);
}

TEST_P(BlobsSuite, ReadsRanges) {
  const std::string digest = put("0123456789");
  EXPECT_EQ(blobs_->read(digest, 3, 4).value(), "3456");
  EXPECT_EQ(blobs_->read(digest, 8, 4).value(), "89");
  EXPECT_EQ(blobs_->read(digest, 10, 4).value(), "");
  EXPECT_EQ(blobs_->read(digest, UINT64_MAX, SIZE_MAX).value(), "");
  EXPECT_EQ(blobs_->read(digest, 0, 0).value(), "");
  EXPECT_EQ(blobs_->read(digest, 0, SIZE_MAX).value(), "0123456789");
}

TEST_P(BlobsSuite, TheEmptyBlobIsABlob) {
  const std::string digest = blobs_->create().value()->finish().value();
  EXPECT_EQ(digest, base::sha256Hex(""));
  EXPECT_EQ(blobs_->size(digest).value(), 0U);
}

TEST_P(BlobsSuite, EqualContentIsOneBlob) {
  const std::string digest = put("same");
  EXPECT_EQ(put("same"), digest);
  EXPECT_EQ(blobs_->read(digest, 0, 100).value(), "same");
}

TEST_P(BlobsSuite, WhatIsNotFinishedIsNotThere) {
  ASSERT_TRUE(blobs_->create().value()->write("half"));
  EXPECT_EQ(blobs_->size(base::sha256Hex("half")).error().code, Code::kNotFound);
}

TEST_P(BlobsSuite, FinishesOnce) {
  auto writer = blobs_->create().value();
  ASSERT_TRUE(writer->write("once"));
  ASSERT_TRUE(writer->finish());
  EXPECT_FALSE(writer->finish());
  EXPECT_FALSE(writer->write("more"));
  EXPECT_EQ(blobs_->read(base::sha256Hex("once"), 0, 100).value(), "once");
}

TEST_P(BlobsSuite, WritersDoNotMix) {
  auto a = blobs_->create().value();
  auto b = blobs_->create().value();
  ASSERT_TRUE(a->write("a"));
  ASSERT_TRUE(b->write("b"));
  EXPECT_EQ(a->finish().value(), base::sha256Hex("a"));
  EXPECT_EQ(b->finish().value(), base::sha256Hex("b"));
}

TEST_P(BlobsSuite, RemovesAndToleratesWhatIsGone) {
  const std::string digest = put("gone");
  ASSERT_TRUE(blobs_->remove(digest));
  EXPECT_EQ(blobs_->read(digest, 0, 1).error().code, Code::kNotFound);
  EXPECT_TRUE(blobs_->remove(digest));
}

TEST_P(BlobsSuite, OnlyDigestsName) {
  put("x");
  const std::string digest = base::sha256Hex("x");
  std::string upper = digest;
  for (char& c : upper)
    c = static_cast<char>(std::toupper(c));
  for (const std::string& name :
       {std::string(), std::string("../../../etc/passwd"), digest.substr(1), digest + "0", upper,
        std::string(64, '.'), std::string(64, '/'), digest.substr(0, 63) + '\0'}) {
    EXPECT_EQ(blobs_->read(name, 0, 1).error().code, Code::kNotFound) << name;
    EXPECT_EQ(blobs_->size(name).error().code, Code::kNotFound) << name;
    EXPECT_TRUE(blobs_->remove(name)) << name;
  }
}

}  // namespace cloister::artifacts
