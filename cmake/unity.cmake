# Unity units: several sources compiled as one, so that the headers they share are read, and the templates they
# share instantiated, once (docs/adr/0064). cmake/batches.txt lists the batches of the folders and their tests.
# A unit includes its sources by their paths below src/, so its text is the same in every clone (ccache).
option(CLOISTER_UNITY "Compile the sources of a batch as one unit. OFF: each by itself, for work on one file" ON)
set(unity_dir ${CMAKE_BINARY_DIR}/../unity)  # the same for every preset: some programs are compiled alike in all
file(REAL_PATH ${unity_dir} unity_dir)

# cloister_unit(RESULT NAME file...): the one source that stands for these files; the files, without CLOISTER_UNITY
function(cloister_unit result name)
  if(NOT CLOISTER_UNITY)
    set(${result} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(text "")
  foreach(source ${ARGN})
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/src ${source})
    string(APPEND text "#include \"${path}\"\n")
  endforeach()
  file(CONFIGURE OUTPUT ${unity_dir}/${name}.cc CONTENT "${text}" @ONLY)  # written only if it changes
  set(${result} ${unity_dir}/${name}.cc PARENT_SCOPE)
endfunction()

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/batches.txt)
file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/batches.txt unity_batches REGEX "^[a-z]+: ")

# cloister_batches(RESULT FOLDER file...): the files, but for those that are in batches their units
function(cloister_batches result folder)
  set(left ${ARGN})
  foreach(batch IN LISTS unity_batches)
    if(NOT batch MATCHES "^${folder}: (.+)$")
      continue()
    endif()
    string(REPLACE " " ";" names "${CMAKE_MATCH_1}")
    set(sources)
    foreach(name IN LISTS names)
      set(source ${CMAKE_SOURCE_DIR}/src/${folder}/${name}.cc)
      if(NOT EXISTS ${source})
        message(FATAL_ERROR "cmake/batches.txt: src/${folder}/${name}.cc does not exist: remove it there")
      endif()
      if(source IN_LIST left)
        list(APPEND sources ${source})
      endif()
    endforeach()
    if(sources)
      list(GET names 0 first)
      string(REPLACE "/" "." first ${first})
      list(REMOVE_ITEM left ${sources})
      cloister_unit(unit ${folder}.${first} ${sources})
      list(APPEND left ${unit})
    endif()
  endforeach()
  set(${result} ${left} PARENT_SCOPE)
endfunction()
