/* NVIDIA's names as Moore Threads spells them: code of the plugin uses CUDA's names, and a build
 * for MUSA (-DHAUL_MUSA, compiled by mcc) sees these in their place. The counterparts follow public
 * code for the MUSA SDK 4; nothing here has run on such a card yet.
 *
 * Intrinsics whose names carry no vendor (__shfl_xor_sync, __bfloat162float, make_float4) are the
 * same in both. Collectives, once the plugin has them, map likewise: ncclX is mcclX.
 *
 * scripts/check-vendor-names insists that each name in use is defined below or listed here, in the
 * form "- NAMES: reason", where * stands for any ending.
 *
 * Without a counterpart:
 *
 * - cudnn*, CUDNN_*: muDNN is a C++ library without graphs; attention_plain.cu takes over.
 * - cupti*, CUPTI_*, CUpti*, CUcontext, cudaProfilerStart, cudaProfilerStop: MUPTI is built like
 *   CUPTI, but its records have a layout of their own; profile.c must follow.
 * - cublasLtMatmulDescInit, cublasLtMatmulDescOpaque_t: muBLASLt makes descriptors by itself, with
 *   mublasLtMatmulDescCreate; matmul_plan.c, which keeps them by value, must follow.
 * - cublasLtMatrixLayoutInit, cublasLtMatrixLayoutOpaque_t: as before, mublasLtMatrixLayoutCreate.
 * - cublasLtMatmulPreferenceInit, cublasLtMatmulPreferenceOpaque_t: as before.
 * - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_*, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: preferences
 *   of muBLASLt know the workspace alone.
 * - CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: of use in that preference only.
 * - CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: a bias of muBLASLt has the output's dtype.
 * - CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
 *   CUBLASLT_MATMUL_MATRIX_SCALE_*: muBLASLt scales whole tensors alone, not blocks.
 *
 * Files that are for Hopper alone, since they use its instructions (wgmma, cp.async, the async
 * proxy): attention_flash.cu, attention_flash_backward.cu, attention_tile.cuh, attention_wgmma.cuh.
 * norm.cu brings rows by cp.async; activation.cu takes ex2 and rcp in PTX.
 * loss.cu needs clusters of blocks that read each other's shared memory. */
#ifndef HAUL_DEVICE_CUDA_VENDORS_MUSA_H
#define HAUL_DEVICE_CUDA_VENDORS_MUSA_H

#include <mublas.h>
#include <mublasLt.h>
#include <musa_bf16.h>
#include <musa_fp16.h>
#include <musa_fp8.h>
#include <musa_runtime.h>

/* The runtime: devices and errors. */
#define cudaDevAttrComputeCapabilityMajor musaDevAttrComputeCapabilityMajor
#define cudaDevAttrL2CacheSize            musaDevAttrL2CacheSize
#define cudaDevAttrMultiProcessorCount    musaDevAttrMultiProcessorCount
#define cudaDeviceGetAttribute            musaDeviceGetAttribute
#define cudaDeviceGetPCIBusId             musaDeviceGetPCIBusId
#define cudaDeviceProp                    musaDeviceProp
#define cudaDeviceSynchronize             musaDeviceSynchronize
#define cudaDriverGetVersion              musaDriverGetVersion
#define cudaErrorMemoryAllocation         musaErrorMemoryAllocation
#define cudaError_t                       musaError_t
#define cudaGetDevice                     musaGetDevice
#define cudaGetDeviceCount                musaGetDeviceCount
#define cudaGetDeviceProperties           musaGetDeviceProperties
#define cudaGetErrorString                musaGetErrorString
#define cudaGetLastError                  musaGetLastError
#define cudaRuntimeGetVersion             musaRuntimeGetVersion
#define cudaSuccess                       musaSuccess

/* Memory. */
#define cudaFree                 musaFree
#define cudaFreeHost             musaFreeHost
#define cudaMalloc               musaMalloc
#define cudaMallocHost           musaMallocHost
#define cudaMemGetInfo           musaMemGetInfo
#define cudaMemcpy2DAsync        musaMemcpy2DAsync
#define cudaMemcpyAsync          musaMemcpyAsync
#define cudaMemcpyDefault        musaMemcpyDefault
#define cudaMemcpyDeviceToDevice musaMemcpyDeviceToDevice
#define cudaMemcpyDeviceToHost   musaMemcpyDeviceToHost
#define cudaMemcpyHostToDevice   musaMemcpyHostToDevice
#define cudaMemsetAsync          musaMemsetAsync

/* Streams, events, launches. */
#define cudaEventCreate                             musaEventCreate
#define cudaEventCreateWithFlags                    musaEventCreateWithFlags
#define cudaEventDestroy                            musaEventDestroy
#define cudaEventDisableTiming                      musaEventDisableTiming
#define cudaEventElapsedTime                        musaEventElapsedTime
#define cudaEventRecord                             musaEventRecord
#define cudaEventSynchronize                        musaEventSynchronize
#define cudaEvent_t                                 musaEvent_t
#define cudaFuncAttributeMaxDynamicSharedMemorySize musaFuncAttributeMaxDynamicSharedMemorySize
#define cudaFuncSetAttribute                        musaFuncSetAttribute
#define cudaLaunchAttribute                         musaLaunchAttribute
#define cudaLaunchAttributeClusterDimension         musaLaunchAttributeClusterDimension
#define cudaLaunchConfig_t                          musaLaunchConfig_t
#define cudaLaunchKernelEx                          musaLaunchKernelEx
#define cudaStreamCreateWithFlags                   musaStreamCreateWithFlags
#define cudaStreamDestroy                           musaStreamDestroy
#define cudaStreamNonBlocking                       musaStreamNonBlocking
#define cudaStreamSynchronize                       musaStreamSynchronize
#define cudaStream_t                                musaStream_t

