# What the port calls of vcpkg, for a test without it: the build is one that exists already.
#
#   cmake -DBUILD=… -DCURRENT_PACKAGES_DIR=… -DOPTIONS=… -DPORTFILE=… -P vcpkg_stand_in.cmake
cmake_minimum_required(VERSION 3.25)
set(PORT strata)

function(vcpkg_cmake_configure)
  cmake_parse_arguments(arg "" "SOURCE_PATH" "OPTIONS" ${ARGN})
  if(NOT EXISTS ${arg_SOURCE_PATH}/CMakeLists.txt)
    message(FATAL_ERROR "the port's sources are not in ${arg_SOURCE_PATH}")
  endif()
  foreach(option IN LISTS arg_OPTIONS)
    string(REGEX REPLACE "^-D([A-Z_]+)=.*$" "\\1" name ${option})
    if(NOT name IN_LIST OPTIONS)
      message(FATAL_ERROR "the project has no option ${name}")
    endif()
  endforeach()
endfunction()

# Once for each build type.
function(vcpkg_cmake_install)
  foreach(prefix IN ITEMS ${CURRENT_PACKAGES_DIR} ${CURRENT_PACKAGES_DIR}/debug)
    execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix}
                    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endfunction()

# Moves the package's files to share/<port>, two folders below the prefix instead of three.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(arg "" "CONFIG_PATH" "" ${ARGN})
  set(from ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH})
  set(to ${CURRENT_PACKAGES_DIR}/share/${PORT})
  file(
    GLOB files
    RELATIVE ${from}
    ${from}/*.cmake)
  if(NOT files)
    message(FATAL_ERROR "there are no files of the package in ${from}")
  endif()
  foreach(file IN LISTS files)
    file(READ ${from}/${file} text)
    string(REPLACE "/../../../" "/../../" text "${text}")
    string(REPLACE "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\nif(" "if("
                   text "${text}")
    file(WRITE ${to}/${file} "${text}")
  endforeach()
  file(REMOVE_RECURSE ${from})
endfunction()

function(vcpkg_fixup_pkgconfig)
  if(NOT EXISTS ${CURRENT_PACKAGES_DIR}/lib/pkgconfig/strata-heap.pc)
    message(FATAL_ERROR "there is no strata-heap.pc")
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(arg "" "" "FILE_LIST" ${ARGN})
  configure_file(${arg_FILE_LIST} ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright COPYONLY)
endfunction()

include(${PORTFILE})
