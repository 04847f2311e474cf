# cloister-spawner: every sandbox begins as a copy of it, and drops that copy when it becomes the runner. So it is
# static and small: a copy of the node's mappings would take longer than the sandbox's mounts. With
# sanitizers it is linked like the other programs.
set(spawner_folders base linux wire runtime/process runtime/gvisor runtime/microvm)
set(spawner_names
  "/(result|file|glob|message|process|credentials|mounts|paths|network|landlock|seccomp_install|node|image_links|apply_walls|apply_mounts|mount_plan|confine|spawn_loop|plan_codec|zygote_plan|spawner_plan|bundle|command|devices|become_[a-z]+)\\.cc")
set(spawner_sources ${CMAKE_SOURCE_DIR}/src/bin/cloister-spawner.cc)
foreach(folder ${spawner_folders})
  file(GLOB parts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cc)
  list(FILTER parts INCLUDE REGEX "${spawner_names}$")
  list(APPEND spawner_sources ${parts})
endforeach()
cloister_unit(spawner_unit cloister-spawner ${spawner_sources})
add_executable(cloister-spawner ${spawner_unit})
target_compile_options(cloister-spawner PRIVATE "SHELL:-iquote ${CMAKE_SOURCE_DIR}/src" -ffunction-sections -fdata-sections)
target_link_options(cloister-spawner PRIVATE -Wl,--gc-sections)
if(CLOISTER_SANITIZE)
  target_link_libraries(cloister-spawner PRIVATE Boost::json)  # of functions that nothing calls, and that stay
else()
  target_link_options(cloister-spawner PRIVATE -static-pie -Wl,-s)
endif()
