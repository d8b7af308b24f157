#ifndef HAUL_CONFIG_MEGATRON_FLAGS_H
#define HAUL_CONFIG_MEGATRON_FLAGS_H

#include <stddef.h>

/* The names of all flags of Megatron-LM with '-' for '_', separated by blanks, in lines; NULL
 * ends them. */
extern const char *const haul_megatron_flag_lines[];

#endif
