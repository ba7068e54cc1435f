# One function declares a layer of src/: its library, its tests and its benchmarks.
#
#   strata_layer(span
#     DEPENDS os base                     # layers it may include; src/README.md is the law
#     SOURCES page_map.cpp page_heap.cpp  # may be empty for a layer of headers
#     TESTS page_heap_test.cpp            # one GoogleTest binary per layer: <layer>_test
#     BENCHES page_heap_bench.cpp)        # one Google Benchmark binary per layer: <layer>_bench
#
# A layer is an OBJECT library strata_<layer>. strata_closure(<out> <layer>...) lists the objects of
# the layers and of all below them, so that a test, the shared object or an archive links exactly what
# it stands on.

find_package(Threads REQUIRED)

# Without a build type, the one that users run.
if(PROJECT_IS_TOP_LEVEL
   AND NOT CMAKE_BUILD_TYPE
   AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE
      Release
      CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

# What every target of the project is built with: strata_build_flags in any version of C++,
# strata_flags in that of the sources, with their headers.
add_library(strata_build_flags INTERFACE)
add_library(strata_flags INTERFACE)
target_include_directories(strata_flags INTERFACE ${PROJECT_SOURCE_DIR}/src
                                                  ${PROJECT_SOURCE_DIR}/include)
target_compile_features(strata_flags INTERFACE cxx_std_20)
target_link_libraries(strata_flags INTERFACE strata_build_flags)
target_compile_options(
  strata_build_flags
  INTERFACE
    -Wall
    -Wextra
    -Wpedantic
    # Where many files are one, a local name may be that of another file.
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wshadow>
    -Wno-unused-parameter
    $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
    # Sized operator delete: GCC has it by default.
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fsized-deallocation>
    # A sentence that names its place says src/base/lock.cpp, wherever the build was made.
    -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
    # GCC collects its own garbage seldom: a twentieth of the time, for a fifth more memory.
    $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>
    $<$<BOOL:${STRATA_WARNINGS_AS_ERRORS}>:-Werror>)
target_link_libraries(strata_build_flags INTERFACE Threads::Threads)
if(STRATA_SANITIZER STREQUAL "address")
  # Not vptr: it reads the type information that src/ is built without. Local variables stay on the
  # stack, where tests of misuse expect them.
  target_compile_options(
    strata_build_flags
    INTERFACE -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all
              -fno-omit-frame-pointer $<$<CXX_COMPILER_ID:GNU>:--param=asan-use-after-return=0>)
  target_link_options(strata_build_flags INTERFACE -fsanitize=address,undefined)
elseif(STRATA_SANITIZER STREQUAL "thread")
  target_compile_options(strata_build_flags INTERFACE -fsanitize=thread)
  target_link_options(strata_build_flags INTERFACE -fsanitize=thread)
elseif(STRATA_SANITIZER STREQUAL "fuzzer"
)# with clang alone; tests/fuzz links its programs with the engine
  target_compile_options(
    strata_build_flags
    INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr,function
              -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(strata_build_flags INTERFACE -fsanitize=address,undefined)
elseif(STRATA_SANITIZER)
  message(
    FATAL_ERROR "STRATA_SANITIZER is '${STRATA_SANITIZER}'; use address, thread, fuzzer or nothing")
endif()

# What the project around this one may ask for, and the layers do without. The assertions of libstdc++
# call its library, and programs in C have none. Optimised at link time, code ends up in another unit
# than the assembly of its file. Clang accepts the other two only together with that.
set(strata_plain_code -Wp,-U_GLIBCXX_ASSERTIONS -fno-lto)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND strata_plain_code -fno-sanitize=cfi -fno-whole-program-vtables)
endif()

if(STRATA_BUILD_TESTS)
  if(CMAKE_CROSSCOMPILING)
    # Debian has GoogleTest built for this machine only, and its sources for all others.
    add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  else()
    find_package(GTest REQUIRED)
  endif()
  include(GoogleTest)
  # What a test is linked with. It is told of an emulator.
  add_library(strata_test_flags INTERFACE)
  target_link_libraries(strata_test_flags INTERFACE strata_flags GTest::gmock)
  target_compile_definitions(strata_test_flags
                             INTERFACE $<$<BOOL:${CMAKE_CROSSCOMPILING_EMULATOR}>:STRATA_EMULATED>)
  # What is tested is optimised as it ships; the tests themselves are compiled faster than they run.
  target_compile_options(strata_test_flags INTERFACE $<$<CONFIG:Release>:-Og>)
  # GoogleTest is half of what a test costs to compile, so it is compiled once.
  add_library(strata_test_headers OBJECT)
  target_link_libraries(strata_test_headers PRIVATE strata_test_flags)
  target_precompile_headers(strata_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  file(
    GENERATE
    OUTPUT strata_test_headers.cpp
    CONTENT "// The headers are all of it.\n")
  target_sources(strata_test_headers PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/strata_test_headers.cpp)
  if(STRATA_SANITIZER STREQUAL "address")
    add_library(strata_note_threads OBJECT ${PROJECT_SOURCE_DIR}/tests/support/note_threads.cpp)
    target_link_libraries(strata_note_threads PRIVATE strata_test_flags)
  endif()
endif()
if(STRATA_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

function(strata_closure out)
  set(objects)
  foreach(layer IN LISTS ARGN)
    get_property(below GLOBAL PROPERTY STRATA_CLOSURE_${layer})
    list(APPEND objects ${below})
  endforeach()
  list(REMOVE_DUPLICATES objects)
  set(${out}
      ${objects}
      PARENT_SCOPE)
endfunction()

# The tests of a GoogleTest binary. Under an emulator they are one, for each size that an OS page of
# the machine may have: it takes longer to start than most of them.
function(strata_discover_tests name)
  cmake_parse_arguments(arg "" "TIMEOUT;TEST_PREFIX" "ENVIRONMENT" ${ARGN})
  if(NOT CMAKE_CROSSCOMPILING_EMULATOR)
    # A list does not pass as a property: `env` sets the variables. Read by the call, not kept.
    if(arg_ENVIRONMENT)
      set_target_properties(${name} PROPERTIES CROSSCOMPILING_EMULATOR "env;${arg_ENVIRONMENT}")
    endif()
    set(prefix)
    if(arg_TEST_PREFIX)
      set(prefix TEST_PREFIX ${arg_TEST_PREFIX})
    endif()
    gtest_discover_tests(
      ${name} ${prefix} DISCOVERY_MODE PRE_TEST
      PROPERTIES
      TIMEOUT ${arg_TIMEOUT})
    set_target_properties(${name} PROPERTIES CROSSCOMPILING_EMULATOR "")
    return()
  endif()
  foreach(page_kib IN ITEMS 4 16 64)
    math(EXPR page_bytes "${page_kib} * 1024")
    set(test ${arg_TEST_PREFIX}${name}.with_pages_of_${page_kib}_KiB)
    add_test(NAME ${test} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${test} PROPERTIES TIMEOUT 600 ENVIRONMENT
                                            "QEMU_PAGESIZE=${page_bytes};${arg_ENVIRONMENT}")
  endforeach()
endfunction()

# Where everything is built once and nothing again, sources of the target are compiled several at a
# time: half of the time goes into their headers. Not for the layers, which are built as users build
# them.
function(strata_compile_together target)
  if(STRATA_COMPILE_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  endif()
endfunction()

# A GoogleTest binary over the given layers; TIMEOUT in seconds. PRECOMPILED are headers that most of
# its files include, beside GoogleTest's.
function(strata_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LAYERS;LIBRARIES;PRECOMPILED" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  strata_closure(objects ${arg_LAYERS})
  add_executable(${name} ${arg_SOURCES} ${objects})
  strata_compile_together(${name})
  target_link_libraries(${name} PRIVATE strata_test_flags GTest::gtest_main ${arg_LIBRARIES}
                                        $<TARGET_NAME_IF_EXISTS:strata_note_threads>)
  if(arg_PRECOMPILED)
    target_precompile_headers(${name} PRIVATE <gmock/gmock.h> <gtest/gtest.h> ${arg_PRECOMPILED})
  else()
    target_precompile_headers(${name} REUSE_FROM strata_test_headers)
  endif()
  strata_discover_tests(${name} TIMEOUT ${arg_TIMEOUT})
endfunction()

# A Google Benchmark binary over the given layers.
function(strata_bench name)
  cmake_parse_arguments(arg "" "" "SOURCES;LAYERS;LIBRARIES" ${ARGN})
  strata_closure(objects ${arg_LAYERS})
  add_executable(${name} ${arg_SOURCES} ${objects})
  target_link_libraries(${name} PRIVATE strata_flags benchmark::benchmark_main ${arg_LIBRARIES})
endfunction()

function(strata_layer layer)
  cmake_parse_arguments(arg "" "" "DEPENDS;SOURCES;TESTS;BENCHES" ${ARGN})
  strata_closure(objects ${arg_DEPENDS})
  if(arg_SOURCES)
    add_library(strata_${layer} OBJECT ${arg_SOURCES})
    target_link_libraries(strata_${layer} PRIVATE strata_flags)
    # A few words of static TLS, no exceptions, nothing exported unless it is marked.
    target_compile_options(
      strata_${layer}
      PRIVATE -fno-exceptions -fno-rtti -fvisibility=hidden -fvisibility-inlines-hidden
              -ftls-model=initial-exec -ffunction-sections -fdata-sections ${strata_plain_code})
    set_target_properties(strata_${layer} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    list(PREPEND objects $<TARGET_OBJECTS:strata_${layer}>)
  endif()
  set_property(GLOBAL PROPERTY STRATA_CLOSURE_${layer} ${objects})
  if(STRATA_BUILD_TESTS AND arg_TESTS)
    strata_test(
      ${layer}_test
      SOURCES ${arg_TESTS}
      LAYERS ${layer})
  endif()
  if(STRATA_BUILD_BENCHMARKS AND arg_BENCHES)
    strata_bench(
      ${layer}_bench
      SOURCES ${arg_BENCHES}
      LAYERS ${layer})
  endif()
endfunction()
