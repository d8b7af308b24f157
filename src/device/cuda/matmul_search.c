/* Which algorithm is fastest, by measurement. What is fastest on a cool card is often not so in a
 * step, where the power limit sets the clock: it favours who needs less energy. So the candidates
 * run one after another for as long as the limit needs to settle, and the library's first choice
 * loses only to one that beats it clearly, twice. */
#include "base/arena.h"
#include "base/memory.h"
#include "base/philox.h"
#include "device/cuda/matmul_plan.h"

#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 8, FINALISTS = 4, MOST_REPEATS = 10000 };

/* Milliseconds of one algorithm in the heat, and in the final before and while it is timed; small
 * products do not load the card enough to need so long. */
static const double heat = 2.0, settling = 60.0, sample = 120.0;
static const double small = 0.1, small_share = 0.1;
static const double worthwhile = 0.98; /* of the time of the library's first choice */

typedef struct contender {
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
    double milliseconds; /* of one product, as last timed */
} contender;

typedef struct trial {
    haul_cuda_products *products;
    haul_cuda_plan plan; /* a copy, to try algorithms on */
    haul_cuda_operands operands;
    cudaEvent_t begin, end;
    void *memory; /* of the operands */
    int count;
    contender candidates[1 + CANDIDATES]; /* in front the plan's own algorithm */
} trial;

static haul_status check(cudaError_t error) {
    return error == cudaSuccess
               ? HAUL_OK
               : haul_fail(HAUL_ERROR_INTERNAL, "choosing a matmul: %s", cudaGetErrorString(error));
}

/* --- operands ------------------------------------------------------------------------------- */

/* A part of the search's memory. */
typedef struct region {
    int64_t count;
    int32_t dtype;
    int64_t offset;
} region;

/* Normal numbers, a period of them over and over: power, so speed, depends on the data. */
static haul_status fill_normal(void *device, const region *part, uint64_t series,
                               cudaStream_t stream) {
    enum { PERIOD = 65521 }; /* a prime, so rows do not repeat */
    haul_dtype dtype = (haul_dtype)part->dtype;
    int64_t size = haul_dtype_size(dtype), filled = haul_min(part->count, PERIOD);
    void *host = haul_calloc(filled, (size_t)size);
    if (host == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < filled; i++) {
        haul_element_set(host, dtype, i, haul_normal(0, series, i));
    }
    cudaError_t error =
        cudaMemcpyAsync(device, host, (size_t)(filled * size), cudaMemcpyHostToDevice, stream);
    while (error == cudaSuccess && filled < part->count) {
        int64_t more = haul_min(filled, part->count - filled);
        error = cudaMemcpyAsync((char *)device + filled * size, device, (size_t)(more * size),
                                cudaMemcpyDeviceToDevice, stream);
        filled += more;
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(stream); /* before host goes */
    }
    free(host);
    return check(error);
}

