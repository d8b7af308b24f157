/* ctest: fuzz */
/* Seeded damage to every file that is parsed: the reader says what is wrong, or what it returns
 * can be read to the last byte. Run under the sanitizers, this finds reads out of bounds. */
#include "fixture.h"

#include "base/memory.h"
#include "base/philox.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/manifest.h"

#include <stdlib.h>

enum { ROUNDS = 2000, MAX_READ = 1 << 20 };

typedef struct source {
    uint32_t key[2];
    uint32_t counter;
} source;

static uint32_t random_below(source *random, uint32_t limit) {
    const uint32_t counter[4] = {random->counter++, 0, 0, 0};
    return haul_philox_4x32(random->key, counter).word[0] % limit;
}

/* Words that mean something to the parsers. */
static const char *const words[] = {"0",
                                    "-1",
                                    "1.0",
                                    "1e3",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "null",
                                    "{}",
                                    "[]",
                                    "\"",
                                    "\"F32\"",
                                    "\"U8\"",
                                    "\"shape\":[0],",
                                    "../",
                                    "\\u0000",
                                    "\\u001b",
                                    "[[[[[[[[",
                                    "}",
                                    "]",
                                    ",",
                                    "\"__metadata__\":{},",
                                    "\xff",
                                    "\"a\":",
                                    "18446744073709551616"};

static void replace(haul_string *text, int64_t at, int64_t length, const void *with,
                    int64_t bytes) {
    haul_string result = {0};
    haul_string_append(&result, text->data, at);
    haul_string_append(&result, with, bytes);
    haul_string_append(&result, text->data + at + length, text->length - at - length);
    haul_string_deinit(text);
    *text = result;
}

/* One to four edits in the first `limit` bytes, where the structure is. */
static void mutate(source *random, haul_string *text, int64_t limit) {
    for (uint32_t edits = 1 + random_below(random, 4); edits > 0 && text->length > 16; edits--) {
        int64_t reach = haul_min(limit, text->length);
        int64_t at = random_below(random, (uint32_t)reach);
        int64_t length = haul_min(random_below(random, 12), reach - at);
        const char *word = words[random_below(random, sizeof words / sizeof words[0])];
        char copied[64];
        switch (random_below(random, 5)) {
        case 0:
            text->data[at] ^= (char)(1u << random_below(random, 8));
            break;
        case 1:
            replace(text, at, length, word, (int64_t)strlen(word));
            break;
        case 2:
            replace(text, at, length, "", 0);
            break;
        case 3:
            memcpy(copied, text->data + at, (size_t)length);
            replace(text, random_below(random, (uint32_t)reach), 0, copied, length);
            break;
        default:
            replace(text, at, 0, word, (int64_t)strlen(word));
            break;
        }
    }
    if (random_below(random, 16) == 0) {
        int64_t cut = random_below(random, (uint32_t)text->length);
        replace(text, cut, text->length - cut, "", 0);
    }
}

static void assert_clean(haul_status status) {
    assert_true(status == HAUL_OK || status == HAUL_ERROR_DATA || status == HAUL_ERROR_NO_INPUT);
    assert_true(status == HAUL_OK || haul_error_message()[0] != '\0');
}

/* Touches every byte of an entry. */
static uint32_t sum_bytes(const haul_safetensors_entry *entry) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < entry->bytes; i++) {
        sum += (unsigned char)entry->data[i];
    }
    return sum;
}

/* Half of the mutants keep a right length field, or few would get past it. */
static void fix_header_length(source *random, haul_string *text, int64_t data_bytes) {
    if (random_below(random, 2) == 0 && text->length >= 8 + data_bytes) {
        int64_t length = text->length - 8 - data_bytes;
        memcpy(text->data, &length, sizeof length);
    }
}

static void test_safetensors(void **state) {
    (void)state;
    static const char *const seeds[] = {
        HAUL_TEST_DIR "/checkpoint/golden/types.safetensors",
        HAUL_TEST_DIR "/checkpoint/golden/llama/model-00003-of-00003.safetensors"};
    static const int64_t data_bytes[] = {337, 1024};
    char path[FIXTURE_PATH];
    int accepted = 0;
    volatile uint32_t sum = 0;
    fixture_directory(path, "fuzz.safetensors");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        source random = {{1, round}, 0};
        haul_string text = {0};
        haul_safetensors *file = NULL;
        assert_ok(haul_file_read(seeds[round % 2], &text));
        mutate(&random, &text, text.length - data_bytes[round % 2]);
        fix_header_length(&random, &text, data_bytes[round % 2]);
        fixture_put(path, text.data, text.length);
        haul_string_deinit(&text);
        haul_status status = haul_safetensors_open(path, &file);
        assert_clean(status);
        for (int64_t i = 0; status == HAUL_OK && i < haul_safetensors_count(file); i++) {
            const haul_safetensors_entry *entry = haul_safetensors_at(file, i);
            assert_ptr_equal(haul_safetensors_find(file, entry->name), entry);
            sum = sum + sum_bytes(entry);
        }
        accepted += status == HAUL_OK;
        haul_safetensors_close(file);
    }
    assert_in_range(accepted, ROUNDS / 100, ROUNDS / 2);
}

