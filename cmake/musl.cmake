# The malloc for C programs of musl, with Debian's musl-tools. They bring no C++ library, so GCC's own
# headers serve, with what they take from glibc's put right by cmake/musl.h; the malloc links nothing of
# it. On a system whose C library is musl, with a C++ library for it, nothing of this is needed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # a C++ program cannot be linked

execute_process(
  COMMAND ${CMAKE_CXX_COMPILER} -dumpversion
  OUTPUT_VARIABLE strata_gcc_version
  OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(
  COMMAND ${CMAKE_CXX_COMPILER} -print-multiarch
  OUTPUT_VARIABLE strata_multiarch
  OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REPLACE "linux-gnu" "linux-musl" strata_musl "${strata_multiarch}")

# The kernel's headers lie among glibc's, which must not be found.
set(strata_kernel_headers ${CMAKE_BINARY_DIR}/kernel_headers)
file(MAKE_DIRECTORY ${strata_kernel_headers})
foreach(folder IN ITEMS linux asm-generic ${strata_multiarch}/asm)
  get_filename_component(name ${folder} NAME)
  file(CREATE_LINK /usr/include/${folder} ${strata_kernel_headers}/${name} SYMBOLIC)
endforeach()

set(strata_cxx_headers /usr/include/c++/${strata_gcc_version})
string(
  JOIN
  " "
  CMAKE_CXX_FLAGS_INIT
  -specs=/usr/lib/${strata_musl}/musl-gcc.specs
  "-isystem ${strata_cxx_headers}"
  "-isystem /usr/include/${strata_multiarch}/c++/${strata_gcc_version}"
  "-idirafter ${strata_kernel_headers}"
  "-include ${CMAKE_CURRENT_LIST_DIR}/musl.h")
