/* The config.json of a Hugging Face model directory, for LlamaForCausalLM and GPT2LMHeadModel. */
#ifndef HAUL_CONFIG_HUGGINGFACE_H
#define HAUL_CONFIG_HUGGINGFACE_H

#include "base/string.h"
#include "config/config.h"

/* Whether a directory holds weights in Hugging Face's form. */
bool haul_config_is_huggingface(const char *directory);

/* Sets the model's fields from `text`, with HAUL_SOURCE_FILE; keys that are absent have the
 * defaults of transformers. What haul cannot compute exactly is refused by name:
 * HAUL_ERROR_UNAVAILABLE for another architecture or feature, HAUL_ERROR_DATA for broken files.
 * haul_config_finalize_model comes after it. */
haul_status haul_config_from_huggingface(haul_config *config, const char *text, int64_t length,
                                         const char *name);

/* The same from a file; HAUL_ERROR_NO_INPUT when it cannot be read. */
haul_status haul_config_read_huggingface(haul_config *config, const char *path);

/* Appends the config.json of a finalized model with a known vocab_size (whose padding the weights
 * do not have). HAUL_ERROR_UNAVAILABLE names the setting that transformers has no model for. */
haul_status haul_config_to_huggingface(const haul_config *config, haul_string *out);

#endif
