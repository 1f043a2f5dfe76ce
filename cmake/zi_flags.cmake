# zi_flags.cmake -- language, warnings, sanitizers, check level.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

set(ZI_CHECK_LEVEL 1 CACHE STRING "1: zi_assert, 2: and zi_assert_slow, 3: and _paranoid")
set(ZI_SANITIZE "" CACHE STRING "empty, address (with undefined), thread, or fuzzer")
set(ZI_TIMEOUT_FACTOR 1 CACHE STRING "multiplies every test's timeout")

add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
                    -Werror -fno-omit-frame-pointer -fno-common)
# Signed overflow and aliasing slips in one room must not become wild code in another.
add_compile_options(-fno-strict-aliasing)
add_compile_definitions(ZI_CHECK_LEVEL=${ZI_CHECK_LEVEL} ZI_VERSION="${PROJECT_VERSION}")
add_link_options(-Wl,--as-needed)

set(ZI_SANITIZED OFF)
if(ZI_SANITIZE STREQUAL "address")
    set(ZI_SANITIZED ON)
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined)
    add_link_options(-fsanitize=address,undefined)
    add_compile_definitions(ZI_ASAN=1)
elseif(ZI_SANITIZE STREQUAL "thread")
    set(ZI_SANITIZED ON)
    add_compile_options(-fsanitize=thread)
    add_link_options(-fsanitize=thread)
    add_compile_definitions(ZI_TSAN=1)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # atomic_thread_fence is unknown to TSan; the code may use it, TSan then sees less
        add_compile_options(-Wno-tsan)
    endif()
elseif(ZI_SANITIZE STREQUAL "fuzzer")
    set(ZI_SANITIZED ON)
    add_compile_options(-Wno-unknown-pragmas -Wno-pass-failed) # GCC's, in the kernels
    add_compile_options(-fsanitize=fuzzer-no-link,address,undefined
                        -fno-sanitize-recover=undefined)
    add_link_options(-fsanitize=address,undefined)
    add_compile_definitions(ZI_ASAN=1)
elseif(NOT ZI_SANITIZE STREQUAL "")
    message(FATAL_ERROR "ZI_SANITIZE=${ZI_SANITIZE}: want address, thread or fuzzer")
endif()
