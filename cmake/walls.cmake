# cloister-walls: puts up an agent's walls inside a virtual machine, whose image need not have a C library.
# Static, and without sanitizers, it is made of the parts with which the node's spawner does the same.
file(GLOB walls_parts CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/base/*.cc ${CMAKE_SOURCE_DIR}/src/linux/*.cc
  ${CMAKE_SOURCE_DIR}/src/wire/*.cc ${CMAKE_SOURCE_DIR}/src/runtime/process/*.cc)
list(FILTER walls_parts INCLUDE REGEX "/(result|file|glob|message|mounts|paths|node|image_links|apply_walls)\\.cc$")
cloister_unit(walls_unit cloister-walls ${CMAKE_SOURCE_DIR}/src/bin/cloister-walls.cc ${walls_parts})
add_executable(cloister-walls ${walls_unit})
set_target_properties(cloister-walls PROPERTIES COMPILE_OPTIONS "" LINK_OPTIONS "")
target_compile_options(cloister-walls PRIVATE -Wall -Wextra -Werror -Os -Ulinux "SHELL:-iquote ${CMAKE_SOURCE_DIR}/src"
  -ffunction-sections -fdata-sections -fno-sanitize=all -fstack-protector-strong -Wno-gnu-statement-expression
  -Wno-gnu-statement-expression-from-macro-expansion)
target_link_options(cloister-walls PRIVATE -static -fno-sanitize=all -Wl,--gc-sections -Wl,-s)