/* Numbers: bf16, and FP8 with its conversions. */
#define CUDA_R_16BF                 MUSA_R_16BF
#define CUDA_R_32F                  MUSA_R_32F
#define CUDA_R_8F_E4M3              MUSA_R_8F_E4M3
#define CUDA_R_8F_E5M2              MUSA_R_8F_E5M2
#define __NV_E4M3                   __MT_E4M3
#define __NV_E5M2                   __MT_E5M2
#define __NV_SATFINITE              __MT_SATFINITE
#define __nv_bfloat16               __mt_bfloat16
#define __nv_bfloat162              __mt_bfloat162
#define __nv_cvt_bfloat16raw_to_fp8 __musa_cvt_bfloat16raw_to_fp8
#define __nv_cvt_float2_to_fp8x2    __musa_cvt_float2_to_fp8x2
#define __nv_cvt_float_to_fp8       __musa_cvt_float_to_fp8
#define __nv_cvt_fp8_to_halfraw     __musa_cvt_fp8_to_halfraw
#define __nv_fp8_e4m3               __mt_fp8_e4m3
#define __nv_fp8_e5m2               __mt_fp8_e5m2
#define __nv_fp8_interpretation_t   __mt_fp8_interpretation_t
#define __nv_fp8_storage_t          __mt_fp8_storage_t
#define __nv_fp8x2_storage_t        __mt_fp8x2_storage_t
#define __nv_fp8x4_e4m3             __mt_fp8x4_e4m3
#define __nv_fp8x4_e5m2             __mt_fp8x4_e5m2
#define __nv_fp8x4_storage_t        __mt_fp8x4_storage_t
#define cudaDataType_t              musaDataType_t

/* muBLASLt. */
#define CUBLASLT_EPILOGUE_BIAS                   MUBLASLT_EPILOGUE_BIAS
#define CUBLASLT_MATMUL_DESC_A_SCALE_POINTER     MUBLASLT_MATMUL_DESC_A_SCALE_POINTER
#define CUBLASLT_MATMUL_DESC_BIAS_POINTER        MUBLASLT_MATMUL_DESC_BIAS_POINTER
#define CUBLASLT_MATMUL_DESC_B_SCALE_POINTER     MUBLASLT_MATMUL_DESC_B_SCALE_POINTER
#define CUBLASLT_MATMUL_DESC_EPILOGUE            MUBLASLT_MATMUL_DESC_EPILOGUE
#define CUBLASLT_MATMUL_DESC_FAST_ACCUM          MUBLASLT_MATMUL_DESC_FAST_ACCUM
#define CUBLASLT_MATMUL_DESC_TRANSA              MUBLASLT_MATMUL_DESC_TRANSA
#define CUBLASLT_MATMUL_DESC_TRANSB              MUBLASLT_MATMUL_DESC_TRANSB
#define CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES MUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
#define CUBLAS_COMPUTE_32F                       MUBLAS_COMPUTE_32F
#define CUBLAS_OP_N                              MUBLAS_OP_N
#define CUBLAS_OP_T                              MUBLAS_OP_T
#define CUBLAS_STATUS_ALLOC_FAILED               MUBLAS_STATUS_MEMORY_ERROR
#define CUBLAS_STATUS_EXECUTION_FAILED           MUBLAS_STATUS_INTERNAL_ERROR
#define CUBLAS_STATUS_NOT_SUPPORTED              MUBLAS_STATUS_NOT_IMPLEMENTED
#define CUBLAS_STATUS_SUCCESS                    MUBLAS_STATUS_SUCCESS
#define cublasLtCreate                           mublasLtCreate
#define cublasLtDestroy                          mublasLtDestroy
#define cublasLtGetStatusName                    mublasGetStatusString
#define cublasLtGetVersion                       mublasLtGetVersion
#define cublasLtHandle_t                         mublasLtHandle_t
#define cublasLtMatmul                           mublasLtMatmul
#define cublasLtMatmulAlgoCheck                  mublasLtMatmulAlgoCheck
#define cublasLtMatmulAlgoGetHeuristic           mublasLtMatmulAlgoGetHeuristic
#define cublasLtMatmulAlgo_t                     mublasLtMatmulAlgo_t
#define cublasLtMatmulDescAttributes_t           mublasLtMatmulDescAttributes_t
#define cublasLtMatmulDescSetAttribute           mublasLtMatmulDescSetAttribute
#define cublasLtMatmulHeuristicResult_t          mublasLtMatmulHeuristicResult_t
#define cublasLtMatmulPreferenceAttributes_t     mublasLtMatmulPreferenceAttributes_t
#define cublasLtMatmulPreferenceSetAttribute     mublasLtMatmulPreferenceSetAttribute
#define cublasStatus_t                           mublasStatus_t

#endif
