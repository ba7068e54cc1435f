# What a user gets, and how it is installed.
#
#   strata_install_library(strata_shared EXPORT_NAME strata)   # strata::strata, and its package files
#   strata_install_program(strata)                             # into bin/, or DESTINATION
#   strata_install_manuals()                                   # strata(1) and libstrata(3)
#
# Each also joins the target `strata_product`: everything that gets installed and nothing else. A library
# target may be called anything; its consumers say strata::<EXPORT_NAME>, whether they use
# find_package, add_subdirectory or FetchContent:
#
#   strata::malloc         the shared object as the program's malloc, even if it calls nothing of it
#   strata::strata         the shared object by its file's name
#   strata::strata_static  the archive that overrides malloc at link time
#   strata::heap           heaps of one's own: only our names, malloc stays
#   strata::toolkit        the shelf: the public headers and their small archive

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(STRATA_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/strata)
if(NOT PROJECT_IS_TOP_LEVEL) # it may be the folder of the project around this one
  set(CMAKE_INSTALL_DOCDIR ${CMAKE_INSTALL_DATAROOTDIR}/doc/strata)
endif()

add_custom_target(strata_product)

function(strata_install_library target)
  cmake_parse_arguments(arg "" "EXPORT_NAME" "" ${ARGN})
  if(NOT arg_EXPORT_NAME)
    message(
      FATAL_ERROR "strata_install_library(${target}): say EXPORT_NAME, the part after strata::")
  endif()
  add_dependencies(strata_product ${target})
  if(NOT TARGET strata::${arg_EXPORT_NAME})
    add_library(strata::${arg_EXPORT_NAME} ALIAS ${target})
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${arg_EXPORT_NAME})
  # The public headers are C++17, whatever the sources need. A project around this one may be C alone.
  get_directory_property(has_cxx DIRECTORY ${CMAKE_SOURCE_DIR} DEFINITION CMAKE_CXX_COMPILER_LOADED)
  if(has_cxx)
    target_compile_features(${target} INTERFACE cxx_std_17)
  endif()
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    target_link_libraries(${target} INTERFACE Threads::Threads)
  elseif(type STREQUAL "SHARED_LIBRARY")
    set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION
                                                                          ${PROJECT_VERSION_MAJOR})
  endif()
  install(
    TARGETS ${target}
    EXPORT strata-targets
    LIBRARY COMPONENT library NAMELINK_COMPONENT development
    ARCHIVE COMPONENT development)
  set_property(GLOBAL APPEND PROPERTY STRATA_INSTALLED_LIBRARIES ${target})
endfunction()

