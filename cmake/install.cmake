# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` installs, and where. Everything is relative to the prefix, so the prefix can be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gpupool)
set(installed_targets gpupool)
if(GPUPOOL_BUILD_STATIC)
  list(APPEND installed_targets gpupool_static)
endif()
if(GPUPOOL_BUILD_TORCH)
  list(APPEND installed_targets gpupool_torch)
  install(FILES ${PROJECT_SOURCE_DIR}/src/frameworks/torch/include/gpupool/torch.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gpupool)
endif()
install(TARGETS ${installed_targets} EXPORT gpupoolTargets)
if(GPUPOOL_BUILD_KOKKOS)
  list(APPEND installed_targets gpupool_kokkos)
  install(TARGETS gpupool_kokkos DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
foreach(library IN ITEMS gpupool_inject gpupool_audit)  # not libraries to link with: gpupool run names their files
  if(TARGET ${library})
    list(APPEND installed_targets ${library})
    install(TARGETS ${library} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/gpupool DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN *.h PATTERN *.hpp)
install(EXPORT gpupoolTargets NAMESPACE gpupool:: DESTINATION ${config_dir})

if(GPUPOOL_BUILD_CLI)
  file(RELATIVE_PATH bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set(beside_command $ORIGIN)
  if(APPLE)
    set(beside_command @loader_path)
  endif()
  set_target_properties(gpupool_cli PROPERTIES INSTALL_RPATH "${beside_command}/${bin_to_lib}")
  install(TARGETS gpupool_cli)
endif()
if(TARGET gpupool_pages)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/pages/share/ DESTINATION ${CMAKE_INSTALL_DATADIR})
endif()

# All that is installed, for who builds no tests and no examples.
add_custom_target(gpupool_installed DEPENDS ${installed_targets})
if(GPUPOOL_BUILD_CLI)
  add_dependencies(gpupool_installed gpupool_cli)
endif()
if(TARGET gpupool_pages)
  add_dependencies(gpupool_installed gpupool_pages)
endif()

# While the major version is 0, a minor version may change anything.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
else()
  set(compatibility SameMajorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gpupoolConfigVersion.cmake COMPATIBILITY ${compatibility})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/gpupoolConfig.cmake.in
  ${PROJECT_BINARY_DIR}/gpupoolConfig.cmake INSTALL_DESTINATION ${config_dir})
install(FILES ${PROJECT_BINARY_DIR}/gpupoolConfig.cmake ${PROJECT_BINARY_DIR}/gpupoolConfigVersion.cmake
        DESTINATION ${config_dir})

# The prefix as seen from the directory of the .pc file, which pkg-config calls pcfiledir.
file(RELATIVE_PATH pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(${PROJECT_SOURCE_DIR}/cmake/gpupool.pc.in ${PROJECT_BINARY_DIR}/gpupool.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gpupool.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
