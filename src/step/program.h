/* The step as a program: a flat, immutable list of passes, and the places in memory of all that
 * they touch. Made from a chunk (layers/chunk.h) and a schedule (schedule/schedule.h) before step
 * 0.
 *
 * Memory classes: FOREVER (constants, caches), STEP (what is read after the step, once a
 * micro-batch), SLOT (activations and their gradients, once for each micro-batch in flight),
 * SCRATCH (dies with the pass). An object is one named place. Slot objects are packed by their life
 * times, which are positions in the sequence of one micro-batch: forwards, then rebuilds, backwards
 * and weights. */
#ifndef HAUL_STEP_PROGRAM_H
#define HAUL_STEP_PROGRAM_H

#include "base/arena.h"
#include "layers/chunk.h"
#include "schedule/schedule.h"
#include "step/store.h"

typedef enum haul_pass_kind {
    HAUL_PASS_FORWARD,
    HAUL_PASS_REBUILD,
    HAUL_PASS_BACKWARD,
    HAUL_PASS_WEIGHT,
    HAUL_PASS_VERDICT,
    HAUL_PASS_COMMIT
} haul_pass_kind;

typedef struct haul_pass {
    haul_pass_kind kind;
    int32_t node; /* -1 for VERDICT and COMMIT */
    int32_t micro_batch;
    int32_t slot;
    uint32_t accumulate; /* bit i: adds to the gradient of the node's buffer i */
} haul_pass;

typedef enum haul_memory_class {
    HAUL_MEMORY_FOREVER,
    HAUL_MEMORY_STEP,
    HAUL_MEMORY_SLOT,
    HAUL_MEMORY_SCRATCH,
    HAUL_MEMORY_CLASSES
} haul_memory_class;

typedef struct haul_object {
    char name[HAUL_NAME_BYTES];
    haul_memory_class memory;
    int64_t bytes;
    int64_t offset; /* in its class; for STEP and SLOT, of micro-batch or slot 0 */
    int begin, end; /* first and last position, of SLOT objects */
} haul_object;

/* Objects of a node; -1 where there is none. "Backward" ones are what B and W see: the same object
 * as in F, or another where a rebuild makes it again. */
typedef struct haul_node_objects {
    int saved[HAUL_NODE_SAVED];
    int saved_backward[HAUL_NODE_SAVED];
    int scratch[HAUL_NODE_SCRATCH];
    int add[HAUL_NODE_INPUTS]; /* a gradient that is added to one that another consumer wrote */
    bool rebuilt;
    int64_t scratch_bytes;   /* in SCRATCH; behind them begins */
    int64_t workspace_bytes; /* the largest workspace of its ops */
} haul_node_objects;

typedef struct haul_value_objects {
    int forward;
    int backward;
    int gradient;
} haul_value_objects;

typedef struct haul_program_options {
    bool training;        /* false: forwards alone */
    bool recompute;       /* keep only what enters a group and its sums, rebuild the rest in B */
    bool recompute_norms; /* or rebuild norms alone, */
    bool recompute_activations; /* or these; both cost little, and no product */
    int64_t position_offset; /* the largest that a cached attention will see, for its workspace */
} haul_program_options;

typedef struct haul_program {
    const haul_chunk *chunk;
    const haul_store *store;
    haul_program_options options;
    int micro_batches;
    int slots;
    haul_pass *passes;
    int64_t pass_count, pass_capacity;
    haul_object *objects;
    int64_t object_count, object_capacity;
    haul_value_objects *values;
    haul_node_objects *nodes;
    int *constants; /* object of each constant and state of the chunk */
    int *states;
    int64_t class_bytes[HAUL_MEMORY_CLASSES]; /* of one micro-batch for STEP, one slot for SLOT */
    int64_t class_offset[HAUL_MEMORY_CLASSES];
    int64_t bytes;                              /* of all */
    haul_recording forward_cost, backward_cost; /* of one micro-batch; a rebuild is not counted */
} haul_program;

/* Compiles rank 0 of `schedule`. The store, planned for a chunk with the same buffers, gives the
 * forms of the parameters; its device answers workspace queries and runs nothing. Chunk and store
 * must outlive the program. */
haul_status haul_program_compile(const haul_chunk *chunk, const haul_store *store,
                                 const haul_schedule *schedule, haul_program_options options,
                                 haul_program *out);
void haul_program_deinit(haul_program *program);

/* Calls `visit` for each object that a pass of this kind reads or writes, in the order in which
 * that happens. Gradients of parameters come as object_count + buffer. The one source of truth for
 * life times, checker and executor's rules. */
typedef void haul_access_function(void *context, int object, bool write);
void haul_program_accesses(const haul_program *program, haul_pass_kind kind, int node,
                           haul_access_function *visit, void *context);

/* The byte range of an object in the program's memory for a pass. */
int64_t haul_program_address(const haul_program *program, int object, const haul_pass *pass);

/* Proves the program: every pass once for each micro-batch; every read finds what the same
 * micro-batch wrote, so nothing that is still needed shares memory; gradients of a parameter are
 * first written, then added to, each node's in ascending order of micro-batches; VERDICT and COMMIT
 * come last. HAUL_ERROR_INTERNAL names the pass and what is wrong with it. */
haul_status haul_program_check(const haul_program *program);

/* Shows each launch of the first two micro-batches, the first of which writes gradients where the
 * second adds to them, without running any: tensors lack data. */
haul_status haul_program_observe(const haul_program *program,
                                 void (*observe)(void *context, haul_op op, const void *args),
                                 void *context);

/* True when the two passes may not change places: they touch common memory and one writes. */
bool haul_program_conflict(const haul_program *program, const haul_pass *a, const haul_pass *b);

/* Adds the program's lines to a table: constants, outputs, what lives at the moment when a slot
 * holds most, gaps of the packing, scratch. Their sum is program->bytes. */
haul_status haul_program_memory(const haul_program *program, haul_memory_table *table);

/* "F", "REBUILD", ... */
const char *haul_pass_kind_name(haul_pass_kind kind);

/* One line a pass, for people. */
haul_status haul_program_print(const haul_program *program, haul_string *out);

#endif
