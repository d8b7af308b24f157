/* The steps around the model in tokenizer.json. */
#include "data/tokenizer_json.h"

#include <string.h>

/* ByteLevel itself changes no bytes; `use_regex` makes it cut by GPT-2's pattern first. */
static haul_status check_byte_level(const haul_tokenizer_loader *load, const json_t *step) {
    static const char *const off[] = {"add_prefix_space", NULL};
    if (!haul_tokenizer_is_type(step, "ByteLevel")) {
        return haul_tokenizer_unsupported(load, "a pre_tokenizer", step);
    }
    return haul_tokenizer_require_off(load, "pre_tokenizer.", step, off);
}

static haul_status load_split(const haul_tokenizer_loader *load, const json_t *step,
                              const char **pattern) {
    static const char *const off[] = {"invert", NULL};
    *pattern = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(step, "behavior"));
    if (!haul_tokenizer_is_type(step, "Split") || *pattern == NULL || behavior == NULL ||
        strcmp(behavior, "Isolated") != 0) {
        return haul_tokenizer_unsupported(load, "a pre_tokenizer", step);
    }
    return haul_tokenizer_require_off(load, "pre_tokenizer.", step, off);
}

static haul_status load_pretokenizer(const haul_tokenizer_loader *load) {
    const json_t *step = json_object_get(load->root, "pre_tokenizer");
    const char *pattern = haul_pretokenizer_gpt2;
    if (haul_tokenizer_is_type(step, "Sequence")) {
        const json_t *steps = json_object_get(step, "pretokenizers");
        const json_t *second = json_array_get(steps, 1);
        if (json_array_size(steps) != 2 || !json_is_false(json_object_get(second, "use_regex"))) {
            return haul_tokenizer_unsupported(load, "pre_tokenizer", step);
        }
        HAUL_TRY(load_split(load, json_array_get(steps, 0), &pattern));
        HAUL_TRY(check_byte_level(load, second));
    } else {
        HAUL_TRY(check_byte_level(load, step));
        if (json_is_false(json_object_get(step, "use_regex"))) {
            return haul_tokenizer_unsupported(load, "pre_tokenizer", step);
        }
    }
    haul_status status = haul_pretokenizer_create(pattern, &load->tokenizer->pretokenizer);
    if (status != HAUL_OK) {
        haul_fail_context("%s", load->path);
    }
    return status;
}

/* Appends the ids of a special token of a template. */
static haul_status add_special(const haul_tokenizer_loader *load, const json_t *template,
                               const char *name, haul_token_list *list) {
    const json_t *ids =
        json_object_get(json_object_get(json_object_get(template, "special_tokens"), name), "ids");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *item = json_array_get(ids, i);
        int64_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id >= load->tokenizer->base.vocab_size ||
            load->tokenizer->token_of_id[id] < 0) {
            return haul_tokenizer_unsupported(load, "post_processor", template);
        }
        HAUL_TRY(haul_token_list_append(list, &(int32_t){(int32_t)id}, 1));
    }
    return json_array_size(ids) > 0 ? HAUL_OK
                                    : haul_tokenizer_unsupported(load, "post_processor", template);
}

/* The template of one text: special tokens, the text ("A"), special tokens. */
static haul_status load_template(const haul_tokenizer_loader *load, const json_t *template) {
    const json_t *parts = json_object_get(template, "single");
    haul_tokenizer_bpe *tokenizer = load->tokenizer;
    int texts = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const json_t *special = json_object_get(part, "SpecialToken");
        const char *name = json_string_value(json_object_get(special, "id"));
        if (name != NULL) {
            HAUL_TRY(add_special(load, template, name,
                                 texts == 0 ? &tokenizer->prefix : &tokenizer->suffix));
        } else {
            texts += json_object_get(part, "Sequence") != NULL;
        }
    }
    return texts == 1 ? HAUL_OK : haul_tokenizer_unsupported(load, "post_processor.single", parts);
}

static haul_status load_post_processor(const haul_tokenizer_loader *load, const json_t *step) {
    if (step == NULL || json_is_null(step) || haul_tokenizer_is_type(step, "ByteLevel")) {
        return HAUL_OK;
    }
    if (haul_tokenizer_is_type(step, "TemplateProcessing")) {
        return load_template(load, step);
    }
    if (!haul_tokenizer_is_type(step, "Sequence")) {
        return haul_tokenizer_unsupported(load, "post_processor", step);
    }
    const json_t *steps = json_object_get(step, "processors");
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *inner = json_array_get(steps, i);
        if (haul_tokenizer_is_type(inner, "Sequence")) {
            return haul_tokenizer_unsupported(load, "post_processor", step);
        }
        HAUL_TRY(load_post_processor(load, inner));
    }
    return HAUL_OK;
}

haul_status haul_tokenizer_load_steps(const haul_tokenizer_loader *load) {
    static const char *const off[] = {"normalizer", "truncation", "padding", NULL};
    const json_t *decoder = json_object_get(load->root, "decoder");
    HAUL_TRY(haul_tokenizer_require_off(load, "", load->root, off));
    if (decoder != NULL && !json_is_null(decoder) &&
        !haul_tokenizer_is_type(decoder, "ByteLevel")) {
        return haul_tokenizer_unsupported(load, "decoder", decoder);
    }
    HAUL_TRY(load_pretokenizer(load));
    return load_post_processor(load, json_object_get(load->root, "post_processor"));
}
