# libhaul_cuda.so: the cuda backend as a plugin (src/device/plugin.h), for Hopper. It carries a copy
# of base/, hidden, and needs cuBLASLt and the driver where it runs; nothing else does.
set(CMAKE_CUDA_ARCHITECTURES 90a)
set(CMAKE_CUDA_STANDARD 17)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
find_path(HAUL_CUPTI_INCLUDE cupti.h REQUIRED
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_BIN_DIR}/../extras/CUPTI/include)

file(GLOB cuda_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/device/cuda/*.c ${CMAKE_SOURCE_DIR}/src/device/cuda/*.cu)
add_library(haul_cuda SHARED ${cuda_sources} ${CMAKE_SOURCE_DIR}/src/device/stream.c
  ${CMAKE_SOURCE_DIR}/src/device/cost.c)
target_include_directories(haul_cuda PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(haul_cuda PRIVATE HAUL_BUILD_ID="${HAUL_BUILD_ID}")
# Not compressed, so that scripts/check-spills can read it.
target_compile_options(haul_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-O3;--compress-mode=none>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fno-exceptions,-fno-threadsafe-statics,-Wall,-Wextra>)
# The flags of C code do not fit nvcc; headers of the toolkit are not ours to warn about.
get_target_property(flags haul_flags INTERFACE_COMPILE_OPTIONS)
foreach(flag ${flags})
  target_compile_options(haul_cuda PRIVATE $<$<COMPILE_LANGUAGE:C>:${flag}>)
endforeach()
target_compile_definitions(haul_cuda PRIVATE _GNU_SOURCE)
target_include_directories(haul_cuda SYSTEM PRIVATE
  ${CUDAToolkit_INCLUDE_DIRS} ${HAUL_CUPTI_INCLUDE})
target_link_libraries(haul_cuda PRIVATE haul_base CUDA::cudart_static CUDA::cublasLt)
target_link_options(haul_cuda PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)
set_target_properties(haul_cuda PROPERTIES
  C_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden LINKER_LANGUAGE C
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
install(TARGETS haul_cuda LIBRARY DESTINATION lib/haul)
