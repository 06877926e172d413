# amp_warnings: the project's own warning flags, linked privately, never seen by a user of the headers.
add_library(amp_warnings INTERFACE)
target_compile_options(amp_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow -Wno-sign-conversion>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${AMP_WERROR}>>:-Werror>)
