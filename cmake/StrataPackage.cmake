# `cpack` in the build folder makes Debian packages of what is installed:
#
#   libstrata0      the shared object, to preload or to link; needs the C library only
#   libstrata-dev   headers, archives, CMake and pkg-config files
#   strata          the command, if it is built
#
# Their parts are the install components library, development and tools.

set(CPACK_PACKAGE_NAME strata)
set(CPACK_PACKAGE_VENDOR "The Strata authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_PACKAGE_CONTACT "The Strata authors <noreply@strata.invalid>")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL library development)
if(STRATA_BUILD_CLI)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(strata_soname libstrata${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${strata_soname})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
# What packages depend on whose programs link the library: one with the same interface, which until 1.0
# a minor version may change.
set(strata_needed "${strata_soname} (>= ${PROJECT_VERSION})")
if(PROJECT_VERSION_MAJOR EQUAL 0)
  math(EXPR strata_next_minor "${PROJECT_VERSION_MINOR} + 1")
  string(APPEND strata_needed ", ${strata_soname} (<< 0.${strata_next_minor}~)")
endif()
file(WRITE ${PROJECT_BINARY_DIR}/shlibs "libstrata ${PROJECT_VERSION_MAJOR} ${strata_needed}\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/shlibs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
    "Drop-in malloc, as a shared object
Preload it or link it: it replaces the malloc and operator new of a program,
and returns idle memory to the system.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libstrata-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${strata_soname} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "Drop-in malloc and specialised allocators, development files
Headers, static libraries, documents, and files for CMake and pkg-config.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME strata)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${strata_soname} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION
    "Runs, compares and explains programs under any memory allocator
The strata command: runs a program on Strata or on any other allocator,
measures time and memory, profiles the heap, finds leaks, records every
allocation, and replays it.")

include(CPack)
