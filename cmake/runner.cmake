# cloister-runner: pid 1 of every sandbox. Static, without the C++ run-time library, exceptions or
# sanitizers: it must start in well under a millisecond and run in any image.
file(GLOB runner_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/runner/*.cc)
list(FILTER runner_sources EXCLUDE REGEX "_test\\.cc$")
add_executable(cloister-runner ${CMAKE_SOURCE_DIR}/src/bin/cloister-runner.cc ${runner_sources})
target_include_directories(cloister-runner PRIVATE ${CMAKE_SOURCE_DIR}/src)
set_target_properties(cloister-runner PROPERTIES COMPILE_OPTIONS "" LINK_OPTIONS "")
target_compile_options(cloister-runner PRIVATE -Wall -Wextra -Werror -Os -fno-exceptions -fno-rtti
  -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections -fno-sanitize=all
  -fno-threadsafe-statics -fstack-protector-strong)
target_link_options(cloister-runner PRIVATE -static -nostdlib++ -fno-sanitize=all
  -Wl,--gc-sections -Wl,-s)
if(TARGET runner_test)
  add_dependencies(runner_test cloister-runner)
endif()