function(strata_install_program target)
  cmake_parse_arguments(arg "" "DESTINATION" "" ${ARGN})
  if(NOT arg_DESTINATION)
    set(arg_DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
  add_dependencies(strata_product ${target})
  install(TARGETS ${target} RUNTIME DESTINATION ${arg_DESTINATION} COMPONENT tools)
endfunction()

# The manual pages strata(1) and libstrata(3), written from what the command and the library say.
function(strata_install_manuals)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(NOT Python3_FOUND OR CMAKE_CROSSCOMPILING)
    message(STATUS "Manual pages: no (need python3, and a command that runs here)")
    return()
  endif()
  set(folder ${PROJECT_BINARY_DIR}/man)
  add_custom_command(
    OUTPUT ${folder}/strata.1 ${folder}/libstrata.3
    COMMAND
      Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/manual_pages --strata $<TARGET_FILE:strata>
      --library $<TARGET_FILE:strata_shared> --version ${PROJECT_VERSION} -o ${folder}
    DEPENDS strata strata_shared ${PROJECT_SOURCE_DIR}/tools/manual_pages
            ${PROJECT_SOURCE_DIR}/include/strata/malloc.h
    VERBATIM)
  add_custom_target(strata_manuals ALL DEPENDS ${folder}/strata.1 ${folder}/libstrata.3)
  add_dependencies(strata_product strata_manuals)
  install(
    FILES ${folder}/strata.1
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT tools)
  install(
    FILES ${folder}/libstrata.3
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man3
    COMPONENT development)
endfunction()

# Once, after the last strata_install_library(): the headers, the CMake package and the pkg-config
# files of the libraries that exist.
function(strata_install_package)
  get_property(libraries GLOBAL PROPERTY STRATA_INSTALLED_LIBRARIES)
  if(NOT libraries)
    return()
  endif()
  install(
    DIRECTORY ${PROJECT_SOURCE_DIR}/include/strata
    TYPE INCLUDE
    COMPONENT development
    FILES_MATCHING
    PATTERN "*.h"
    PATTERN "*.hpp")
  install(
    FILES ${PROJECT_SOURCE_DIR}/LICENSE
    TYPE DOC
    COMPONENT library)
  # What the headers cite as docs/… is in share/doc/strata/docs.
  install(
    DIRECTORY ${PROJECT_SOURCE_DIR}/docs
    TYPE DOC
    COMPONENT development)
  install(
    EXPORT strata-targets
    NAMESPACE strata::
    DESTINATION ${STRATA_PACKAGE_DIR}
    COMPONENT development)
  # A build folder serves find_package, too.
  export(
    EXPORT strata-targets
    NAMESPACE strata::
    FILE ${PROJECT_BINARY_DIR}/strata-targets.cmake)
  configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/strataConfig.cmake.in ${PROJECT_BINARY_DIR}/strataConfig.cmake
    INSTALL_DESTINATION ${STRATA_PACKAGE_DIR})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/strataConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(
    FILES ${PROJECT_BINARY_DIR}/strataConfig.cmake ${PROJECT_BINARY_DIR}/strataConfigVersion.cmake
    DESTINATION ${STRATA_PACKAGE_DIR}
    COMPONENT development)
  foreach(target IN LISTS libraries)
    strata_install_pkgconfig(${target})
  endforeach()
endfunction()

# strata.pc for strata::strata, strata-static.pc for strata::strata_static, strata-toolkit.pc for
# strata::toolkit. The prefix is found from the file's own place, so that an installed tree can move;
# unless the libraries have a place of their own.
function(strata_install_pkgconfig target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY") # strata::malloc: strata.pc says it, too
    return()
  endif()
  get_target_property(STRATA_PC_EXPORT ${target} EXPORT_NAME)
  string(REGEX REPLACE "^strata_" "" STRATA_PC_NAME ${STRATA_PC_EXPORT})
  if(NOT STRATA_PC_NAME STREQUAL "strata")
    string(PREPEND STRATA_PC_NAME "strata-")
  endif()
  get_target_property(output ${target} OUTPUT_NAME)
  if(NOT output)
    set(output ${target})
  endif()
  string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
  get_target_property(postfix ${target} ${config}_POSTFIX)
  if(postfix)
    string(APPEND output ${postfix})
  endif()
  # The program's malloc, also where it leaves calling malloc to its libraries.
  set(STRATA_PC_LIBS "-L\${libdir} -Wl,--push-state,--no-as-needed -l${output} -Wl,--pop-state")
  if(type STREQUAL "STATIC_LIBRARY")
    # By file name: if a shared library of the same name is in the same folder, -l would take that one.
    set(STRATA_PC_LIBS "-L\${libdir} -l:lib${output}.a -pthread")
    if(target STREQUAL "strata_static")
      string(PREPEND STRATA_PC_LIBS "-Wl,--undefined=malloc ")
    endif()
  endif()
  if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    set(STRATA_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  else()
    file(RELATIVE_PATH STRATA_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    string(REGEX REPLACE "(.*)/$" "\${pcfiledir}/\\1" STRATA_PC_PREFIX ${STRATA_PC_PREFIX})
  endif()
  cmake_path(APPEND STRATA_PC_LIBDIR \${prefix} ${CMAKE_INSTALL_LIBDIR})
  cmake_path(APPEND STRATA_PC_INCLUDEDIR \${prefix} ${CMAKE_INSTALL_INCLUDEDIR})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/strata.pc.in
                 ${PROJECT_BINARY_DIR}/${STRATA_PC_NAME}.pc @ONLY)
  install(
    FILES ${PROJECT_BINARY_DIR}/${STRATA_PC_NAME}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT development)
endfunction()
