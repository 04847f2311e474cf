# Two precompiled headers, one for the folders' libraries and one for their tests. They only save
# parsing: the check of clang-tidy reads every file without them, so a file still includes what it uses.
file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cc "")
add_compile_options(-Xclang -fno-pch-timestamp)  # ccache goes by content

add_library(precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
target_link_libraries(precompiled PRIVATE asio Boost::json)
target_precompile_headers(precompiled PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)

add_library(precompiled_test OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
target_link_libraries(precompiled_test PRIVATE asio Boost::json GTest::gmock)
target_precompile_headers(precompiled_test PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h
  <gmock/gmock.h> <gtest/gtest.h>)
target_compile_options(precompiled_test PRIVATE -O0)
