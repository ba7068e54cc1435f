# One program for each of STRATA_EXPORTS, the names after strata::, in the folder of the build, and
# one each for heaps in C, for heaps and the shelf together and for heaps beside Strata's malloc, and one
# that leaves calling malloc to its libraries.
function(add_consumer name source)
  add_executable(uses_${name} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${source})
  target_link_libraries(uses_${name} PRIVATE ${ARGN})
endfunction()

foreach(export IN LISTS STRATA_EXPORTS)
  if(export STREQUAL "toolkit" OR export STREQUAL "heap")
    add_consumer(${export} ${export}_program.cpp strata::${export})
  else()
    add_consumer(${export} malloc_program.c strata::${export})
  endif()
endforeach()
if("malloc" IN_LIST STRATA_EXPORTS)
  add_executable(calls_nothing ${CMAKE_CURRENT_LIST_DIR}/calls_nothing.c)
  target_link_options(calls_nothing PRIVATE LINKER:--as-needed)
  # Beside a target that names the same library, and one with options like ours.
  target_link_libraries(calls_nothing PRIVATE strata::malloc strata::strata -Wl,--push-state
                                              -Wl,--pop-state)
endif()
if("heap" IN_LIST STRATA_EXPORTS)
  add_consumer(heap_in_c heap_program.c strata::heap)
  add_consumer(heap_and_toolkit dialects_program.cpp strata::heap strata::toolkit)
  foreach(malloc IN ITEMS malloc strata_static)
    if(malloc IN_LIST STRATA_EXPORTS)
      add_consumer(heap_beside_${malloc} heap_program.cpp strata::heap strata::${malloc})
      target_compile_definitions(uses_heap_beside_${malloc} PRIVATE BESIDE_STRATA)
    endif()
  endforeach()
endif()
