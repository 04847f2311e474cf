# cloister-spawner: every sandbox begins as a copy of it, and drops that copy when it becomes the runner. So it is
# static and small: a copy of the node's mappings would take longer than the sandbox's mounts. With
# sanitizers it is a program like the others.
file(GLOB spawner_parts CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/base/*.cc ${CMAKE_SOURCE_DIR}/src/linux/*.cc ${CMAKE_SOURCE_DIR}/src/wire/*.cc
  ${CMAKE_SOURCE_DIR}/src/runtime/process/*.cc ${CMAKE_SOURCE_DIR}/src/runtime/gvisor/*.cc
  ${CMAKE_SOURCE_DIR}/src/runtime/microvm/*.cc)
list(FILTER spawner_parts INCLUDE REGEX
  "/(result|file|glob|message|process|credentials|mounts|paths|network|landlock|seccomp_install|node|image_links|apply_walls|apply_mounts|mount_plan|confine|spawn_loop|plan_codec|zygote_plan|spawner_plan|bundle|command|devices|become_[a-z]+)\\.cc$")
add_executable(cloister-spawner ${CMAKE_SOURCE_DIR}/src/bin/cloister-spawner.cc ${spawner_parts})
target_compile_options(cloister-spawner PRIVATE "SHELL:-iquote ${CMAKE_SOURCE_DIR}/src" -ffunction-sections -fdata-sections)
target_link_options(cloister-spawner PRIVATE -Wl,--gc-sections)
if(CLOISTER_SANITIZE)
  target_link_libraries(cloister-spawner PRIVATE Boost::json)  # of functions that nothing calls, and that stay
else()
  target_link_options(cloister-spawner PRIVATE -static-pie -Wl,-s)
endif()
