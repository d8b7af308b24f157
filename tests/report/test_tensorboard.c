/* ctest: golden */
/* golden.tfevents is made by tools/reference/report_tensorboard.py with the tensorboard package. */
#include "testing.h"

#include "base/file.h"
#include "report/crc32c.h"
#include "report/tensorboard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void crc_of_known_data(void **state) {
    (void)state;
    unsigned char bytes[32] = {0};
    assert_int_equal(haul_crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(haul_crc32c(bytes, 32), 0x8a9136aau); /* RFC 3720 B.4 */
    for (int i = 0; i < 32; i++) {
        bytes[i] = (unsigned char)i;
    }
    assert_int_equal(haul_crc32c(bytes, 32), 0x46dd794eu);
    assert_int_equal(haul_crc32c("", 0), 0);
}

static void bytes_equal_tensorboards(void **state) {
    (void)state;
    const double wall = 1760000000.25;
    char path[512];
    snprintf(path, sizeof path, "%s/events", haul_test_directory());
    haul_tensorboard board;
    assert_ok(haul_tensorboard_create(path, wall, &board));
    assert_ok(haul_tensorboard_scalar(&board, "lm loss", 2.5, 1, wall + 1));
    assert_ok(haul_tensorboard_scalar(&board, "lm loss vs samples", 1e-3, 300, wall + 1));
    haul_string text = {0};
    haul_string_append_text(&text, "\u00dcn\u00ef\xff ");
    for (int i = 0; i < 30; i++) {
        haul_string_append_text(&text, "long ");
    }
    assert_ok(haul_tensorboard_text(&board, "sample", text.data, 1LL << 40, wall + 2));
    haul_string_deinit(&text);
    haul_tensorboard_close(&board);

    haul_string ours = {0}, golden = {0};
    assert_ok(haul_file_read(path, &ours));
    assert_ok(haul_file_read(HAUL_TEST_DIR "/report/golden.tfevents", &golden));
    assert_int_equal(ours.length, golden.length);
    assert_memory_equal(ours.data, golden.data, (size_t)golden.length);
    haul_string_deinit(&ours);
    haul_string_deinit(&golden);
}

static haul_status read_first(void *context, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/tensorboard/%s", haul_test_directory(), name);
    return haul_file_read(path, context);
}

static int count_tag(const haul_string *file, const char *tag) {
    char field[64]; /* the tag as protobuf writes it: key, length, text */
    int length = snprintf(field, sizeof field, "\x0a%c%s", (char)strlen(tag), tag);
    int count = 0;
    const char *at = file->data;
    const char *end = file->data + file->length;
    while ((at = memmem(at, (size_t)(end - at), field, (size_t)length)) != NULL) {
        count++;
        at++;
    }
    return count;
}

static void megatron_tags(void **state) {
    (void)state;
    char directory[512];
    snprintf(directory, sizeof directory, "%s/tensorboard", haul_test_directory());
    haul_tensorboard board;
    assert_ok(haul_tensorboard_open(directory, 1760000000, &board));
    const haul_iteration iteration = {.loss = 2, .grad_norm = 1, .throughput = (double)NAN};
    assert_ok(haul_tensorboard_iteration(&board, &iteration, 1));
    assert_ok(haul_tensorboard_validation(&board, 2, 1, 8, 1));
    haul_tensorboard_close(&board);
    haul_string file = {0};
    assert_ok(haul_directory_list(directory, read_first, &file));
    static const char *const tags[] = {
        "lm loss",
        "lm loss vs samples",
        "learning-rate",
        "learning-rate vs samples",
        "batch-size",
        "batch-size vs samples",
        "grad-norm",
        "grad-norm vs samples",
        "loss-scale",
        "loss-scale vs samples",
        "iteration-time",
        "lm loss validation",
        "lm loss validation vs samples",
        "lm loss validation ppl",
        "lm loss validation ppl vs samples",
    };
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        assert_int_equal(count_tag(&file, tags[i]), 1);
    }
    assert_int_equal(count_tag(&file, "throughput"), 0);
    haul_string_deinit(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_of_known_data),
        cmocka_unit_test(bytes_equal_tensorboards),
        cmocka_unit_test(megatron_tags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
