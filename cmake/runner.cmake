# cloister-runner: pid 1 of every sandbox. Static against musl, without the C++ run-time library,
# exceptions or sanitizers: it must start in well under a millisecond, cost little memory and run in
# any image (docs/adr/0017).
set(musl_triple ${CMAKE_LIBRARY_ARCHITECTURE})
string(REPLACE "gnu" "musl" musl_triple "${musl_triple}")
set(musl_include /usr/include/${musl_triple})
set(musl_lib /usr/lib/${musl_triple})
if(NOT EXISTS ${musl_lib}/rcrt1.o)
  message(FATAL_ERROR "no musl in ${musl_lib}: install musl-dev")
endif()

# The compiler's own folders, with musl's in the place of glibc's; that one is left for the kernel's
# headers, which musl does not bring.
set(runner_include)
foreach(folder IN LISTS CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
  if(folder MATCHES "c\\+\\+")
    list(APPEND runner_include "SHELL:-isystem ${folder}")
  endif()
endforeach()
list(APPEND runner_include "SHELL:-isystem ${musl_include}")
foreach(folder IN LISTS CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
  if(folder MATCHES "clang")
    list(APPEND runner_include "SHELL:-isystem ${folder}")
  endif()
endforeach()
list(APPEND runner_include "SHELL:-idirafter /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}"
  "SHELL:-idirafter /usr/include")

# musl_program(NAME file...)
function(musl_program name)
  add_executable(${name} ${CMAKE_SOURCE_DIR}/src/bin/${name}.cc ${ARGN})
  set_target_properties(${name} PROPERTIES COMPILE_OPTIONS "" LINK_OPTIONS "")
  target_compile_options(${name} PRIVATE "SHELL:-iquote ${CMAKE_SOURCE_DIR}/src" -Wall -Wextra -Werror -Os -fPIE -fno-exceptions -fno-rtti
    -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections -fno-sanitize=all
    -fno-threadsafe-statics -fno-c++-static-destructors -fstack-protector-strong
    -nostdinc ${runner_include} "-D__GLIBC_PREREQ(major,minor)=0")  # which libstdc++ asks for
  target_link_options(${name} PRIVATE -static-pie -nostdlib -fno-sanitize=all
    -Wl,--gc-sections -Wl,-s -Wl,-z,relro -Wl,-z,now ${musl_lib}/rcrt1.o ${musl_lib}/crti.o)
  target_link_libraries(${name} PRIVATE ${musl_lib}/libc.a gcc ${musl_lib}/crtn.o)
endfunction()

file(GLOB runner_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/runner/*.cc)
list(FILTER runner_sources EXCLUDE REGEX "_test\\.cc$")
musl_program(cloister-runner ${runner_sources})
if(TARGET runner_test)
  add_dependencies(runner_test cloister-runner)
endif()

# cloister-guest: pid 1 of a virtual machine, of the same kind (docs/adr/0048).
file(GLOB guest_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/guest/*.cc)
musl_program(cloister-guest ${guest_sources} ${CMAKE_SOURCE_DIR}/src/runner/filter.cc
  ${CMAKE_SOURCE_DIR}/src/runner/share.cc)

# cloister-firecracker: what drives Firecracker in a machine's sandbox, of the same kind (docs/adr/0056).
file(GLOB vmm_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/vmm/*.cc)
list(FILTER vmm_sources EXCLUDE REGEX "_test\\.cc$")
musl_program(cloister-firecracker ${vmm_sources})
