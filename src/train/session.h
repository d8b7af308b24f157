/* A training made ready: device, model, parameters, the compiled programs for training and
 * evaluation and one region of memory that both use in turn. */
#ifndef HAUL_TRAIN_SESSION_H
#define HAUL_TRAIN_SESSION_H

#include "config/config.h"
#include "model/build.h"
#include "step/executor.h"

typedef struct haul_session {
    const haul_config *config;
    haul_device device;
    haul_chunk chunk;
    haul_model_values values;
    haul_store store;
    haul_program training, evaluation;
    haul_executor trainer, evaluator;
    /* For people, all that the run takes: of the device's memory, and of the host's where that is
     * apart. */
    haul_memory_table memory, host_memory;
} haul_session;

/* Plans everything for a finalized config; nothing large is allocated. `train` false leaves out
 * what only training needs. Deinit is legal after a failure. */
haul_status haul_session_plan(haul_session *session, const haul_config *config, bool train);

/* Lets a device that has several ways to compute the products of a step measure which is fastest,
 * before memory is taken; what is measured is kept in the file `path`. *measured: how many were not
 * known. */
haul_status haul_session_tune(haul_session *session, const char *path, int64_t *measured);

/* Takes the memory. HAUL_ERROR_MEMORY names what takes it and what would help. */
haul_status haul_session_allocate(haul_session *session);
void haul_session_deinit(haul_session *session);

int64_t haul_session_micro_batches(const haul_config *config);

#endif
