# amp::cblas: the machine's CBLAS (cblas.h and the library that BLAS::BLAS names), made where both are found and link.
find_package(BLAS QUIET)
find_path(AMP_CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas)
mark_as_advanced(AMP_CBLAS_INCLUDE_DIR)
if(TARGET BLAS::BLAS AND AMP_CBLAS_INCLUDE_DIR AND NOT TARGET amp::cblas)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES BLAS::BLAS)
  set(CMAKE_REQUIRED_INCLUDES "${AMP_CBLAS_INCLUDE_DIR}")
  check_cxx_source_compiles(
    "#include <cblas.h>
     int main() { float x = 1; return static_cast<int>(cblas_sdot(1, &x, 1, &x, 1)) - 1; }" AMP_CBLAS_LINKS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  unset(CMAKE_REQUIRED_INCLUDES)
  if(AMP_CBLAS_LINKS)
    add_library(amp::cblas INTERFACE IMPORTED)
    target_include_directories(amp::cblas SYSTEM INTERFACE "${AMP_CBLAS_INCLUDE_DIR}")
    target_link_libraries(amp::cblas INTERFACE BLAS::BLAS)
  endif()
endif()
