# Compiler, linker and warning settings, the same for every target.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR "Cloister builds with clang 19 or newer (g++ 12 miscompiles coroutines): "
                      "apt-get install clang-19, or run ./dev build")
endif()
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# `linux` is a folder and so a namespace; GNU mode predefines it as a macro.
add_compile_options(-Ulinux)
add_compile_options(-Wall -Wextra -Wpedantic -Wno-gnu-statement-expression
  -Wno-gnu-statement-expression-from-macro-expansion -Wthread-safety -Wshadow -Werror
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

# Without the optimisation among them: what has options of its own, as the runner has, is then compiled alike in
# every preset, and so once (ccache).
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_DEBUG "")
  set(CMAKE_${language}_FLAGS_RELWITHDEBINFO "")
endforeach()
if(CLOISTER_SANITIZE)
  add_compile_options(-fsanitize=${CLOISTER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1
                      -gline-tables-only)
  add_link_options(-fsanitize=${CLOISTER_SANITIZE})
else()
  set(optimization -O2 -DNDEBUG -D_FORTIFY_SOURCE=2 -gline-tables-only)
  if(NOT CLOISTER_OPTIMIZE)
    set(optimization -O0 -DNDEBUG)  # glibc fortifies optimised code alone
  endif()
  add_compile_options(-fstack-protector-strong -fstack-clash-protection -fcf-protection ${optimization})
  add_link_options(-Wl,-z,relro -Wl,-z,now)
endif()
