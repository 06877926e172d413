# Installs the headers, a CMake package (find_package(amp)) and a pkg-config file (amp.pc).
include(CMakePackageConfigHelpers)
set(amp_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/amp")
set(amp_pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

install(TARGETS amp EXPORT ampTargets FILE_SET core DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILE_SET views DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(adapter IN LISTS AMP_PACKAGE_ADAPTERS)
  if(TARGET amp_${adapter})
    install(TARGETS amp_${adapter} EXPORT ampTargets FILE_SET adapter DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endif()
endforeach()
install(EXPORT ampTargets NAMESPACE amp:: DESTINATION "${amp_cmake_dir}")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/ampConfig.cmake.in" "${PROJECT_BINARY_DIR}/ampConfig.cmake"
                              INSTALL_DESTINATION "${amp_cmake_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/ampConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/ampConfig.cmake" "${PROJECT_BINARY_DIR}/ampConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/AmpFindCblas.cmake" "${CMAKE_CURRENT_LIST_DIR}/AmpFindOnednn.cmake"
        DESTINATION "${amp_cmake_dir}")

# The prefix is found from where amp.pc lies, so that an installed tree can be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${amp_pkgconfig_dir}"
           OUTPUT_VARIABLE amp_pc_includedir)
configure_file("${CMAKE_CURRENT_LIST_DIR}/amp.pc.in" "${PROJECT_BINARY_DIR}/amp.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/amp.pc" DESTINATION "${amp_pkgconfig_dir}")
