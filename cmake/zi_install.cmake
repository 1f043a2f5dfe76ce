# zi_install.cmake -- headers, libraries, pkg-config file, command, preload library, python.
install(DIRECTORY include/zico DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
if(TARGET zico_shared)
    install(TARGETS zico_shared zico_static
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    file(RELATIVE_PATH ZI_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    configure_file(${CMAKE_SOURCE_DIR}/tools/zico.pc.in ${CMAKE_BINARY_DIR}/zico.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/zico.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
if(TARGET zico)
    install(TARGETS zico RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET zico_hook)
    install(TARGETS zico_hook LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/python/zico)
    install(DIRECTORY python/zico DESTINATION ${CMAKE_INSTALL_LIBDIR}/zico/python
            FILES_MATCHING PATTERN "*.py")
endif()
