# `cmake --install`: the program, the library with its headers, and what both read (platforms,
# scenarios).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(modules GLOBAL PROPERTY REHEARSE_MODULES)
target_compile_features(rehearse_library INTERFACE cxx_std_20)
target_include_directories(rehearse_library INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/rehearse>)
install(TARGETS rehearse)
install(TARGETS rehearse_library ${modules} EXPORT rehearse)
install(DIRECTORY src/ sim/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rehearse FILES_MATCHING PATTERN
  "*.hpp")
install(DIRECTORY platforms scenarios schema DESTINATION ${CMAKE_INSTALL_DATADIR}/rehearse)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/rehearse)
install(EXPORT rehearse NAMESPACE rehearse:: FILE rehearseTargets.cmake DESTINATION ${package})
configure_package_config_file(sim/install/rehearseConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/rehearseConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/rehearseConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rehearseConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/rehearseConfigVersion.cmake
  DESTINATION ${package})

# A page for man of each command, and what shells complete: the program prints them.
set(folders "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1"
  "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}")
install(CODE "set(rehearse \"$<TARGET_FILE:rehearse>\")\nset(folders \"${folders}\")")
install(SCRIPT sim/install/printed.cmake)

# The wheel (pyproject.toml): the program, what it reads, and what `./package` puts beside it.
if(SKBUILD)
  install(TARGETS rehearse DESTINATION bin COMPONENT wheel)
  install(DIRECTORY platforms scenarios schema DESTINATION share/rehearse COMPONENT wheel)
  if(REHEARSE_WHEEL_EXTRAS)
    install(DIRECTORY ${REHEARSE_WHEEL_EXTRAS}/ DESTINATION share/rehearse COMPONENT wheel
      PATTERN sboms EXCLUDE)
    # A bill of materials is metadata of the wheel: PEP 770.
    install(DIRECTORY ${REHEARSE_WHEEL_EXTRAS}/sboms DESTINATION ${SKBUILD_METADATA_DIR}
      COMPONENT wheel)
  endif()
endif()
