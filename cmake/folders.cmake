# How a folder of src/ becomes a library (`cloister_<name>`), its *_test.cc a test program
# (`<name>_test`), and bin/<name>.cc an executable.
add_custom_target(units)  # every test program; `all` has none of them

# cloister_source_dir(file...): defines CLOISTER_SOURCE_DIR for those that use it; what the others
# compile to is the same in every clone (cmake/precompiled.cmake).
function(cloister_source_dir)
  foreach(source ${ARGN})
    file(STRINGS ${source} uses REGEX CLOISTER_SOURCE_DIR LIMIT_COUNT 1)
    if(uses)
      set_source_files_properties(${source} PROPERTIES
        COMPILE_DEFINITIONS CLOISTER_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    endif()
  endforeach()
endfunction()

# cloister_compiled(TARGET FOLDER): as code of that folder of src/ is, or of its programs. Sanitized code is not
# optimised: the sanitizers see more of it, and it compiles in half of the time. Folders whose code is most of the
# work of fuzz targets are optimised, and so is the spawner, whose frames on the stack must be small.
set(optimized base model linux wire images policy runner vmm confine)
function(cloister_compiled target folder)
  if(CLOISTER_SANITIZE AND NOT folder IN_LIST optimized)
    target_precompile_headers(${target} REUSE_FROM precompiled_unoptimized)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_precompile_headers(${target} REUSE_FROM precompiled)
  endif()
endfunction()

# `layers`: the folders of src/, lowest first; `below_NAME`: those that NAME links. src/layers.txt has a line for each
# room of a folder, too; a library is of the whole folder.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/layers.txt)
file(STRINGS ${CMAKE_SOURCE_DIR}/src/layers.txt lines REGEX "^[a-z]")
set(layers)
foreach(line IN LISTS lines)
  string(REGEX MATCHALL "[a-z_/]+" words "${line}")
  list(TRANSFORM words REPLACE "/.*" "")
  list(POP_FRONT words folder)
  list(APPEND layers ${folder})
  set(below_${folder} ${below_${folder}} ${words})
  list(REMOVE_DUPLICATES below_${folder})
  list(REMOVE_ITEM below_${folder} ${folder})
endforeach()
list(REMOVE_DUPLICATES layers)
set(programs bin zygote)  # folders that are no libraries

# cloister_sources(SOURCES TESTS FOLDER): of that folder of src/
function(cloister_sources result result_tests name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(${result} ${sources} PARENT_SCOPE)
  set(${result_tests} ${tests} PARENT_SCOPE)
endfunction()

# cloister_generated(FOLDER FILE SCRIPT DATA): a source of that folder of src/, which a script of cmake/ makes of a data
# file. A build stops where the script finds something wrong (docs/adr/0097).
find_program(PYTHON_PROGRAM python3 PATHS /usr/bin NO_DEFAULT_PATH)  # before one that a user put into PATH
find_program(PYTHON_PROGRAM python3 REQUIRED)
function(cloister_generated folder file script data)
  set(output ${CMAKE_BINARY_DIR}/generated/${folder}/${file})
  cmake_path(GET output PARENT_PATH parent)
  file(MAKE_DIRECTORY ${parent})
  add_custom_command(OUTPUT ${output} VERBATIM
    DEPENDS ${CMAKE_SOURCE_DIR}/${data} ${CMAKE_SOURCE_DIR}/cmake/${script} ${CMAKE_SOURCE_DIR}/cmake/plain_yaml.py
    COMMAND ${PYTHON_PROGRAM} -B ${CMAKE_SOURCE_DIR}/cmake/${script} ${CMAKE_SOURCE_DIR}/${data} ${output})
  set_source_files_properties(${output} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  set(generated_${folder} ${generated_${folder}} ${output} PARENT_SCOPE)
endfunction()

# cloister_folder(NAME [LIBS library...])
function(cloister_folder name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  cloister_sources(sources tests ${name})
  list(TRANSFORM below_${name} PREPEND cloister_ OUTPUT_VARIABLE below)
  if(sources)
    cloister_batches(sources ${name} ${sources})
    add_library(cloister_${name} STATIC ${sources} ${generated_${name}})
    set(scope PUBLIC)
  else()
    add_library(cloister_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  if(sources)
    cloister_compiled(cloister_${name} ${name})
  endif()
  # Quoted includes only: <linux/...> stays the kernel's, "linux/..." is the folder.
  target_compile_options(cloister_${name} ${scope} "SHELL:-iquote ${CMAKE_SOURCE_DIR}/src")
  target_link_libraries(cloister_${name} ${scope} ${below} ${ARG_LIBS})
  if(tests AND CLOISTER_TESTS)
    set_property(GLOBAL APPEND PROPERTY CLOISTER_UNIT_TESTS ${name})
    cloister_source_dir(${tests})
    cloister_batches(tests ${name} ${tests})
    add_executable(${name}_test EXCLUDE_FROM_ALL ${tests})
    add_dependencies(units ${name}_test)
    target_link_libraries(${name}_test PRIVATE cloister_${name} GTest::gmock GTest::gtest_main)
    target_precompile_headers(${name}_test REUSE_FROM precompiled_test)
    target_compile_options(${name}_test PRIVATE -O0)  # most of a test's code is run once, and built often
    add_test(NAME unit.${name} COMMAND ${name}_test)
    set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 300)
  endif()
endfunction()

# cloister_program(NAME [SOURCES file...] FOLDERS folder...): src/bin/<name>.cc, and files beside it
function(cloister_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;FOLDERS" ${ARGN})
  list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/src/bin/)
  list(TRANSFORM ARG_FOLDERS PREPEND cloister_)
  add_executable(${name} ${CMAKE_SOURCE_DIR}/src/bin/${name}.cc ${ARG_SOURCES})
  cloister_compiled(${name} bin)
  # What is used of a folder may need none of its libraries.
  target_link_options(${name} PRIVATE LINKER:--as-needed)
  target_link_libraries(${name} PRIVATE ${ARG_FOLDERS})
endfunction()

# cloister_share(folder...): data the programs read, found at <bin>/../share/cloister
function(cloister_share)
  set(share ${CMAKE_BINARY_DIR}/share/cloister)
  file(MAKE_DIRECTORY ${share})
  foreach(folder ${ARGN})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${folder} ${share}/${folder} SYMBOLIC)
    install(DIRECTORY ${folder} DESTINATION share/cloister PATTERN wire EXCLUDE)  # tests alone read spec/wire
  endforeach()
endfunction()

# cloister_web(FOLDER): the built files of the web interface, which another tool makes, perhaps after this build. Without
# them the service answers how to get them (docs/adr/0117).
function(cloister_web folder)
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${folder} ${CMAKE_BINARY_DIR}/share/cloister/web SYMBOLIC)
  install(DIRECTORY ${folder}/ DESTINATION share/cloister/web OPTIONAL)
endfunction()