/* HAUL_ERROR_MEMORY when the card has too little left. */
static haul_status allocate_operands(trial *search) {
    enum { A, B, C, BIAS, A_SCALES, B_SCALES, WORKSPACE, REGIONS };
    const haul_cuda_product *product = &search->plan.product;
    bool biased = product->bias >= 0;
    haul_tensor a_scales =
        haul_scales_shape((haul_scaling)product->a_scaling, product->m, product->k);
    haul_tensor b_scales =
        haul_scales_shape((haul_scaling)product->b_scaling, product->n, product->k);
    region regions[REGIONS] = {
        [A] = {product->m * product->k, product->a, 0},
        [B] = {product->k * product->n, product->b, 0},
        [C] = {product->m * product->n, product->c, 0},
        [BIAS] = {biased ? product->n : 0, biased ? product->bias : HAUL_F32, 0},
        [A_SCALES] = {haul_tensor_count(&a_scales), HAUL_F32, 0},
        [B_SCALES] = {haul_tensor_count(&b_scales), HAUL_F32, 0},
        [WORKSPACE] = {HAUL_CUDA_PRODUCT_WORKSPACE, HAUL_U8, 0},
    };
    int64_t bytes = 0;
    for (int i = 0; i < REGIONS; i++) {
        int64_t size = regions[i].count * haul_dtype_size((haul_dtype)regions[i].dtype);
        HAUL_TRY(haul_arena_place(&bytes, size, 256, &regions[i].offset));
    }
    cudaError_t error = cudaMalloc(&search->memory, (size_t)bytes);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* not sticky: forget it */
        search->memory = NULL;
        return HAUL_ERROR_MEMORY;
    }
    HAUL_TRY(check(error));
    char *base = search->memory;
    for (int i = 0; i < WORKSPACE; i++) {
        HAUL_TRY(fill_normal(base + regions[i].offset, &regions[i], (uint64_t)i,
                             search->products->stream));
    }
    search->operands = (haul_cuda_operands){
        .a = base + regions[A].offset,
        .b = base + regions[B].offset,
        .bias = base + regions[BIAS].offset,
        .a_scales = base + regions[A_SCALES].offset,
        .b_scales = base + regions[B_SCALES].offset,
        .c = base + regions[C].offset,
        .workspace = base + regions[WORKSPACE].offset,
    };
    return HAUL_OK;
}

/* --- measuring ------------------------------------------------------------------------------ */

static haul_status run_candidate(trial *search, const contender *candidate, int repeats) {
    haul_cuda_plan *plan = &search->plan;
    plan->algorithm = candidate->algorithm;
    plan->workspace = candidate->workspace;
    for (int i = 0; i < repeats; i++) {
        cublasStatus_t status = haul_cuda_plan_run(search->products->handle, plan,
                                                   &search->operands, search->products->stream);
        if (status != CUBLAS_STATUS_SUCCESS) {
            return haul_cuda_plan_fail(&plan->product, status);
        }
    }
    return HAUL_OK;
}

static haul_status time_candidate(trial *search, contender *candidate, int repeats) {
    float milliseconds = 0.0f;
    HAUL_TRY(check(cudaEventRecord(search->begin, search->products->stream)));
    HAUL_TRY(run_candidate(search, candidate, repeats));
    HAUL_TRY(check(cudaEventRecord(search->end, search->products->stream)));
    HAUL_TRY(check(cudaEventSynchronize(search->end)));
    HAUL_TRY(check(cudaEventElapsedTime(&milliseconds, search->begin, search->end)));
    candidate->milliseconds = (double)milliseconds / repeats;
    return HAUL_OK;
}

/* How many products of `each` milliseconds take `wanted` of them. */
static int repeats_for(double wanted, double each) {
    double repeats = wanted / (each > 1e-3 ? each : 1e-3);
    return repeats > MOST_REPEATS ? MOST_REPEATS : 1 + (int)repeats;
}

static int compare_times(const void *a, const void *b) {
    double x = ((const contender *)a)->milliseconds, y = ((const contender *)b)->milliseconds;
    return (x > y) - (x < y);
}

static haul_status run_heat(trial *search) {
    for (int i = 0; i < search->count; i++) {
        contender *candidate = &search->candidates[i];
        HAUL_TRY(run_candidate(search, candidate, 1)); /* loads its kernel */
        HAUL_TRY(time_candidate(search, candidate, 1));
        HAUL_TRY(time_candidate(search, candidate, repeats_for(heat, candidate->milliseconds)));
    }
    qsort(search->candidates + 1, (size_t)(search->count - 1), sizeof(contender), compare_times);
    search->count = (int)haul_min(search->count, FINALISTS);
    return HAUL_OK;
}

static haul_status time_settled(trial *search, contender *candidate) {
    double each = candidate->milliseconds, share = each < small ? small_share : 1.0;
    HAUL_TRY(run_candidate(search, candidate, repeats_for(share * settling, each)));
    return time_candidate(search, candidate, repeats_for(share * sample, each));
}

