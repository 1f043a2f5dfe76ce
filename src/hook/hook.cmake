# hook.cmake -- the preload library's export script, from hooks.def, and its link flags.
# Included by zi_hook_library with the target zico_hook made.
set(zi_hooks_def ${CMAKE_SOURCE_DIR}/src/hook/hooks.def)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${zi_hooks_def})
file(STRINGS ${zi_hooks_def} zi_hook_lines REGEX "^HOOK\\(")
set(zi_hook_names "")
foreach(line IN LISTS zi_hook_lines)
    string(REGEX REPLACE "^HOOK\\([^,]*, *([a-z_]+),.*" "\\1" name "${line}")
    string(APPEND zi_hook_names "        ${name};\n")
endforeach()
set(zi_hook_map ${CMAKE_BINARY_DIR}/gen/zico-hook.map)
file(CONFIGURE OUTPUT ${zi_hook_map} CONTENT
"/* generated from src/hook/hooks.def */
{
    global:
@zi_hook_names@        zico_step;
        zico_hook_*;
    local:
        *;
};
" @ONLY)
set_target_properties(zico_hook PROPERTIES LINK_DEPENDS ${zi_hook_map})
target_compile_options(zico_hook PRIVATE -fno-builtin)
target_link_options(zico_hook PRIVATE -Wl,--version-script=${zi_hook_map}
    -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=free
    -Wl,-z,now -Wl,-z,nodelete)
