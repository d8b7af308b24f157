# Every target is compiled with these; with HAUL_WERROR a warning is an error.
add_library(haul_flags INTERFACE)
target_compile_definitions(haul_flags INTERFACE _GNU_SOURCE)
target_compile_options(haul_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wvla -Wundef -Wcast-qual -Wmissing-prototypes
  -Wstrict-prototypes -Wdouble-promotion -Wformat=2 -fno-common -ffp-contract=off)
if(HAUL_WERROR)
  target_compile_options(haul_flags INTERFACE -Werror)
endif()
if(HAUL_FUZZ)
  target_compile_options(haul_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(HAUL_SANITIZE OR HAUL_FUZZ)
  target_compile_options(haul_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(haul_flags INTERFACE -fsanitize=address,undefined)
endif()