static void copy_golden(const char *directory, const char *name) {
    char from[FIXTURE_PATH], to[FIXTURE_PATH];
    haul_string text = {0};
    fixture_path(from, HAUL_TEST_DIR "/checkpoint/golden/llama", name);
    assert_ok(haul_file_read(from, &text));
    fixture_put(fixture_path(to, directory, name), text.data, text.length);
    haul_string_deinit(&text);
}

static void test_huggingface_index(void **state) {
    (void)state;
    static const char index_name[] = "model.safetensors.index.json";
    char directory[FIXTURE_PATH], path[FIXTURE_PATH];
    int accepted = 0;
    volatile uint32_t sum = 0;
    fixture_directory(directory, "fuzz-index");
    assert_ok(haul_directory_create(directory));
    copy_golden(directory, "model-00001-of-00003.safetensors");
    copy_golden(directory, "model-00002-of-00003.safetensors");
    copy_golden(directory, "model-00003-of-00003.safetensors");
    fixture_path(path, directory, index_name);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        source random = {{2, round}, 0};
        haul_string text = {0};
        haul_huggingface *model = NULL;
        assert_ok(haul_file_read(
            HAUL_TEST_DIR "/checkpoint/golden/llama/model.safetensors.index.json", &text));
        mutate(&random, &text, text.length);
        fixture_put(path, text.data, text.length);
        haul_string_deinit(&text);
        haul_status status = haul_huggingface_open(directory, &model);
        assert_clean(status);
        for (int64_t i = 0; status == HAUL_OK && i < haul_huggingface_count(model); i++) {
            sum = sum + sum_bytes(haul_huggingface_at(model, i));
        }
        accepted += status == HAUL_OK;
        haul_huggingface_close(model);
    }
    assert_in_range(accepted, ROUNDS / 100, ROUNDS / 2);
}

/* Reads every tensor that the manifest promises, as it promises it. */
static void read_all(haul_checkpoint *checkpoint) {
    for (int64_t i = 0; i < haul_checkpoint_count(checkpoint); i++) {
        haul_checkpoint_tensor tensor = *haul_checkpoint_at(checkpoint, i);
        int64_t bytes = 0;
        assert_true(
            haul_shape_bytes(tensor.ndim, tensor.shape, haul_dtype_size(tensor.dtype), &bytes));
        if (bytes <= MAX_READ) {
            tensor.data = haul_calloc(bytes, 1);
            assert_clean(haul_checkpoint_read(checkpoint, &tensor));
            free(tensor.data);
        }
    }
}

static void test_manifest(void **state) {
    (void)state;
    char save[FIXTURE_PATH], directory[FIXTURE_PATH], path[FIXTURE_PATH];
    haul_string seed = {0};
    int accepted = 0;
    fixture_directory(save, "fuzz-manifest");
    assert_ok(fixture_save(save, 1, 0));
    fixture_path(directory, save, "iter_0000001");
    assert_ok(haul_file_read(fixture_path(path, directory, "manifest.json"), &seed));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        source random = {{3, round}, 0};
        haul_string text = {0};
        haul_checkpoint *checkpoint = NULL;
        haul_string_append(&text, seed.data, seed.length);
        mutate(&random, &text, text.length);
        fixture_put(path, text.data, text.length);
        /* A COMMIT that agrees, so that the parser is reached. */
        unsigned char commit[HAUL_COMMIT_BYTES] = HAUL_COMMIT_MAGIC "\1";
        haul_hash128 hash = haul_hash128_of(text.data, text.length);
        memcpy(commit + 16, hash.bytes, sizeof hash.bytes);
        char commit_path[FIXTURE_PATH];
        fixture_put(fixture_path(commit_path, directory, "COMMIT"), commit, sizeof commit);
        haul_string_deinit(&text);
        haul_status status = haul_checkpoint_open(directory, &checkpoint);
        assert_clean(status);
        if (status == HAUL_OK) {
            read_all(checkpoint);
            accepted++;
        }
        haul_checkpoint_close(checkpoint);
    }
    haul_string_deinit(&seed);
    assert_in_range(accepted, ROUNDS / 100, ROUNDS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors),
        cmocka_unit_test(test_huggingface_index),
        cmocka_unit_test(test_manifest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
