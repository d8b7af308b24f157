#include "generate/model.h"

#include "base/memory.h"

#include <stdlib.h>

enum { BLOCK = 128 };

static haul_status plan_part(haul_generator *generator, haul_generator_part *part, int64_t rows) {
    bool reference = generator->config->device == HAUL_DEVICE_REF;
    haul_model_options model = {.numerics = haul_model_numerics(generator->config, reference),
                                .batch = 1,
                                .sequence_length = rows,
                                .inference = true,
                                .cache_capacity = generator->capacity};
    haul_program_options options = {.position_offset = generator->capacity - rows};
    haul_schedule schedule;
    part->rows = rows;
    HAUL_TRY(haul_model_build(generator->config, &model, &part->chunk, &part->values));
    HAUL_TRY(haul_schedule_none(1, &schedule));
    haul_status status =
        haul_program_compile(&part->chunk, generator->store, &schedule, options, &part->program);
    haul_schedule_deinit(&schedule);
    if (status == HAUL_OK) {
        status = haul_executor_plan(&part->program, generator->store, (haul_update_options){0},
                                    &part->executor);
    }
    return status;
}

/* What both programs keep for good (rotary tables, caches) must stand at the same places. */
static bool share_layout(const haul_program *a, const haul_program *b) {
    bool same = a->class_bytes[HAUL_MEMORY_FOREVER] == b->class_bytes[HAUL_MEMORY_FOREVER] &&
                a->class_offset[HAUL_MEMORY_FOREVER] == b->class_offset[HAUL_MEMORY_FOREVER];
    for (int64_t i = 0; i < a->chunk->state_count && same; i++) {
        same = a->objects[a->states[i]].offset == b->objects[b->states[i]].offset;
    }
    for (int64_t i = 0; i < a->chunk->constant_count && same; i++) {
        same = a->objects[a->constants[i]].offset == b->objects[b->constants[i]].offset;
    }
    return same;
}

static haul_status init(haul_generator *generator, int64_t block) {
    haul_executor *owner = &generator->block.executor, *other = &generator->single.executor;
    HAUL_TRY(plan_part(generator, &generator->block, haul_min(block, generator->capacity)));
    HAUL_TRY(plan_part(generator, &generator->single, 1));
    if (!share_layout(&generator->block.program, &generator->single.program)) {
        return haul_fail(HAUL_ERROR_INTERNAL, "the programs of generation do not share a cache");
    }
    owner->bytes = haul_max(owner->bytes, other->bytes);
    generator->logits = haul_calloc(generator->config->vocab_size, sizeof(double));
    if (generator->logits == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    HAUL_TRY(haul_executor_allocate(owner));
    return haul_executor_share(other, owner);
}

haul_status haul_generator_init(haul_generator *generator, const haul_config *config,
                                haul_store *store, haul_generator_options options) {
    int64_t most = config->max_position_embeddings;
    *generator = (haul_generator){
        .config = config,
        .store = store,
        .capacity = options.capacity > 0 ? haul_min(options.capacity, most) : most};
    return init(generator, options.block > 0 ? options.block : BLOCK);
}

static void deinit_part(haul_generator_part *part) {
    haul_executor_deinit(&part->executor);
    haul_program_deinit(&part->program);
    haul_chunk_deinit(&part->chunk);
}

void haul_generator_deinit(haul_generator *generator) {
    deinit_part(&generator->single);
    deinit_part(&generator->block);
    free(generator->logits);
    *generator = (haul_generator){0};
}

typedef struct tokens {
    const int32_t *ids;
    int64_t count;
} tokens;

/* "tokens" is all that a batch of inference brings; padding is token 0. */
static haul_status fill(void *context, int micro_batch, const char *value, haul_tensor tensor) {
    const tokens *from = context;
    int32_t *ids = tensor.data;
    (void)micro_batch;
    (void)value;
    for (int64_t r = 0; r < haul_tensor_count(&tensor); r++) {
        ids[r] = r < from->count ? from->ids[r] : 0;
    }
    return HAUL_OK;
}

/* Reads count <= part->rows tokens to the positions from `first` on. */
static haul_status run(haul_generator_part *part, const int32_t *ids, int64_t count,
                       int64_t first) {
    tokens batch = {.ids = ids, .count = count};
    haul_step_request request = {
        .info = {.position_offset = first}, .samples = 1, .fill = fill, .fill_context = &batch};
    return haul_executor_run(&part->executor, &request, NULL);
}

static haul_status check_token(const haul_generator *generator, int32_t token) {
    if (token >= 0 && token < generator->config->vocab_size) {
        return HAUL_OK;
    }
    haul_fail(HAUL_ERROR_DATA, "token %d is outside the model's vocabulary of %lld", (int)token,
              (long long)generator->config->vocab_size);
    haul_hint("give the tokenizer that the model was trained with by --tokenizer-model");
    return HAUL_ERROR_DATA;
}

haul_status haul_generator_next(haul_generator *generator, int32_t token) {
    haul_generator_part *single = &generator->single;
    HAUL_TRY(check_token(generator, token));
    if (generator->held >= generator->capacity) {
        return haul_fail(HAUL_ERROR_INTERNAL, "the cache of %lld positions is full",
                         (long long)generator->capacity);
    }
    HAUL_TRY(run(single, &token, 1, generator->held));
    generator->held++;
    haul_tensor logits = haul_executor_output(&single->executor, single->values.logits, 0);
    for (int64_t i = 0; i < generator->config->vocab_size; i++) {
        generator->logits[i] = haul_element_get(logits.data, logits.dtype, i);
    }
    return HAUL_OK;
}

/* All tokens but the last go in blocks. The last block of a long prompt is whole, too: it begins
 * earlier and computes some positions again. The last token goes alone, for its logits. */
haul_status haul_generator_start(haul_generator *generator, const int32_t *ids, int64_t count) {
    if (count < 1 || count > generator->capacity) {
        return haul_fail(HAUL_ERROR_INTERNAL, "%lld tokens to start from, must be 1 to %lld",
                         (long long)count, (long long)generator->capacity);
    }
    for (int64_t i = 0; i < count; i++) {
        HAUL_TRY(check_token(generator, ids[i]));
    }
    int64_t rows = generator->block.rows, before = count - 1;
    for (int64_t done = 0; done < before; done += rows) {
        int64_t first = haul_max(haul_min(done, before - rows), 0);
        HAUL_TRY(run(&generator->block, ids + first, haul_min(rows, before), first));
    }
    generator->held = before;
    return haul_generator_next(generator, ids[before]);
}
