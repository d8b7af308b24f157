/* The persistent state of a training as named tensors: what a checkpoint holds, and Hugging Face
 * weights. */
#ifndef HAUL_TRAIN_STATE_H
#define HAUL_TRAIN_STATE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/huggingface.h"
#include "config/config.h"
#include "step/store.h"

typedef struct haul_state_list {
    haul_checkpoint_tensor *tensors; /* views into the store */
    int64_t count;
    char *names;                    /* owned text of all names */
    haul_stream *stream;            /* for copies from and to a device's memory */
    haul_checkpoint_memory *memory; /* NULL: the host's own */
} haul_state_list;

/* Every view of every parameter under its Hugging Face name, and, of a store that trains, its low
 * half ("optimizer.low.NAME") and moments ("optimizer.exp_avg.NAME", "optimizer.exp_avg_sq.NAME").
 */
haul_status haul_state_list_init(const haul_store *store, haul_state_list *out);
void haul_state_list_deinit(haul_state_list *list);

/* Fills a tensor of the store's from the checkpoint's of that name, rounded to nearest where that
 * has another dtype. */
haul_status haul_state_read(haul_checkpoint *checkpoint, const haul_checkpoint_tensor *target);

/* Whether a checkpoint holds moments of adam in another dtype than the store does. */
bool haul_state_converts(const haul_store *store, const haul_checkpoint *checkpoint);

/* Fills the whole store from a checkpoint, with moments converted; a store that does not train
 * reads the values alone. */
haul_status haul_state_load(haul_store *store, haul_checkpoint *checkpoint);

/* Whether a directory holds Hugging Face weights. */
bool haul_state_is_hugging_face(const char *directory);

/* Fills the values from a Hugging Face directory (rows of padding become 0, moments stay). */
haul_status haul_state_import(haul_store *store, const haul_config *config, const char *directory);

/* Writes the values with a config.json as a directory that transformers loads. */
haul_status haul_state_export(const haul_store *store, const haul_config *config,
                              const char *directory);

#endif
