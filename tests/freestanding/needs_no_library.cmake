# Fails if an object needs a symbol that a freestanding program does not have.
execute_process(COMMAND ${NM} --undefined-only --format=posix ${OBJECTS}
                OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
foreach(line IN LISTS lines)
  string(REGEX REPLACE " .*" "" symbol "${line}")
  if(NOT symbol MATCHES
     "^(memcpy|memmove|memset|memcmp|_GLOBAL_OFFSET_TABLE_|strata_[a-z_]*self_test)$"
     AND NOT line MATCHES ":$")
    message(SEND_ERROR "a freestanding pool needs ${symbol}")
  endif()
endforeach()
