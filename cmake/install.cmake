# Where `cmake --install` puts things below its prefix (docs/adr/0066). The programs stay together, because each finds
# the others beside itself; the command alone is in bin, as a link.
set(programs lib/cloister)
install(TARGETS cloister cloisterd cloister-node cloister-egress cloister-image cloister-spawner cloister-runner cloister-guest
  cloister-walls cloister-firecracker cloister-krun cloister-zygote-python
  RUNTIME DESTINATION ${programs} LIBRARY DESTINATION ${programs})
set(generated ${CMAKE_BINARY_DIR}/install)
file(MAKE_DIRECTORY ${generated}/bin)
file(CREATE_LINK ../${programs}/cloister ${generated}/bin/cloister SYMBOLIC)
install(FILES ${generated}/bin/cloister DESTINATION bin)

# The manual page and the completions are made from the command line's own tables.
set(manual ${generated}/cloister.1.gz)
add_custom_command(OUTPUT ${manual} DEPENDS cloister ${CMAKE_SOURCE_DIR}/tools/manual.py VERBATIM
  COMMAND ${PYTHON_PROGRAM} ${CMAKE_SOURCE_DIR}/tools/manual.py $<TARGET_FILE:cloister> ${manual})
install(FILES ${manual} DESTINATION share/man/man1)
set(texts ${manual})
# cloister_completion(SHELL FILE): FILE, below the prefix, completes our command line in SHELL.
function(cloister_completion shell file)
  set(output ${generated}/${file})
  cmake_path(GET file PARENT_PATH folder)
  file(MAKE_DIRECTORY ${generated}/${folder})
  add_custom_command(OUTPUT ${output} DEPENDS cloister VERBATIM
    COMMAND cloister completion ${shell} > ${output})
  install(FILES ${output} DESTINATION ${folder})
  set(texts ${texts} ${output} PARENT_SCOPE)
endfunction()
cloister_completion(bash share/bash-completion/completions/cloister)
cloister_completion(zsh share/zsh/vendor-completions/_cloister)
cloister_completion(fish share/fish/vendor_completions.d/cloister.fish)

# cloister-grpc and its texts. A package of its own has them: --component grpc (docs/adr/0120).
if(CLOISTER_GRPC)
  install(TARGETS cloister-grpc RUNTIME DESTINATION ${programs} COMPONENT grpc)
  file(CREATE_LINK ../${programs}/cloister-grpc ${generated}/bin/cloister-grpc SYMBOLIC)
  install(FILES ${generated}/bin/cloister-grpc DESTINATION bin COMPONENT grpc)
  set(grpc_manual ${generated}/cloister-grpc.1.gz)
  add_custom_command(OUTPUT ${grpc_manual} DEPENDS cloister-grpc ${CMAKE_SOURCE_DIR}/tools/manual.py VERBATIM
    COMMAND ${PYTHON_PROGRAM} ${CMAKE_SOURCE_DIR}/tools/manual.py $<TARGET_FILE:cloister-grpc> ${grpc_manual})
  install(FILES ${grpc_manual} DESTINATION share/man/man1 COMPONENT grpc)
  list(APPEND texts ${grpc_manual})
  foreach(pair bash:share/bash-completion/completions/cloister-grpc zsh:share/zsh/vendor-completions/_cloister-grpc
      fish:share/fish/vendor_completions.d/cloister-grpc.fish)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 shell)
    list(GET pair 1 file)
    cmake_path(GET file PARENT_PATH folder)
    add_custom_command(OUTPUT ${generated}/${file} VERBATIM
      DEPENDS cloister-grpc ${CMAKE_SOURCE_DIR}/tools/flag_completion.py
      COMMAND ${PYTHON_PROGRAM} ${CMAKE_SOURCE_DIR}/tools/flag_completion.py $<TARGET_FILE:cloister-grpc> ${shell}
        ${generated}/${file})
    install(FILES ${generated}/${file} DESTINATION ${folder} COMPONENT grpc)
    list(APPEND texts ${generated}/${file})
  endforeach()
  install(CODE "
    file(READ \"${CMAKE_SOURCE_DIR}/deploy/systemd/cloister-grpc.service\" unit)
    string(REPLACE \"ExecStart=/usr/\" \"ExecStart=\${CMAKE_INSTALL_PREFIX}/\" unit \"\${unit}\")
    file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/cloister-grpc.service\" \"\${unit}\")"
    COMPONENT grpc)
endif()
add_custom_target(install_texts ALL DEPENDS ${texts})

# The documents, beside links to the data that they mention; and where a build finds them.
set(documents share/doc/cloister)
install(FILES README.md ARCHITECTURE.md SECURITY.md DESTINATION ${documents})
install(DIRECTORY docs DESTINATION ${documents})
install(PROGRAMS tools/verify_audit.py DESTINATION ${documents}/tools)  # of docs/AUDIT.md
install(FILES deploy/cloister.yaml deploy/compose.yaml deploy/systemd/cloister.default DESTINATION ${documents}/examples)
install(DIRECTORY deploy/grafana deploy/prometheus DESTINATION ${documents}/examples)
file(MAKE_DIRECTORY ${generated}/documents ${CMAKE_BINARY_DIR}/${documents})
foreach(data languages policies spec)
  file(CREATE_LINK ../../cloister/${data} ${generated}/documents/${data} SYMBOLIC)
  install(FILES ${generated}/documents/${data} DESTINATION ${documents})
endforeach()
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/docs ${CMAKE_BINARY_DIR}/${documents}/docs SYMBOLIC)

install(FILES deploy/systemd/cloister.socket DESTINATION lib/systemd/system)
install(FILES deploy/systemd/cloister.sysusers.conf DESTINATION lib/sysusers.d RENAME cloister.conf)
# The service starts the command of the prefix that is known only when this is installed.
install(CODE "
  file(READ \"${CMAKE_SOURCE_DIR}/deploy/systemd/cloister.service\" unit)
  string(REPLACE \"ExecStart=/usr/\" \"ExecStart=\${CMAKE_INSTALL_PREFIX}/\" unit \"\${unit}\")
  file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/cloister.service\" \"\${unit}\")")
