/* Runs a program. Owns the memory of its objects; parameters live in the store. */
#ifndef HAUL_STEP_EXECUTOR_H
#define HAUL_STEP_EXECUTOR_H

#include "step/program.h"
#include "step/update.h"

/* Fills a value that the batch brings ("tokens", ...) for one micro-batch. */
typedef haul_status haul_fill_function(void *context, int micro_batch, const char *value,
                                       haul_tensor tensor);

/* Steps that may run at a time where the host does not share the device's memory: while one runs,
 * the next is started. */
enum { HAUL_EXECUTOR_DEPTH = 2 };

typedef struct haul_executor {
    const haul_program *program;
    haul_store *store;
    haul_update_options update;
    haul_stream stream;
    char *memory;
    int64_t bytes;      /* of the program, and what VERDICT and COMMIT need beyond its scratch */
    bool shares_memory; /* of another executor, which releases it */
    /* Where the host fills what a batch brings and reads what a step leaves, when it cannot reach
     * `memory`, DEPTH times: for each value the offset of micro-batch 0, or -1; then the norms.
     * NULL when it can. */
    char *host;
    int64_t *host_offsets;
    int64_t host_norms;
    int64_t host_bytes; /* of one step */
    int64_t started, finished;
    /* Optional: sees each pass just before it runs, and NULL behind the last of a step. */
    void (*observe)(void *context, const haul_pass *pass);
    void *observe_context;
} haul_executor;

typedef struct haul_step_request {
    haul_step_info info; /* of micro-batch 0 */
    int64_t samples;     /* of a micro-batch */
    haul_fill_function *fill;
    void *fill_context;
    double learning_rate; /* training */
} haul_step_request;

/* Decides `bytes`; no memory yet. A zeroed `update` will do for a program that does not train. */
haul_status haul_executor_plan(const haul_program *program, haul_store *store,
                               haul_update_options update, haul_executor *out);
haul_status haul_executor_allocate(haul_executor *executor);

/* What it takes of the host's memory; 0 when the device's is the host's. */
int64_t haul_executor_host_bytes(const haul_executor *executor);

/* Uses the memory of `owner` instead, which must have at least as many bytes and a program of the
 * same chunk: constants stand at the same places in both. They run in turn. */
haul_status haul_executor_share(haul_executor *executor, const haul_executor *owner);
void haul_executor_deinit(haul_executor *executor);

/* Makes the packed forms of the store's values: after they were initialised or loaded. */
haul_status haul_executor_pack(haul_executor *executor);

/* How many steps may be started before the first is finished. */
int64_t haul_executor_depth(const haul_executor *executor);

/* Starts a step: all of its passes. */
haul_status haul_executor_start(haul_executor *executor, const haul_step_request *request);

/* Waits for the earliest step that was started; its outputs may be read until the next finish. With
 * a non-finite gradient nothing was committed and HAUL_OK comes back: the caller decides. `verdict`
 * may be NULL without training. */
haul_status haul_executor_finish(haul_executor *executor, haul_verdict *verdict);

/* Runs all passes: start and finish. `verdict` may be NULL without training. */
haul_status haul_executor_run(haul_executor *executor, const haul_step_request *request,
                              haul_verdict *verdict);

/* The same, with the passes in the order order[0 .. pass_count). */
haul_status haul_executor_run_in_order(haul_executor *executor, const haul_step_request *request,
                                       const int64_t *order, haul_verdict *verdict);

/* What micro-batch m left in a value marked as an output, in host memory. */
haul_tensor haul_executor_output(const haul_executor *executor, int value, int micro_batch);

#endif
