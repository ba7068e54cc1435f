# Programs that run on the malloc, each in both ways a user has:
#
#   <name>.linked     linked with the static library
#   <name>.preloaded  knows nothing of Strata and runs under LD_PRELOAD
#
#   strata_program(fork_storm SOURCES fork_storm.cpp)
#   strata_program_test(fork_storm TIMEOUT 900 LABELS slow ENVIRONMENT STRATA_RELEASE_DELAY_MS=20)

set(STRATA_PRELOAD "LD_PRELOAD=$<TARGET_FILE:strata_shared>")

# What every program of the tests is compiled with: the compiler must neither fold a malloc and its
# free away nor warn of the misuse that is the test.
add_library(strata_program_flags INTERFACE)
target_link_libraries(strata_program_flags INTERFACE strata_flags)
target_include_directories(strata_program_flags INTERFACE ${PROJECT_SOURCE_DIR}/tests)
target_compile_options(
  strata_program_flags
  INTERFACE -fno-builtin $<$<CXX_COMPILER_ID:GNU>:-fno-allocation-dce -Wno-use-after-free
            -Wno-free-nonheap-object -Wno-alloc-size-larger-than>)

function(strata_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name}.objects OBJECT ${arg_SOURCES})
  target_link_libraries(${name}.objects PRIVATE strata_program_flags ${arg_LIBRARIES})
  foreach(way IN ITEMS linked preloaded)
    add_executable(${name}.${way})
    target_link_libraries(${name}.${way} PRIVATE ${name}.objects strata_program_flags
                                                 ${arg_LIBRARIES})
  endforeach()
  target_link_libraries(${name}.linked PRIVATE strata_static)
  add_dependencies(${name}.preloaded strata_shared)
endfunction()

# One test per way; CASE names it where one program has several tests, ARGUMENTS go to the program.
function(strata_program_test name)
  cmake_parse_arguments(arg "SERIAL" "CASE;TIMEOUT" "ARGUMENTS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600) # a busy machine may need minutes for what takes seconds
  endif()
  set(test ${name})
  if(arg_CASE)
    string(APPEND test .${arg_CASE})
  endif()
  foreach(way IN ITEMS linked preloaded)
    add_test(NAME ${test}.${way} COMMAND ${name}.${way} ${arg_ARGUMENTS})
    set(environment ${arg_ENVIRONMENT})
    if(way STREQUAL "preloaded")
      list(APPEND environment ${STRATA_PRELOAD})
    endif()
    set_tests_properties(
      ${test}.${way} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" ENVIRONMENT
                                "${environment}" RUN_SERIAL "${arg_SERIAL}")
  endforeach()
endfunction()
