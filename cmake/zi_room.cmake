# zi_room.cmake -- one library per folder under src/, and what is made of them.

set(ZI_ROOMS "" CACHE INTERNAL "rooms so far")

# zi_room(NAME [PURE] [DEPS rooms and targets...] [EXCEPT regex])
#
# The static library zi_NAME from src/NAME/**/*.c; INTERFACE while the room has headers
# only.  A PURE room is compiled without _GNU_SOURCE and with -Wconversion.  Files that
# match EXCEPT are left to the product that the room serves (zi_NAME_EXCEPTED).
function(zi_room name)
    cmake_parse_arguments(R "PURE" "EXCEPT" "DEPS" ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.c)
    set(excepted "")
    if(R_EXCEPT)
        set(excepted ${sources})
        list(FILTER excepted INCLUDE REGEX "${R_EXCEPT}")
        list(FILTER sources EXCLUDE REGEX "${R_EXCEPT}")
    endif()
    set(ZI_${name}_EXCEPTED "${excepted}" CACHE INTERNAL "")

    set(deps "")
    foreach(d IN LISTS R_DEPS)
        if(d IN_LIST ZI_ROOMS)
            set(d zi_${d})
        endif()
        list(APPEND deps ${d})
    endforeach()

    set(kind PUBLIC)
    if(sources)
        add_library(zi_${name} STATIC ${sources})
        if(R_PURE)
            target_compile_options(zi_${name} PRIVATE -Wconversion -Wno-sign-conversion)
        else()
            target_compile_definitions(zi_${name} PRIVATE _GNU_SOURCE=)
        endif()
    else()
        add_library(zi_${name} INTERFACE)
        set(kind INTERFACE)
    endif()
    target_include_directories(zi_${name} ${kind} ${CMAKE_SOURCE_DIR}/src
                                                  ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(zi_${name} ${kind} ${deps})
    set(ZI_ROOMS ${ZI_ROOMS} ${name} CACHE INTERNAL "rooms so far")
endfunction()

# zi_rooms(FILE): a zi_room for each row of the table of rooms in FILE.
#
# The table's arrows are both what a room may include (tools/check_rooms) and what it links.
function(zi_rooms file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
    file(STRINGS ${CMAKE_SOURCE_DIR}/${file} lines)
    set(inside OFF)
    foreach(line IN LISTS lines)
        if(line MATCHES "<!-- rooms:begin -->")
            set(inside ON)
        elseif(line MATCHES "<!-- rooms:end -->")
            set(inside OFF)
        elseif(inside AND line MATCHES
               "^\\| ([a-z]+) \\| [0-9]+ \\| (pure)? ?\\|[^|]*\\|([a-z ]*)\\|$")
            set(name ${CMAKE_MATCH_1})
            set(pure "")
            if(CMAKE_MATCH_2)
                set(pure PURE)
            endif()
            separate_arguments(below UNIX_COMMAND "${CMAKE_MATCH_3}")
            zi_room(${name} ${pure} DEPS ${below} ${ZI_OUTSIDE_${name}}
                    EXCEPT "${ZI_EXCEPT_${name}}")
        endif()
    endforeach()
    if(NOT ZI_ROOMS)
        message(FATAL_ERROR "${file} has no table of rooms")
    endif()
endfunction()

# The objects of every filled room in `rooms`, and what those rooms need from outside.
function(zi_room_objects ret_objects ret_outside)
    set(objects "")
    set(outside "")
    foreach(room IN LISTS ARGN)
        get_target_property(type zi_${room} TYPE)
        if(type STREQUAL "STATIC_LIBRARY")
            list(APPEND objects $<TARGET_OBJECTS:zi_${room}>)
            get_target_property(deps zi_${room} LINK_LIBRARIES)
            if(NOT deps)
                set(deps "")
            endif()
            foreach(d IN LISTS deps)
                string(REGEX REPLACE "^zi_" "" bare "${d}")
                if(d STREQUAL "zi_onnx_pb")
                    list(APPEND objects $<TARGET_OBJECTS:zi_onnx_gen>)
                    list(APPEND outside zi_protobuf_c)
                elseif(NOT bare IN_LIST ZI_ROOMS)
                    list(APPEND outside ${d})
                endif()
            endforeach()
        endif()
    endforeach()
    list(REMOVE_DUPLICATES objects)
    list(REMOVE_DUPLICATES outside)
    set(${ret_objects} "${objects}" PARENT_SCOPE)
    set(${ret_outside} "${outside}" PARENT_SCOPE)
endfunction()

# libzico.so (only zico_* leave it) and libzico.a.
function(zi_libzico)
    cmake_parse_arguments(L "" "" "ROOMS" ${ARGN})
    zi_room_objects(objects outside ${L_ROOMS})
    if(NOT objects)
        return()
    endif()
    set(map ${CMAKE_SOURCE_DIR}/tools/libzico.map)
    add_library(zico_shared SHARED ${objects})
    set_target_properties(zico_shared PROPERTIES OUTPUT_NAME zico LINKER_LANGUAGE C
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${map})
    target_link_options(zico_shared PRIVATE -Wl,--version-script=${map})
    if(NOT ZI_SANITIZED)
        target_link_options(zico_shared PRIVATE -Wl,-z,defs)
    endif()
    target_include_directories(zico_shared PUBLIC
        $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
    target_link_libraries(zico_shared PRIVATE ${outside})

    add_library(zico_static STATIC ${objects})
    set_target_properties(zico_static PROPERTIES OUTPUT_NAME zico LINKER_LANGUAGE C)
    target_include_directories(zico_static PUBLIC
        $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
    target_link_libraries(zico_static PUBLIC ${outside})
endfunction()

# The command: a room plus its main.c, once that is there.
function(zi_command name)
    cmake_parse_arguments(C "" "ROOM;MAIN" "" ${ARGN})
    if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${C_MAIN})
        return()
    endif()
    add_executable(zico ${CMAKE_SOURCE_DIR}/${C_MAIN})
    target_compile_definitions(zico PRIVATE _GNU_SOURCE=)
    target_link_libraries(zico PRIVATE zi_${C_ROOM})
    set_target_properties(zico PROPERTIES OUTPUT_NAME ${name})
endfunction()

# The preload library.  The room's export*.c define the functions that take the place of
# others' (malloc and friends) and so go into no other program.  The room may bring
# src/hook/hook.cmake, included here with the target zico_hook made: it generates the
# export script from hooks.def and adds it to the link.
function(zi_hook_library name)
    cmake_parse_arguments(H "" "ROOM" "" ${ARGN})
    if(NOT ZI_${H_ROOM}_EXCEPTED OR ZI_SANITIZED)
        return()
    endif()
    add_library(zico_hook SHARED ${ZI_${H_ROOM}_EXCEPTED})
    set_target_properties(zico_hook PROPERTIES OUTPUT_NAME ${name})
    target_compile_definitions(zico_hook PRIVATE _GNU_SOURCE=)
    target_link_libraries(zico_hook PRIVATE zi_${H_ROOM} ${CMAKE_DL_LIBS})
    target_link_options(zico_hook PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)
    include(${CMAKE_SOURCE_DIR}/src/${H_ROOM}/hook.cmake OPTIONAL)
endfunction()
