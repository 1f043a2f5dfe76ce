# zi_deps.cmake -- the outside world.  Each dependency is one target that one room names.
#
#   Threads, libm     everywhere
#   zi_onnx_pb        protobuf-c and the generated onnx.pb-c.h        graph/import
#   zi_dnnl, OpenMP   oneDNN's C API                                  exec
#   zi_cyaml          job files                                       cli
#   zi_cmocka         tests
find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
set(ZI_LIBM m)

function(zi_missing what)
    message(FATAL_ERROR "${what} not found. `tools/setup.sh` installs what the build needs "
                        "(`tools/setup.sh --list` only says which packages).")
endfunction()

function(zi_pkg target module)
    pkg_check_modules(${target} QUIET IMPORTED_TARGET ${module})
    if(NOT ${target}_FOUND)
        zi_missing("${module} (pkg-config)")
    endif()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE PkgConfig::${target})
endfunction()

zi_pkg(zi_cyaml libcyaml)
zi_pkg(zi_protobuf_c libprotobuf-c)
zi_pkg(zi_cmocka cmocka)

find_path(ZI_DNNL_INCLUDE dnnl.h)
find_library(ZI_DNNL_LIB dnnl)
if(NOT ZI_DNNL_INCLUDE OR NOT ZI_DNNL_LIB)
    zi_missing("oneDNN (libdnnl-dev)")
endif()
add_library(zi_dnnl INTERFACE)
target_link_libraries(zi_dnnl INTERFACE ${ZI_DNNL_LIB})

find_package(OpenMP COMPONENTS C)
if(NOT OpenMP_C_FOUND)
    zi_missing("OpenMP for ${CMAKE_C_COMPILER} (gcc has it; clang needs libomp-dev)")
endif()

# onnx.proto comes with the distribution's ONNX; the C code is generated into the build.
find_file(ZI_ONNX_PROTO onnx.proto
          PATHS /usr/include/onnx /usr/lib/python3/dist-packages/onnx NO_DEFAULT_PATH)
find_program(ZI_PROTOC_C protoc-c)
if(NOT ZI_ONNX_PROTO)
    zi_missing("onnx.proto (libonnx-dev)")
endif()
if(NOT ZI_PROTOC_C)
    zi_missing("protoc-c (protobuf-c-compiler)")
endif()
set(ZI_GEN_DIR ${CMAKE_BINARY_DIR}/gen)
file(MAKE_DIRECTORY ${ZI_GEN_DIR})
get_filename_component(ZI_ONNX_DIR ${ZI_ONNX_PROTO} DIRECTORY)
add_custom_command(
    OUTPUT ${ZI_GEN_DIR}/onnx.pb-c.c ${ZI_GEN_DIR}/onnx.pb-c.h
    COMMAND ${ZI_PROTOC_C} --c_out=${ZI_GEN_DIR} -I${ZI_ONNX_DIR} ${ZI_ONNX_PROTO}
    DEPENDS ${ZI_ONNX_PROTO}
    COMMENT "Generating onnx.pb-c.c" VERBATIM)
add_library(zi_onnx_gen STATIC ${ZI_GEN_DIR}/onnx.pb-c.c)
target_compile_options(zi_onnx_gen PRIVATE -w)
target_include_directories(zi_onnx_gen SYSTEM PUBLIC ${ZI_GEN_DIR})
target_link_libraries(zi_onnx_gen PUBLIC zi_protobuf_c)
add_library(zi_onnx_pb INTERFACE)
target_link_libraries(zi_onnx_pb INTERFACE zi_onnx_gen)
add_dependencies(zi_onnx_pb zi_onnx_gen)
