// SPDX-License-Identifier: Apache-2.0
// The conformance suite of Blobs. An implementation instantiates it with a factory:
//   INSTANTIATE_TEST_SUITE_P(Local, BlobsSuite, ::testing::Values(&openLocal));
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include "artifacts/blobs.h"
#include "async/run_task.h"
#include "base/crypto.h"

namespace cloister::artifacts {

// Gives fresh, empty Blobs, with a pool for their slow work.
using BlobsFactory = std::unique_ptr<Blobs> (*)(boost::asio::io_context& io,
                                                boost::asio::thread_pool& background);

class BlobsSuite : public ::testing::TestWithParam<BlobsFactory> {
 protected:
  template <class T>
  T await(Task<T> task) {
    return async::runTask(io_, std::move(task));
  }
  Result<std::string> finish(BlobWriter& writer) { return await(writer.finish()); }
  Result<std::unique_ptr<BlobReader>> open(const BlobName& name) {
    return await(blobs_->open(name));
  }
  Result<> remove(const BlobName& name) { return await(blobs_->removed(name)); }
  Result<> forget(const std::string& tenant) { return await(blobs_->forget(tenant)); }
  BlobName put(std::string_view bytes, const std::string& tenant = "acme") {
    auto writer = blobs_->create(tenant).value();
    EXPECT_TRUE(writer->write(bytes));
    return {tenant, finish(*writer).value()};
  }
  Result<std::string> read(const BlobName& name, uint64_t offset = 0, size_t length = SIZE_MAX) {
    const auto reader = TRY(open(name));
    return await(reader->read(offset, length));
  }
  Code codeOf(const BlobName& name) {
    const auto reader = open(name);
    EXPECT_FALSE(reader);
    return reader ? Code::kInternal : reader.error().code;
  }
  boost::asio::io_context io_;
  boost::asio::thread_pool background_{2};
  std::unique_ptr<Blobs> blobs_ = GetParam()(io_, background_);
};

TEST_P(BlobsSuite, KeepsBytesUnderTheirDigest) {
  const std::string bytes("a\0b\xff", 4);
  auto writer = blobs_->create("acme").value();
  ASSERT_TRUE(writer->write(bytes.substr(0, 1)));
  ASSERT_TRUE(writer->write(""));
  ASSERT_TRUE(writer->write(bytes.substr(1)));
  const BlobName name{"acme", finish(*writer).value()};
  EXPECT_EQ(name.sha256, base::sha256Hex(bytes));
  EXPECT_EQ(open(name).value()->size(), 4U);
  EXPECT_EQ(read(name).value(), bytes);
}

TEST_P(BlobsSuite, ReadsRanges) {
  const BlobName name = put("0123456789");
  EXPECT_EQ(read(name, 3, 4).value(), "3456");
  EXPECT_EQ(read(name, 8, 4).value(), "89");
  EXPECT_EQ(read(name, 10, 4).value(), "");
  EXPECT_EQ(read(name, UINT64_MAX, SIZE_MAX).value(), "");
  EXPECT_EQ(read(name, 0, 0).value(), "");
  EXPECT_EQ(read(name, 0, SIZE_MAX).value(), "0123456789");
}

// Sizes around whatever pieces an implementation makes of a blob.
TEST_P(BlobsSuite, KeepsEverySizeAndReadsAcrossPieces) {
  for (const size_t size :
       {size_t{1}, size_t{65535}, size_t{65536}, size_t{65537}, size_t{131072}, size_t{300001}}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i)
      bytes[i] = static_cast<char>(i * 31 + i / 251);
    const BlobName name = put(bytes);
    EXPECT_EQ(name.sha256, base::sha256Hex(bytes)) << size;
    EXPECT_TRUE(read(name).value() == bytes) << size;
    for (const size_t from : {size / 3, size - 1, size > 65'530 ? 65'530UL : 0UL})
      EXPECT_TRUE(read(name, from, 70'000).value() == bytes.substr(from, 70'000)) << size;
  }
}

TEST_P(BlobsSuite, TheEmptyBlobIsABlob) {
  const BlobName name{"acme", finish(*blobs_->create("acme").value()).value()};
  EXPECT_EQ(name.sha256, base::sha256Hex(""));
  EXPECT_EQ(open(name).value()->size(), 0U);
  EXPECT_EQ(read(name).value(), "");
}

TEST_P(BlobsSuite, EqualContentIsOneBlob) {
  const BlobName name = put("same");
  EXPECT_EQ(put("same"), name);
  EXPECT_EQ(read(name).value(), "same");
  ASSERT_TRUE(remove(name));
  EXPECT_EQ(codeOf(name), Code::kNotFound);
}

TEST_P(BlobsSuite, TenantsHaveNothingInCommon) {
  const BlobName name = put("same");
  const BlobName theirs{"rival", name.sha256};
  EXPECT_EQ(codeOf(theirs), Code::kNotFound);
  EXPECT_TRUE(remove(theirs));
  EXPECT_EQ(read(name).value(), "same");
  EXPECT_EQ(put("same", "rival"), theirs);
  ASSERT_TRUE(remove(name));
  EXPECT_EQ(read(theirs).value(), "same");
}

