# Functions for tests. A test prints "[skipped] reason" and its program returns 77 when something it needs is missing and
# nothing failed; ctest then shows it as skipped.
find_package(doctest 2.4 REQUIRED)
include(doctest)

set(AMP_TEST_SKIP_CODE 77)

# A case name that CMake would split or join as a list runs no case at all: refused here.
function(amp_check_case_names)
  foreach(source IN LISTS ARGN)
    file(READ "${source}" text)
    if(text MATCHES "TEST_CASE[A-Z_]*\\([^\"]*\"[^\"]*(;|\\[[^]\"]*\")")
      message(FATAL_ERROR "${source}: a case name holds ';' or an open '[': ${CMAKE_MATCH_0}")
    endif()
  endforeach()
endfunction()

# amp_label_cases(<name> label...): gives every case that ctest discovers in a program these labels. doctest's own
# function cannot pass a list of them.
function(amp_label_cases name)
  set(file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(CONFIGURE OUTPUT "${file}" @ONLY CONTENT [[
foreach(case IN LISTS @name@_TESTS)
  set_tests_properties("${case}" PROPERTIES LABELS "@ARGN@")
endforeach()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
endfunction()

# amp_test(<name> SOURCES ... [LIBRARIES ...] [LABELS ...] [PREFIX p/] [BY_SUITE])
# One executable; one ctest entry per case, or per TEST_SUITE with BY_SUITE (programs that link LibTorch start slowly).
function(amp_test name)
  cmake_parse_arguments(arg "BY_SUITE" "PREFIX;TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  amp_check_case_names(${arg_SOURCES})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE amp_test_support amp_warnings ${arg_LIBRARIES})
  # Tests run side by side: an OpenMP thread that waits by spinning would take the core that another test needs.
  set(properties SKIP_RETURN_CODE ${AMP_TEST_SKIP_CODE} TIMEOUT ${arg_TIMEOUT} ENVIRONMENT OMP_WAIT_POLICY=passive)
  if(arg_BY_SUITE)
    set(suites)
    foreach(source IN LISTS arg_SOURCES)
      file(STRINGS "${source}" lines REGEX "^ *TEST_SUITE\\(\"[^\"]+\"\\)")
      foreach(line IN LISTS lines)
        string(REGEX REPLACE "^ *TEST_SUITE\\(\"([^\"]+)\"\\).*" "\\1" suite "${line}")
        list(APPEND suites "${suite}")
      endforeach()
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    endforeach()
    list(REMOVE_DUPLICATES suites)
    foreach(suite IN LISTS suites)
      add_test(NAME "${suite}" COMMAND ${name} --test-suite=${suite} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
      set_tests_properties("${suite}" PROPERTIES ${properties} LABELS "${arg_LABELS}")
    endforeach()
  else()
    doctest_discover_tests(${name} TEST_PREFIX "${arg_PREFIX}" WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
                           PROPERTIES ${properties})
    amp_label_cases(${name} ${arg_LABELS})
  endif()
endfunction()

# amp_test_folder(<folder> [LIBRARIES ...] [LABELS ...] [BY_SUITE]): all *_test.cpp of a folder as one executable. Its
# cases carry the folders of the path as labels (fixtures/data: fixtures, data) beside those given.
function(amp_test_folder folder)
  cmake_parse_arguments(PARSE_ARGV 1 folder "BY_SUITE" "TIMEOUT" "LIBRARIES;LABELS")
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cpp")
  if(sources)
    string(REPLACE "/" "_" name "${folder}")
    string(REPLACE "/" ";" labels "${folder}")
    set(labels ${folder_LABELS} ${labels})
    list(REMOVE_DUPLICATES labels)
    set(options)
    if(folder_BY_SUITE)
      list(APPEND options BY_SUITE)
    endif()
    if(folder_TIMEOUT)
      list(APPEND options TIMEOUT ${folder_TIMEOUT})
    endif()
    amp_test(test_${name} SOURCES ${sources} PREFIX "${folder}/" LIBRARIES ${folder_LIBRARIES} LABELS ${labels} ${options})
  endif()
endfunction()
