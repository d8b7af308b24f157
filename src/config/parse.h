/* The command line, with the grammar of Python's argparse as Megatron-LM uses it. */
#ifndef HAUL_CONFIG_PARSE_H
#define HAUL_CONFIG_PARSE_H

#include "config/config.h"
#include "config/flags.h"

/* Reads the words after the command's name into an initialised config: `--flag value`,
 * `--flag=value`, bare switches and their `--no-flag`, lists up to the next flag; the last
 * repetition wins, '_' may stand for '-', nothing may be shortened. Then the preset, if one is
 * named, fills what the line leaves open. HAUL_ERROR_USAGE with message and hint. With --help
 * only config->help is of use. */
haul_status haul_config_parse(haul_config *config, haul_command command, int argc,
                              const char *const *argv);

#endif
