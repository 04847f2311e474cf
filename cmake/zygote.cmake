# cloister-zygote-python.so: an extension module for the CPython of an image, made of the parts of the
# node that put a process into its sandbox. It needs nothing but the C library and the interpreter
# that loads it, and so is built by itself, without sanitizers.
find_path(CLOISTER_PYTHON_INCLUDE Python.h PATH_SUFFIXES python3.14 python3.13 python3.12 python3.11
  python3.10 python3.9 REQUIRED)
file(GLOB zygote_parts CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/base/*.cc ${CMAKE_SOURCE_DIR}/src/linux/*.cc
  ${CMAKE_SOURCE_DIR}/src/runtime/process/*.cc)
list(FILTER zygote_parts INCLUDE REGEX
  "/(result|file|message|process|credentials|mounts|network|landlock|seccomp_install|apply_mounts|mount_plan|confine|spawn_loop|plan_codec|zygote_plan)\\.cc$")
cloister_unit(zygote_unit cloister-zygote-python ${CMAKE_SOURCE_DIR}/src/zygote/python.cc ${zygote_parts})
add_library(cloister-zygote-python MODULE ${zygote_unit})
set_target_properties(cloister-zygote-python PROPERTIES PREFIX "" COMPILE_OPTIONS "" LINK_OPTIONS ""
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
target_compile_options(cloister-zygote-python PRIVATE -Wall -Wextra -Werror -Os -fPIC -Ulinux
  "SHELL:-iquote ${CMAKE_SOURCE_DIR}/src" -isystem ${CLOISTER_PYTHON_INCLUDE}
  -fvisibility=hidden -ffunction-sections -fdata-sections -fno-sanitize=all -fstack-protector-strong)
target_link_options(cloister-zygote-python PRIVATE -static-libstdc++ -static-libgcc
  -fno-sanitize=all -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,-z,relro -Wl,-z,now -Wl,-s)
