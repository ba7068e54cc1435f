# Reads the object code of bitmap_pool_codegen_test.cpp.
execute_process(COMMAND ${OBJDUMP} -d --no-show-raw-insn ${OBJECT}
                OUTPUT_VARIABLE code COMMAND_ERROR_IS_FATAL ANY)

# How often `instruction` stands in `function`.
function(count_in function instruction out)
  string(REGEX MATCH "<${function}>:\n(([^\n]+\n)*)" body "${code}")
  if(NOT body)
    message(FATAL_ERROR "no function ${function} in ${OBJECT}")
  endif()
  string(REGEX MATCHALL "${instruction}" found "${body}")
  list(LENGTH found count)
  set(${out}
      ${count}
      PARENT_SCOPE)
endfunction()

function(expect function instruction wanted)
  count_in(${function} "${instruction}" count)
  if(NOT count EQUAL wanted)
    message(
      SEND_ERROR
        "${function}: '${instruction}' ${count} times instead of ${wanted}: no longer wait-free, or no longer recognised"
    )
  endif()
endfunction()

expect(probe_set_bit "lock bts" 1)
expect(probe_set_bit "cmpxchg" 0)
expect(probe_clear_bit "lock btr" 1)
expect(probe_clear_bit "cmpxchg" 0)
# One try by compare-exchange, and single bits behind it.
expect(probe_claim_one "lock cmpxchg" 1)
expect("_Z[^>]*claim_one_of[^>]*" "lock bts" 1)
expect("_Z[^>]*claim_one_of[^>]*" "cmpxchg" 0)
expect(probe_clear_bits "lock cmpxchg" 1)
expect(probe_clear_bits "lock btr" 1)
expect(probe_deallocate "lock" 1)
expect(probe_deallocate "lock btr" 1)
expect(probe_deallocate_large "lock btr" 1)
expect(probe_deallocate_large "cmpxchg" 0)
