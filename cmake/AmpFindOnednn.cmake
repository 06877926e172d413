# amp::dnnl: oneDNN by its header and library. Debian's own dnnl-config.cmake fails hard where OpenCL is missing, which
# nothing here needs.
find_path(AMP_DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(AMP_DNNL_LIBRARY dnnl)
mark_as_advanced(AMP_DNNL_INCLUDE_DIR AMP_DNNL_LIBRARY)
if(AMP_DNNL_INCLUDE_DIR AND AMP_DNNL_LIBRARY AND NOT TARGET amp::dnnl)
  add_library(amp::dnnl INTERFACE IMPORTED)
  target_include_directories(amp::dnnl SYSTEM INTERFACE "${AMP_DNNL_INCLUDE_DIR}")
  target_link_libraries(amp::dnnl INTERFACE "${AMP_DNNL_LIBRARY}")
endif()
