/* A tiny model of tests/train/golden ready to write. A fixture starts zeroed. */
#ifndef HAUL_TESTS_GENERATE_FIXTURE_H
#define HAUL_TESTS_GENERATE_FIXTURE_H

#include "testing.h"

#include "generate/model.h"
#include "train/saved_model.h"
#include "train/session.h"

#include <stdio.h>
#include <string.h>

typedef struct fixture {
    bool bf16; /* set by the caller */
    haul_config command;
    haul_saved_model model;
    haul_session session;
    haul_generator generator;
} fixture;

static inline void fixture_set(haul_config *config, const char *flag, const char *value) {
    assert_ok(haul_config_set(config, flag, &value, 1, HAUL_SOURCE_COMMAND_LINE));
}

static inline void fixture_open_at(fixture *f, const char *load, const char *device,
                                   haul_generator_options options) {
    assert_ok(haul_config_init(&f->command));
    fixture_set(&f->command, "load", load);
    fixture_set(&f->command, "device", device);
    fixture_set(&f->command, "threads", "2");
    fixture_set(&f->command, "seq-length", "1");
    fixture_set(&f->command, "micro-batch-size", "1");
    assert_ok(haul_saved_model_open(&f->command, &f->model, NULL));
    f->model.config.bf16 = f->bf16;
    assert_ok(haul_session_plan(&f->session, &f->model.config, false));
    assert_ok(haul_session_allocate(&f->session));
    assert_ok(haul_saved_model_read(&f->model, &f->session.store));
    assert_ok(haul_generator_init(&f->generator, &f->model.config, &f->session.store, options));
}

static inline void fixture_open(fixture *f, const char *model, const char *device,
                                haul_generator_options options) {
    char load[600];
    snprintf(load, sizeof load, "%s/train/golden/%s", HAUL_TEST_DIR, model);
    fixture_open_at(f, load, device, options);
}

static inline void fixture_close(fixture *f) {
    haul_generator_deinit(&f->generator);
    haul_session_deinit(&f->session);
    haul_saved_model_close(&f->model);
    haul_config_deinit(&f->command);
}

#endif
