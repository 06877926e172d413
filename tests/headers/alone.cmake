# cmake -DCOMPILER=<c++> -DSTANDARD=<c++20|c++2b> -DHOW=<each|preparsed|together> -DINCLUDES=<dir;...>
#       -DHEADERS=<amp/x.hpp;...> -DWORK=<folder> [-DFLAGS=<flag;...>] -P alone.cmake
#
# Compiles, with the project's warnings as errors,
#   each       a file for each header that includes it and nothing else
#   preparsed  the same, but the standard headers that the toolkit uses are parsed once and precede: faster, and misses
#              one fault only, a standard header that is used and not included
#   together   two files with all headers, in ascending and in descending order
set(flags -std=${STANDARD} -Wall -Wextra -Wconversion -Wshadow -Wno-sign-conversion -Werror -Wno-psabi -ffp-contract=off ${FLAGS})
list(GET INCLUDES 0 own)
list(APPEND flags "-I${own}")
foreach(dir IN LISTS INCLUDES)
  if(NOT dir STREQUAL own AND NOT dir MATCHES "^/usr/include(/[a-z0-9_]+-linux-gnu)?$")  # the compiler's own, in its order
    list(APPEND flags -isystem "${dir}")
  endif()
endforeach()
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")

function(run)
  execute_process(COMMAND "${COMPILER}" ${ARGN} RESULT_VARIABLE result ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${output}")
  endif()
endfunction()

set(first)
if(HOW STREQUAL "preparsed")
  set(standard)
  foreach(header IN LISTS HEADERS)
    if(NOT header MATCHES "^amp/(adapters|cuda)/")
      file(STRINGS "${own}/${header}" lines REGEX "^#include <[a-z_0-9]+>")
      list(APPEND standard ${lines})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES standard)
  list(SORT standard)
  list(JOIN standard "\n" standard)
  file(WRITE "${WORK}/standard.hpp" "${standard}\n")
  run(${flags} -x c++-header "${WORK}/standard.hpp" -o "${WORK}/standard.hpp.gch")
  set(first -include "${WORK}/standard.hpp")
endif()

set(files)
if(HOW STREQUAL "together")
  set(reversed ${HEADERS})
  list(REVERSE reversed)
  foreach(order HEADERS reversed)
    list(TRANSFORM ${order} REPLACE "(.+)" "#include <\\1>" OUTPUT_VARIABLE lines)
    list(JOIN lines "\n" text)
    file(WRITE "${WORK}/${order}.cpp" "${text}\n")
    list(APPEND files "${WORK}/${order}.cpp")
  endforeach()
else()
  foreach(header IN LISTS HEADERS)
    string(MAKE_C_IDENTIFIER "${header}" name)
    file(WRITE "${WORK}/${name}.cpp" "#include <${header}>\n")
    list(APPEND files "${WORK}/${name}.cpp")
  endforeach()
endif()
run(${flags} -fsyntax-only ${first} ${files})
list(LENGTH files count)
message(STATUS "${count} headers")