/* *winner: the first candidate, unless another beats it clearly among all and again alone. */
static haul_status run_final(trial *search, const contender **winner) {
    contender *first = &search->candidates[0], *best = first;
    for (int i = 0; i < search->count; i++) {
        contender *candidate = &search->candidates[i];
        HAUL_TRY(time_settled(search, candidate));
        best = candidate->milliseconds < best->milliseconds ? candidate : best;
    }
    *winner = first;
    if (best->milliseconds < worthwhile * first->milliseconds) {
        HAUL_TRY(time_settled(search, first));
        HAUL_TRY(time_settled(search, best));
        *winner = best->milliseconds < worthwhile * first->milliseconds ? best : first;
    }
    return HAUL_OK;
}

/* --- candidates ----------------------------------------------------------------------------- */

static void add_candidate(trial *search, const cublasLtMatmulAlgo_t *algorithm, size_t workspace) {
    search->candidates[search->count++] =
        (contender){.algorithm = *algorithm, .workspace = workspace};
}

/* The plan's own algorithm, and others that the library proposes. */
static haul_status gather_candidates(trial *search) {
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    haul_cuda_plan *plan = &search->plan;
    const cublasLtMatmulAlgo_t own = plan->algorithm;
    int count = 0;
    add_candidate(search, &own, plan->workspace);
    cublasStatus_t status =
        haul_cuda_plan_candidates(search->products->handle, plan, CANDIDATES, found, &count);
    for (int i = 0; i < count; i++) {
        if (memcmp(&found[i].algo, &own, sizeof own) != 0) {
            add_candidate(search, &found[i].algo, found[i].workspaceSize);
        }
    }
    return status == CUBLAS_STATUS_SUCCESS ? HAUL_OK : haul_cuda_plan_fail(&plan->product, status);
}

static haul_status run_search(trial *search, const contender **winner) {
    HAUL_TRY(check(cudaEventCreate(&search->begin)));
    HAUL_TRY(check(cudaEventCreate(&search->end)));
    HAUL_TRY(allocate_operands(search));
    HAUL_TRY(gather_candidates(search));
    HAUL_TRY(run_heat(search));
    return run_final(search, winner);
}

static void search_deinit(trial *search) {
    cudaStreamSynchronize(search->products->stream);
    cudaFree(search->memory);
    if (search->begin != NULL) {
        cudaEventDestroy(search->begin);
    }
    if (search->end != NULL) {
        cudaEventDestroy(search->end);
    }
}

/* Gives the plan its fastest algorithm and remembers it for the file. */
static haul_status adopt(trial *search, const contender *winner, haul_cuda_plan *plan) {
    haul_cuda_choice choice = {.algorithm = winner->algorithm,
                               .microseconds = winner->milliseconds * 1e3};
    haul_cuda_product_text(&plan->product, choice.product);
    plan->algorithm = winner->algorithm;
    plan->workspace = winner->workspace;
    plan->microseconds = choice.microseconds;
    return haul_cuda_choices_add(&search->products->choices, &choice);
}

haul_status haul_cuda_products_prepare(haul_cuda_products *products, const haul_matmul_args *args,
                                       bool *measured) {
    haul_cuda_product product;
    haul_cuda_plan *plan;
    const contender *winner = NULL;
    *measured = false;
    if (!haul_cuda_product_of(args, &product) || product.m == 0 || product.n == 0) {
        return HAUL_OK; /* what is wrong, the launch says */
    }
    HAUL_TRY(haul_cuda_products_find(products, &product, &plan));
    if (plan->plain || plan->microseconds > 0.0) {
        return HAUL_OK;
    }
    trial search = {.products = products, .plan = *plan};
    haul_status status = run_search(&search, &winner);
    search_deinit(&search);
    if (status == HAUL_ERROR_MEMORY) {
        return HAUL_OK;
    }
    *measured = status == HAUL_OK;
    return status == HAUL_OK ? adopt(&search, winner, plan) : status;
}
