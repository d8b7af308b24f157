/* What every configuration must do that a parser has accepted. */
#ifndef HAUL_TESTS_CONFIG_CHECKS_H
#define HAUL_TESTS_CONFIG_CHECKS_H

#include "config/config.h"

/* Written as JSON, read back and written again it is the same text. */
void fuzz_check_round_trip(const haul_config *config);

/* For a config that haul_config_finalize_model has accepted: sizes are positive and fit. */
void fuzz_check_model(haul_config *config);

/* The same for haul_config_finalize. */
void fuzz_check_training(haul_config *config);

#endif
