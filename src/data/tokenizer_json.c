/* Loads tokenizer.json. What is not supported is refused by name: a tokenizer that is almost right
 * gives wrong ids without a sign. */
#include "data/tokenizer_json.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "data/byte_alphabet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_LIMIT = 1 << 24 };

static haul_status fail_json(const haul_tokenizer_loader *load, const char *what) {
    return haul_fail(HAUL_ERROR_DATA, "%s: %s", load->path, what);
}

haul_status haul_tokenizer_unsupported(const haul_tokenizer_loader *load, const char *where,
                                       const json_t *value) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    haul_fail(HAUL_ERROR_DATA, "%s: %s is %.120s, which is not supported", load->path, where,
              text != NULL ? text : "?");
    free(text);
    haul_hint("haul reads byte-level BPE tokenizers such as those of GPT-2 and Llama 3");
    return HAUL_ERROR_DATA;
}

bool haul_tokenizer_is_type(const json_t *object, const char *type) {
    const char *is = json_string_value(json_object_get(object, "type"));
    return is != NULL && strcmp(is, type) == 0;
}

static bool is_off(const json_t *value) {
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

haul_status haul_tokenizer_require_off(const haul_tokenizer_loader *load, const char *where,
                                       const json_t *object, const char *const *names) {
    for (; *names != NULL; names++) {
        const json_t *value = json_object_get(object, *names);
        if (!is_off(value)) {
            char place[128];
            snprintf(place, sizeof place, "%s%s", where, *names);
            return haul_tokenizer_unsupported(load, place, value);
        }
    }
    return HAUL_OK;
}

/* Records that `id` stands for `bytes`. */
static haul_status set_token(const haul_tokenizer_loader *load, int64_t id, const void *bytes,
                             int64_t count, bool in_vocab) {
    haul_tokenizer_bpe *tokenizer = load->tokenizer;
    int64_t token, known = tokenizer->tokens.count;
    HAUL_TRY(haul_byte_map_add(&tokenizer->tokens, bytes, count, &token));
    if (token == known) {
        tokenizer->id_of_token[token] = -1;
    } else if (in_vocab && tokenizer->id_of_token[token] >= 0) {
        return haul_fail(HAUL_ERROR_DATA, "%s: tokens %d and %lld are the same bytes", load->path,
                         tokenizer->id_of_token[token], (long long)id);
    }
    if (tokenizer->token_of_id[id] >= 0 && tokenizer->token_of_id[id] != token) {
        return haul_fail(HAUL_ERROR_DATA, "%s: id %lld stands for two tokens", load->path,
                         (long long)id);
    }
    if (in_vocab) {
        tokenizer->id_of_token[token] = (int32_t)id;
    }
    tokenizer->token_of_id[id] = token;
    return HAUL_OK;
}

static haul_status check_id(const haul_tokenizer_loader *load, const char *content,
                            const json_t *id) {
    if (content == NULL || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= ID_LIMIT) {
        return haul_fail(HAUL_ERROR_DATA, "%s: token \"%.40s\" needs an id from 0 to %d",
                         load->path, content != NULL ? content : "?", ID_LIMIT - 1);
    }
    return HAUL_OK;
}

/* Sizes the tables: ids need not be dense, so the largest one counts. */
static haul_status make_tables(const haul_tokenizer_loader *load, json_t *vocab, json_t *added) {
    haul_tokenizer_bpe *tokenizer = load->tokenizer;
    const char *content;
    json_t *item;
    size_t i;
    int64_t largest = -1, tokens = (int64_t)(json_object_size(vocab) + json_array_size(added));
    json_object_foreach(vocab, content, item) {
        HAUL_TRY(check_id(load, content, item));
        largest = haul_max(largest, json_integer_value(item));
    }
    json_array_foreach(added, i, item) {
        const json_t *id = json_object_get(item, "id");
        HAUL_TRY(check_id(load, json_string_value(json_object_get(item, "content")), id));
        largest = haul_max(largest, json_integer_value(id));
    }
    tokenizer->base.vocab_size = largest + 1;
    tokenizer->token_of_id = haul_calloc(largest + 1, sizeof *tokenizer->token_of_id);
    tokenizer->id_of_token = haul_calloc(tokens, sizeof *tokenizer->id_of_token);
    tokenizer->added = haul_calloc((int64_t)json_array_size(added), sizeof *tokenizer->added);
    if (tokenizer->token_of_id == NULL || tokenizer->id_of_token == NULL ||
        tokenizer->added == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    memset(tokenizer->token_of_id, 0xff, (size_t)(largest + 1) * sizeof *tokenizer->token_of_id);
    return HAUL_OK;
}

/* The contents of the added tokens as keys of an object, so that looking one up is quick. */
static haul_status collect_contents(const haul_tokenizer_loader *load, json_t *added,
                                    json_t **out) {
    json_t *contents = json_object(), *item;
    size_t i;
    int failed = contents == NULL;
    json_array_foreach(added, i, item) {
        const char *content = json_string_value(json_object_get(item, "content"));
        failed |= json_object_set_new(contents, content, json_true());
    }
    if (failed) {
        json_decref(contents);
        return haul_fail(HAUL_ERROR_MEMORY, "out of memory: the added tokens of %s", load->path);
    }
    *out = contents;
    return HAUL_OK;
}

/* `added` has the contents of the added tokens as keys. */
static haul_status load_vocab(const haul_tokenizer_loader *load, json_t *vocab,
                              const json_t *added) {
    const char *content;
    json_t *id;
    haul_string bytes = {0};
    haul_status status = HAUL_OK;
    json_object_foreach(vocab, content, id) {
        haul_string_clear(&bytes);
        bool in_alphabet = haul_byte_alphabet_read(&bytes, content);
        bool spelled_plainly = in_alphabet && bytes.length == (int64_t)strlen(content);
        if (!spelled_plainly && json_object_get(added, content) != NULL) {
            continue; /* the bytes of an added token are its content as it stands */
        }
        status = haul_string_status(&bytes);
        if (status == HAUL_OK && (!in_alphabet || bytes.length == 0)) {
            status = haul_fail(HAUL_ERROR_DATA, "%s: token \"%.40s\" is not byte-level", load->path,
                               content);
        }
        if (status == HAUL_OK) {
            status = set_token(load, json_integer_value(id), bytes.data, bytes.length, true);
        }
        if (status != HAUL_OK) {
            break;
        }
    }
    haul_string_deinit(&bytes);
    return status;
}

static haul_status load_bytes(const haul_tokenizer_loader *load) {
    haul_tokenizer_bpe *tokenizer = load->tokenizer;
    for (int byte = 0; byte < 256; byte++) {
        uint8_t key = (uint8_t)byte;
        int64_t token = haul_byte_map_get(&tokenizer->tokens, &key, 1);
        if (token < 0 || tokenizer->id_of_token[token] < 0) {
            return haul_fail(HAUL_ERROR_DATA, "%s: no token stands for byte 0x%02x", load->path,
                             (unsigned)byte);
        }
        tokenizer->bpe.byte_ids[byte] = tokenizer->id_of_token[token];
    }
    return HAUL_OK;
}

/* Splits "left right" or ["left", "right"] into two strings; false when it is neither. */
static bool read_merge(const json_t *merge, haul_string *left, haul_string *right) {
    haul_string_clear(left);
    haul_string_clear(right);
    if (json_is_array(merge) && json_array_size(merge) == 2 &&
        json_is_string(json_array_get(merge, 0)) && json_is_string(json_array_get(merge, 1))) {
        haul_string_append_text(left, json_string_value(json_array_get(merge, 0)));
        haul_string_append_text(right, json_string_value(json_array_get(merge, 1)));
        return true;
    }
    const char *text = json_string_value(merge);
    const char *blank = text != NULL ? strchr(text, ' ') : NULL;
    if (blank == NULL) {
        return false;
    }
    haul_string_append(left, text, blank - text);
    haul_string_append_text(right, blank + 1);
    return true;
}

/* The id of a text of the vocabulary; -1 when there is none, or when it is an added token, whose
 * bytes are not those that its spelling in the vocabulary stands for. */
static int32_t find_id(const haul_tokenizer_loader *load, const json_t *vocab,
                       const haul_string *text) {
    const json_t *id = json_object_get(vocab, text->length > 0 ? text->data : "");
    bool loaded = id != NULL && load->tokenizer->token_of_id[json_integer_value(id)] >= 0;
    return loaded ? (int32_t)json_integer_value(id) : -1;
}

static haul_status load_merge(const haul_tokenizer_loader *load, const json_t *vocab, size_t rank,
                              haul_string *left, haul_string *right, const json_t *merge) {
    int32_t left_id = -1, right_id = -1, result = -1;
    if (read_merge(merge, left, right)) {
        HAUL_TRY(haul_string_status(left));
        HAUL_TRY(haul_string_status(right));
        left_id = find_id(load, vocab, left);
        right_id = find_id(load, vocab, right);
        haul_string_append(left, right->data, right->length);
        HAUL_TRY(haul_string_status(left));
        result = find_id(load, vocab, left);
    }
    if (left_id < 0 || right_id < 0 || result < 0) {
        return haul_fail(HAUL_ERROR_DATA,
                         "%s: merge %zu is no pair of tokens whose joint text is a token",
                         load->merges_path, rank);
    }
    return haul_bpe_add_merge(&load->tokenizer->bpe, left_id, right_id, result);
}

static haul_status load_merges(const haul_tokenizer_loader *load, const json_t *vocab,
                               json_t *merges) {
    haul_string left = {0}, right = {0};
    haul_status status = HAUL_OK;
    size_t rank;
    json_t *merge;
    json_array_foreach(merges, rank, merge) {
        status = load_merge(load, vocab, rank, &left, &right, merge);
        if (status != HAUL_OK) {
            break;
        }
    }
    haul_string_deinit(&left);
    haul_string_deinit(&right);
    return status;
}

static haul_status load_model(const haul_tokenizer_loader *load, json_t *added) {
    static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                      "byte_fallback", NULL};
    json_t *model = json_object_get(load->root, "model");
    json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    if (json_object_get(model, "type") != NULL && !haul_tokenizer_is_type(model, "BPE")) {
        return haul_tokenizer_unsupported(load, "model.type", json_object_get(model, "type"));
    }
    HAUL_TRY(haul_tokenizer_require_off(load, "model.", model, off));
    if (!json_is_object(vocab) || !json_is_array(merges)) {
        return fail_json(load, "model.vocab and model.merges must be an object and an array");
    }
    load->tokenizer->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    HAUL_TRY(make_tables(load, vocab, added));
    json_t *contents = NULL;
    HAUL_TRY(collect_contents(load, added, &contents));
    haul_status status = load_vocab(load, vocab, contents);
    json_decref(contents);
    HAUL_TRY(status);
    HAUL_TRY(load_bytes(load));
    return load_merges(load, vocab, merges);
}

static int longer_first(const void *a, const void *b) {
    int64_t left = ((const haul_added_token *)a)->bytes;
    int64_t right = ((const haul_added_token *)b)->bytes;
    return (left < right) - (left > right);
}

static haul_status load_added(const haul_tokenizer_loader *load, json_t *added) {
    static const char *const off[] = {"single_word", "lstrip", "rstrip", NULL};
    haul_tokenizer_bpe *tokenizer = load->tokenizer;
    size_t i;
    json_t *item;
    json_array_foreach(added, i, item) {
        const char *content = json_string_value(json_object_get(item, "content"));
        HAUL_TRY(haul_tokenizer_require_off(load, "added_tokens.", item, off));
        if (content[0] == '\0') {
            return fail_json(load, "an added token has no content");
        }
        haul_added_token *token = &tokenizer->added[tokenizer->added_count];
        token->id = (int32_t)json_integer_value(json_object_get(item, "id"));
        token->bytes = (int64_t)strlen(content);
        token->content = haul_strdup(content);
        if (token->content == NULL) {
            return HAUL_ERROR_MEMORY;
        }
        tokenizer->added_count++;
        tokenizer->starts_added[(uint8_t)content[0]] = true;
        HAUL_TRY(set_token(load, token->id, content, token->bytes, false));
    }
    qsort(tokenizer->added, (size_t)tokenizer->added_count, sizeof *tokenizer->added, longer_first);
    return HAUL_OK;
}

/* The names that end a document, when tokenizer_config.json does not say. */
static const char *const eod_names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>"};

static int32_t find_added(const haul_tokenizer_bpe *tokenizer, const char *content) {
    for (int64_t i = 0; i < tokenizer->added_count; i++) {
        if (strcmp(tokenizer->added[i].content, content) == 0) {
            return tokenizer->added[i].id;
        }
    }
    return -1;
}

/* eos_token of the tokenizer_config.json beside, a string or an object with content. */
static int32_t configured_eod(const haul_tokenizer_loader *load) {
    char path[HAUL_TOKENIZER_PATH_BYTES];
    const char *slash = strrchr(load->path, '/');
    int length = slash != NULL ? (int)(slash + 1 - load->path) : 0;
    snprintf(path, sizeof path, "%.*stokenizer_config.json", length, load->path);
    json_t *config = json_load_file(path, 0, NULL);
    const json_t *eos = json_object_get(config, "eos_token");
    const char *content =
        json_string_value(json_is_object(eos) ? json_object_get(eos, "content") : eos);
    int32_t id = content != NULL ? find_added(load->tokenizer, content) : -1;
    json_decref(config);
    return id;
}

static int32_t choose_eod(const haul_tokenizer_loader *load) {
    int32_t id = configured_eod(load);
    for (size_t i = 0; id < 0 && i < sizeof eod_names / sizeof *eod_names; i++) {
        id = find_added(load->tokenizer, eod_names[i]);
    }
    return id;
}

static haul_status load_all(const haul_tokenizer_loader *load) {
    json_t *added = json_object_get(load->root, "added_tokens");
    if (!json_is_object(json_object_get(load->root, "model"))) {
        return fail_json(load, "there is no model in it");
    }
    HAUL_TRY(load_model(load, added));
    HAUL_TRY(load_added(load, added));
    HAUL_TRY(haul_tokenizer_load_steps(load));
    load->tokenizer->base.eod = choose_eod(load);
    return HAUL_OK;
}

static haul_status find_file(const char *model, char *path) {
    int length = snprintf(path, HAUL_TOKENIZER_PATH_BYTES, "%s/tokenizer.json", model);
    if (length >= HAUL_TOKENIZER_PATH_BYTES) {
        return haul_fail(HAUL_ERROR_USAGE, "the path %.60s... is too long", model);
    }
    if (!haul_file_exists(path)) {
        haul_text_copy(path, HAUL_TOKENIZER_PATH_BYTES, model);
    }
    return HAUL_OK;
}

static haul_status parse(haul_tokenizer_loader *load, const char *text, int64_t bytes) {
    json_error_t error;
    load->root = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    load->tokenizer->base.fingerprint = haul_hash_64(text, bytes);
    if (load->root == NULL) {
        return haul_fail(HAUL_ERROR_DATA, "%s:%d: %s", load->path, error.line, error.text);
    }
    return HAUL_OK;
}

haul_status haul_tokenizer_load(haul_tokenizer_loader *load, const char *text, int64_t bytes,
                                haul_tokenizer **out) {
    load->tokenizer = haul_calloc(1, sizeof *load->tokenizer);
    if (load->tokenizer == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    load->tokenizer->base.class = load->class;
    haul_status status = parse(load, text, bytes);
    if (status == HAUL_OK) {
        status = load_all(load);
    }
    json_decref(load->root);
    if (status != HAUL_OK) {
        haul_tokenizer_close(&load->tokenizer->base);
        return status;
    }
    *out = &load->tokenizer->base;
    return HAUL_OK;
}

haul_status haul_tokenizer_open_bpe(const char *model, haul_tokenizer **out) {
    haul_tokenizer_loader load = {.class = &haul_tokenizer_bpe_class, .merges_path = load.path};
    haul_file_map file;
    HAUL_TRY(find_file(model, load.path));
    HAUL_TRY(haul_file_map_open(load.path, &file));
    haul_status status =
        haul_tokenizer_load(&load, file.data != NULL ? file.data : "", file.bytes, out);
    haul_file_map_close(&file);
    return status;
}