TEST_P(BlobsSuite, AForgottenTenantIsGoneAndMayComeBack) {
  const BlobName name = put("secret");
  const BlobName other = put("theirs", "rival");
  ASSERT_TRUE(forget("acme"));
  EXPECT_EQ(codeOf(name), Code::kNotFound);
  EXPECT_EQ(read(other).value(), "theirs");
  EXPECT_TRUE(forget("acme"));
  EXPECT_EQ(put("secret"), name);
  EXPECT_EQ(read(name).value(), "secret");
}

TEST_P(BlobsSuite, WhatIsWrittenWhileItsTenantIsForgottenIsNotKept) {
  auto writer = blobs_->create("acme").value();
  ASSERT_TRUE(writer->write("late"));
  ASSERT_TRUE(forget("acme"));
  EXPECT_FALSE(finish(*writer));
  EXPECT_EQ(codeOf({"acme", base::sha256Hex("late")}), Code::kNotFound);
}

TEST_P(BlobsSuite, AReaderOutlivesItsBlob) {
  const BlobName name = put("read me");
  const auto reader = open(name).value();
  ASSERT_TRUE(remove(name));
  EXPECT_EQ(await(reader->read(0, 100)).value(), "read me");
}

// With the content in another form on the disk or in the bucket.
TEST_P(BlobsSuite, AReaderGoesOnWhenItsBlobIsWrittenAgain) {
  std::string bytes(1'000'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(i * 31 + i / 251);
  const BlobName name = put(bytes);
  const auto reader = open(name).value();
  EXPECT_EQ(await(reader->read(0, 1000)).value(), bytes.substr(0, 1000));
  EXPECT_EQ(put(bytes), name);
  EXPECT_TRUE(await(reader->read(0, SIZE_MAX)).value() == bytes);
}

TEST_P(BlobsSuite, ASealedBlobIsNotThereUntilItIsKept) {
  auto writer = blobs_->create("acme").value();
  EXPECT_FALSE(await(writer->keep())) << "it is not sealed";
  ASSERT_TRUE(writer->write("sealed"));
  const BlobName name{"acme", await(writer->seal()).value()};
  EXPECT_EQ(codeOf(name), Code::kNotFound);
  ASSERT_TRUE(await(writer->keep()));
  EXPECT_EQ(read(name).value(), "sealed");
  EXPECT_FALSE(await(writer->keep())) << "a second time";
}

TEST_P(BlobsSuite, WhatIsNotFinishedIsNotThere) {
  ASSERT_TRUE(blobs_->create("acme").value()->write("half"));
  EXPECT_EQ(codeOf({"acme", base::sha256Hex("half")}), Code::kNotFound);
}

TEST_P(BlobsSuite, FinishesOnce) {
  auto writer = blobs_->create("acme").value();
  ASSERT_TRUE(writer->write("once"));
  ASSERT_TRUE(finish(*writer));
  EXPECT_FALSE(finish(*writer));
  EXPECT_FALSE(writer->write("more"));
  EXPECT_EQ(read({"acme", base::sha256Hex("once")}).value(), "once");
}

TEST_P(BlobsSuite, WritersDoNotMix) {
  auto a = blobs_->create("acme").value();
  auto b = blobs_->create("acme").value();
  ASSERT_TRUE(a->write("a"));
  ASSERT_TRUE(b->write("b"));
  EXPECT_EQ(finish(*a).value(), base::sha256Hex("a"));
  EXPECT_EQ(finish(*b).value(), base::sha256Hex("b"));
}

TEST_P(BlobsSuite, RemovesAndToleratesWhatIsGone) {
  const BlobName name = put("gone");
  ASSERT_TRUE(remove(name));
  EXPECT_EQ(codeOf(name), Code::kNotFound);
  EXPECT_TRUE(remove(name));
}

TEST_P(BlobsSuite, OnlyDigestsName) {
  put("x");
  const std::string digest = base::sha256Hex("x");
  std::string upper = digest;
  for (char& c : upper)
    c = static_cast<char>(std::toupper(c));
  for (const std::string& sha256 :
       {std::string(), std::string("../../../etc/passwd"), digest.substr(1), digest + "0", upper,
        std::string(64, '.'), std::string(64, '/'), digest.substr(0, 63) + '\0'}) {
    EXPECT_EQ(codeOf({"acme", sha256}), Code::kNotFound) << sha256;
    EXPECT_TRUE(remove({"acme", sha256})) << sha256;
  }
}

TEST_P(BlobsSuite, ATenantMayHaveAnyName) {
  for (const std::string& tenant : {std::string("../x"), std::string("a\0b", 3), std::string(),
                                    std::string(5000, 'x'), std::string("a/b")}) {
    EXPECT_EQ(read(put("mine", tenant)).value(), "mine") << tenant;
  }
}

}  // namespace cloister::artifacts
