# Precompiled headers: for the folders' libraries, for those that sanitized builds do not optimise, and for tests. They only save
# parsing: the check of clang-tidy reads every file without them, so a file still includes what it uses.
file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cc "")
add_compile_options(-Xclang -fno-pch-timestamp)  # ccache goes by content
# Without naming the header too, by a path that is another in each clone.
set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)

add_library(precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
target_link_libraries(precompiled PRIVATE asio Boost::json OpenSSL::SSL)
target_precompile_headers(precompiled PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)

if(CLOISTER_SANITIZE)
  add_library(precompiled_unoptimized OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(precompiled_unoptimized PRIVATE asio Boost::json OpenSSL::SSL)
  target_precompile_headers(precompiled_unoptimized PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
  target_compile_options(precompiled_unoptimized PRIVATE -O0)
endif()

if(CLOISTER_TESTS)
  add_library(precompiled_test OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(precompiled_test PRIVATE asio Boost::json OpenSSL::SSL GTest::gmock)
  target_precompile_headers(precompiled_test PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h
    <gmock/gmock.h> <gtest/gtest.h>)
  target_compile_options(precompiled_test PRIVATE -O0)
endif()

# cloister_precompiled_sum(TARGET file...): what ccache goes by in place of the header that TARGET
# precompiles of these files, which names the folder it was made in. So clones share what they compile.
function(cloister_precompiled_sum target)
  set(sum ${CMAKE_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.pch.sum)
  set(packages /var/lib/dpkg/status)  # newer than the sum once a library was changed
  if(EXISTS ${packages} AND EXISTS ${sum} AND NOT ${packages} IS_NEWER_THAN ${sum}
      AND NOT ${CMAKE_SOURCE_DIR}/cmake/precompiled.h IS_NEWER_THAN ${sum})
    return()
  endif()
  list(TRANSFORM ARGN PREPEND "-include;" OUTPUT_VARIABLE includes)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -std=gnu++${CMAKE_CXX_STANDARD} -Ulinux -E -dD -P ${includes}
    -x c++ /dev/null OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(SHA256 digest "${text}")
  file(WRITE ${sum} "${digest}\n")
endfunction()
cloister_precompiled_sum(precompiled ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
if(CLOISTER_SANITIZE)
  cloister_precompiled_sum(precompiled_unoptimized ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
endif()
if(CLOISTER_TESTS)
  cloister_precompiled_sum(precompiled_test ${CMAKE_SOURCE_DIR}/cmake/precompiled.h gmock/gmock.h gtest/gtest.h)
endif()
