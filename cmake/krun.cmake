# cloister-krun: what drives libkrun in a machine's sandbox (docs/adr/0057). It loads a library, so it is not
# static like what is executed in other sandboxes; of the sandbox's root it expects a C library and no more.
file(GLOB krun_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/krun/*.cc)
list(FILTER krun_sources EXCLUDE REGEX "_test\\.cc$")
list(APPEND krun_sources ${CMAKE_SOURCE_DIR}/src/linux/process.cc ${CMAKE_SOURCE_DIR}/src/base/result.cc
  ${CMAKE_SOURCE_DIR}/src/base/file.cc)
cloister_unit(krun_unit cloister-krun ${CMAKE_SOURCE_DIR}/src/bin/cloister-krun.cc ${krun_sources})
add_executable(cloister-krun ${krun_unit})
set_target_properties(cloister-krun PROPERTIES COMPILE_OPTIONS "" LINK_OPTIONS "")
target_compile_options(cloister-krun PRIVATE "SHELL:-iquote ${CMAKE_SOURCE_DIR}/src" -Wall -Wextra -Werror -Os -Ulinux
  -ffunction-sections -fdata-sections -fno-sanitize=all -fstack-protector-strong -Wno-gnu-statement-expression
  -Wno-gnu-statement-expression-from-macro-expansion)
target_link_options(cloister-krun PRIVATE -static-libstdc++ -static-libgcc -fno-sanitize=all -Wl,--gc-sections
  -Wl,--as-needed -Wl,-s -Wl,-z,relro -Wl,-z,now)
target_link_libraries(cloister-krun PRIVATE ${CMAKE_DL_LIBS})
