# cmake -DCOMPILER=<c++> -DSOURCE=<file> -DINCLUDES=<dir;...> [-DFLAGS=<flag;...>] -P expect_compile_error.cmake
#
# The source says what its misuse must print: lines "// expect: <sentence>", or "// expect-clang:" and "// expect-gcc:"
# where the compilers word it. All must appear as literal text (a regular expression would take () and ; wrongly), and
# the compiler must fail: a program that compiles but prints the sentence is no proof. "// expect: nothing" is the
# control: the program must compile.
file(STRINGS "${SOURCE}" lines REGEX "^// expect")
execute_process(COMMAND "${COMPILER}" --version OUTPUT_VARIABLE version ERROR_QUIET)
if(version MATCHES "clang")
  set(own clang)
  set(other gcc)
else()
  set(own gcc)
  set(other clang)
endif()

set(sentences)
set(control FALSE)
foreach(line IN LISTS lines)
  if(line STREQUAL "// expect: nothing")
    set(control TRUE)
  elseif(line MATCHES "^// expect(-${own})?: ")
    string(LENGTH "${CMAKE_MATCH_0}" length)
    string(SUBSTRING "${line}" ${length} -1 sentence)
    list(APPEND sentences "${sentence}")
  elseif(NOT line MATCHES "^// expect-${other}: ")
    message(FATAL_ERROR "${SOURCE}: cannot read \"${line}\"")
  endif()
endforeach()
if(NOT control AND NOT sentences)
  message(FATAL_ERROR "${SOURCE}: no \"// expect: <sentence>\" line for ${own}")
endif()

set(include_flags)
foreach(dir IN LISTS INCLUDES)
  list(APPEND include_flags "-I${dir}")
endforeach()
set(ENV{LC_ALL} C)  # plain quotes in messages
execute_process(COMMAND "${COMPILER}" -std=c++20 -fsyntax-only ${FLAGS} ${include_flags} "${SOURCE}"
                RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)

if(control)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${SOURCE} must compile, but:\n${output}")
  endif()
  return()
endif()
if(result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} must not compile, but does")
endif()
foreach(sentence IN LISTS sentences)
  string(FIND "${output}" "${sentence}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "${SOURCE} fails without the words \"${sentence}\":\n${output}")
  endif()
endforeach()
