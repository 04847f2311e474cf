# Programs that run in sandboxes, or that become them. They are small: every sandbox begins as a copy of one, or holds
# one as long as it lives. They link libraries of their own, of the same folders as the service's, without sanitizers;
# what a program does not call is left out by the linker. What they are compiled to is the same in every preset (ccache).
set(bare_options "SHELL:-iquote ${CMAKE_SOURCE_DIR}/src" -Wall -Wextra -Werror -Ulinux -Os -ffunction-sections
  -fdata-sections -fno-sanitize=all -fstack-protector-strong)

# Against glibc, statically: the parts of the node that make a sandbox. ------------------------------------------------

set(glibc_options ${bare_options} -fstack-clash-protection -fcf-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -DNDEBUG
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -fPIC -fvisibility=hidden -Wno-gnu-statement-expression
  -Wno-gnu-statement-expression-from-macro-expansion)
set(glibc_link_options -fno-sanitize=all -Wl,--gc-sections -Wl,--as-needed -Wl,-s -Wl,-z,relro -Wl,-z,now)

# glibc_libraries(RESULT folder...): of these folders and all below them, but for those of which these programs use the headers
# alone
set(glibc_headers_only model)
function(glibc_libraries result)
  set(libraries)
  list(REMOVE_ITEM ARGN ${glibc_headers_only})
  foreach(folder ${ARGN})
    if(NOT TARGET bare_${folder})
      cloister_sources(sources tests ${folder})
      cloister_batches(sources ${folder} ${sources})
      add_library(bare_${folder} STATIC EXCLUDE_FROM_ALL ${sources} ${generated_${folder}})
      set_target_properties(bare_${folder} PROPERTIES COMPILE_OPTIONS "")
      target_compile_options(bare_${folder} PRIVATE ${glibc_options})
      glibc_libraries(below ${below_${folder}})
      target_link_libraries(bare_${folder} INTERFACE ${below})
    endif()
    list(APPEND libraries bare_${folder})
  endforeach()
  set(${result} ${libraries} PARENT_SCOPE)
endfunction()

# bare_program(NAME FOLDERS folder... [LIBS library...] [SANITIZED]): src/bin/<name>.cc. With LIBS it is linked
# dynamically. SANITIZED: in a build with sanitizers it is an ordinary program, which has them.
function(bare_program name)
  cmake_parse_arguments(ARG "SANITIZED" "" "FOLDERS;LIBS" ${ARGN})
  if(ARG_SANITIZED AND CLOISTER_SANITIZE)
    cloister_program(${name} FOLDERS ${ARG_FOLDERS})
    return()
  endif()
  add_executable(${name} ${CMAKE_SOURCE_DIR}/src/bin/${name}.cc)
  set_target_properties(${name} PROPERTIES COMPILE_OPTIONS "" LINK_OPTIONS "")
  target_compile_options(${name} PRIVATE ${glibc_options})
  glibc_libraries(libraries ${ARG_FOLDERS})
  target_link_libraries(${name} PRIVATE ${libraries} ${ARG_LIBS})
  if(ARG_LIBS)
    target_link_options(${name} PRIVATE ${glibc_link_options} -static-libstdc++ -static-libgcc)
  else()
    target_link_options(${name} PRIVATE ${glibc_link_options} -static-pie)
  endif()
endfunction()

# bare_module(NAME SOURCE FOLDERS folder...): an extension module for the CPython of an image. It needs nothing but the
# C library and the interpreter that loads it.
find_path(CLOISTER_PYTHON_INCLUDE Python.h PATH_SUFFIXES python3.14 python3.13 python3.12 python3.11
  python3.10 python3.9 REQUIRED)
function(bare_module name source)
  cmake_parse_arguments(ARG "" "" "FOLDERS" ${ARGN})
  add_library(${name} MODULE ${CMAKE_SOURCE_DIR}/src/${source})
  set_target_properties(${name} PROPERTIES PREFIX "" COMPILE_OPTIONS "" LINK_OPTIONS ""
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  target_compile_options(${name} PRIVATE ${glibc_options} -isystem ${CLOISTER_PYTHON_INCLUDE})
  glibc_libraries(libraries ${ARG_FOLDERS})
  target_link_libraries(${name} PRIVATE ${libraries})
  target_link_options(${name} PRIVATE ${glibc_link_options} -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL)
endfunction()

# Against musl, without the C++ run-time library and without exceptions: what runs inside a sandbox. It must start in
# well under a millisecond, cost little memory and run in any image (docs/adr/0017). ----------------------------------

set(musl_triple ${CMAKE_LIBRARY_ARCHITECTURE})
string(REPLACE "gnu" "musl" musl_triple "${musl_triple}")
set(musl_include /usr/include/${musl_triple})
set(musl_lib /usr/lib/${musl_triple})
if(NOT EXISTS ${musl_lib}/rcrt1.o)
  message(FATAL_ERROR "no musl in ${musl_lib}: install musl-dev")
endif()

# The compiler's own folders, with musl's in the place of glibc's, which comes last: it has the kernel's headers.
set(musl_includes)
foreach(folder IN LISTS CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
  if(folder MATCHES "c\\+\\+")
    list(APPEND musl_includes "SHELL:-isystem ${folder}")
  endif()
endforeach()
list(APPEND musl_includes "SHELL:-isystem ${musl_include}")
foreach(folder IN LISTS CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
  if(folder MATCHES "clang")
    list(APPEND musl_includes "SHELL:-isystem ${folder}")
  endif()
endforeach()
list(APPEND musl_includes "SHELL:-idirafter /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}"
  "SHELL:-idirafter /usr/include")
set(musl_options ${bare_options} -fPIE -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables
  -fno-threadsafe-statics -fno-c++-static-destructors
  -nostdinc ${musl_includes} "-D__GLIBC_PREREQ(major,minor)=0")  # which libstdc++ asks for

# musl_program(NAME FOLDERS folder...): src/bin/<name>.cc
function(musl_program name)
  cmake_parse_arguments(ARG "" "" "FOLDERS" ${ARGN})
  set(libraries)
  foreach(folder ${ARG_FOLDERS})
    if(NOT TARGET musl_${folder})
      file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cc)
      list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
      add_library(musl_${folder} STATIC EXCLUDE_FROM_ALL ${sources})
      set_target_properties(musl_${folder} PROPERTIES COMPILE_OPTIONS "")
      target_compile_options(musl_${folder} PRIVATE ${musl_options})
    endif()
    list(APPEND libraries musl_${folder})
  endforeach()
  add_executable(${name} ${CMAKE_SOURCE_DIR}/src/bin/${name}.cc)
  set_target_properties(${name} PROPERTIES COMPILE_OPTIONS "" LINK_OPTIONS "")
  target_compile_options(${name} PRIVATE ${musl_options})
  target_link_options(${name} PRIVATE -static-pie -nostdlib -fno-sanitize=all
    -Wl,--gc-sections -Wl,-s -Wl,-z,relro -Wl,-z,now ${musl_lib}/rcrt1.o ${musl_lib}/crti.o)
  target_link_libraries(${name} PRIVATE ${libraries} ${musl_lib}/libc.a gcc ${musl_lib}/crtn.o)
endfunction()
