/* Model weights in Hugging Face directories: model.safetensors, or shards that
 * model.safetensors.index.json lists. The names of tensors are the caller's business. */
#ifndef HAUL_CHECKPOINT_HUGGINGFACE_H
#define HAUL_CHECKPOINT_HUGGINGFACE_H

#include "checkpoint/safetensors.h"

typedef struct haul_huggingface haul_huggingface;

/* Opens and validates all weight files. HAUL_ERROR_NO_INPUT when there are none,
 * HAUL_ERROR_DATA when one is malformed or the index points outside the directory. */
haul_status haul_huggingface_open(const char *directory, haul_huggingface **out);
void haul_huggingface_close(haul_huggingface *model);

/* The tensors in the order of their names; find returns NULL for an unknown name. */
int64_t haul_huggingface_count(const haul_huggingface *model);
const haul_safetensors_entry *haul_huggingface_at(const haul_huggingface *model, int64_t index);
const haul_safetensors_entry *haul_huggingface_find(const haul_huggingface *model,
                                                    const char *name);

/* Fills target->data (f32, bf16 or f64, contiguous) with the tensor of that name, converted from
 * F64, F32, BF16 or F16 by rounding to nearest even. With `transposed` the file holds [b, a] for a
 * target of [a, b], as GPT-2's Conv1D weights do. HAUL_ERROR_DATA when there is none, or one of
 * another shape. */
haul_status haul_huggingface_read(const haul_huggingface *model, bool transposed,
                                  const haul_checkpoint_tensor *target);

/* Writes weights and config.json into a directory, which is created and must hold no weights yet:
 * one file, or shards of at most `shard_bytes` (0: 5 GB) with their index. On failure what was
 * written is removed. */
haul_status haul_huggingface_write(const char *directory, const haul_checkpoint_tensor *tensors,
                                   int64_t count, int64_t shard_bytes, const char *config_json);

#endif
