# One program for each of STRATA_EXPORTS, the names after strata::, in the folder of the build.
foreach(export IN LISTS STRATA_EXPORTS)
  if(export STREQUAL "toolkit" OR export STREQUAL "heap")
    add_executable(uses_${export} ${CMAKE_CURRENT_LIST_DIR}/${export}_program.cpp)
  else()
    add_executable(uses_${export} ${CMAKE_CURRENT_LIST_DIR}/malloc_program.c)
  endif()
  target_link_libraries(uses_${export} PRIVATE strata::${export})
endforeach()
