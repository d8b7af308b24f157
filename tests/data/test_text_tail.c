/* The end of a text, held out where there are few documents. */
#include "data_testing.h"

#include "base/memory.h"
#include "data/build.h"
#include "data/text_tail.h"

#include <stdlib.h>

static haul_tokenizer *bytes_tokenizer;

static const char *text_file(const haul_string *text) {
    const char *path = scratch(0, "in.txt");
    assert_ok(haul_file_replace(path, text->data, text->length));
    return path;
}

/* A document of lines of ten bytes, each its number. */
static void append_lines(haul_string *text, int lines) {
    for (int i = 0; i < lines; i++) {
        haul_string_append_format(text, "line %04d\n", i);
    }
}

static haul_text_tail find(const haul_text_input *input, double share) {
    haul_text_tail tail;
    assert_ok(haul_text_find_tail(input, share, &tail));
    return tail;
}

/* 30, 120 and 50 lines: 2,000 bytes of documents. */
static void the_end_is_cut_at_a_line(void **state) {
    (void)state;
    haul_string text = {0};
    append_lines(&text, 30);
    haul_string_append_text(&text, "%\n");
    append_lines(&text, 120);
    haul_string_append_text(&text, "%\n");
    append_lines(&text, 50);
    const char *file = text_file(&text);
    haul_text_input input = {.files = &file, .file_count = 1, .separator = "%"};
    haul_text_tail tail = find(&input, 0.05);
    assert_int_equal(tail.cut.file, 0);
    assert_int_equal(tail.cut.offset, text.length - 100);
    assert_int_equal(tail.document, 3);
    assert_int_equal(tail.bytes, 100);
    assert_int_equal(find(&input, 0.052).bytes, 110); /* whole lines */
    tail = find(&input, 0.3);                         /* a part of the second, all of the third */
    assert_int_equal(tail.cut.offset, text.length - 602);
    assert_int_equal(tail.document, 2);
    assert_int_equal(tail.bytes, 600);
    assert_int_equal(find(&input, 0.25).bytes, 510); /* it never begins with a document */
    assert_int_equal(find(&input, 0.34).bytes, 0);   /* one of three is a share */
    haul_string_deinit(&text);
}

static void without_lines_words_and_characters_stay_whole(void **state) {
    (void)state;
    haul_string text = {0};
    for (int i = 0; i < 100; i++) {
        haul_string_append_text(&text, "nineteen letters in ");
    }
    const char *file = text_file(&text);
    haul_text_input input = {.files = &file, .file_count = 1};
    haul_text_tail tail = find(&input, 0.051); /* 102 bytes, within "in" */
    assert_int_equal(tail.bytes, 103);
    haul_string_clear(&text);
    for (int i = 0; i < 100; i++) {
        haul_string_append_text(&text, "\xe2\x82\xac");
    }
    text_file(&text);
    assert_int_equal(find(&input, 0.05).bytes, 15);
    assert_int_equal(find(&input, 0.055).bytes, 18);
    haul_string_clear(&text);
    haul_string_append_text(&text, "a");
    text_file(&text);
    assert_int_equal(find(&input, 0.05).bytes, 0);
    haul_string_deinit(&text);
}

/* The two data sets, one after the other, are the text, wherever chunks end. */
static void the_tail_is_the_held_out_document(void **state) {
    (void)state;
    enum { SLAB = 256 * 1024 };
    const int lines[] = {200, SLAB / 10 * 7, SLAB * 10 / 95};
    for (int i = 0; i < 9; i++) {
        haul_string text = {0}, again = {0};
        haul_build_result result;
        append_lines(&text, lines[i % 3]);
        const char *file = text_file(&text);
        haul_build_options options = {
            .input = {.files = &file, .file_count = 1, .separator = i < 6 ? NULL : "%"},
            .output_prefix = scratch(3, "out"),
            .tokenizer = bytes_tokenizer,
            .append_eod = true,
            .workers = 1 + i / 3,
            .holdout = 0.05};
        assert_ok(haul_build(&options, &result));
        assert_int_equal(result.documents[0], 1);
        assert_int_equal(result.documents[1], 1);
        assert_int_equal(result.tokens[1], result.tail_bytes + 1);
        assert_in_range(result.tail_bytes * 20, text.length, text.length + 200);
        for (int held_out = 0; held_out < 2; held_out++) {
            haul_indexed *indexed;
            char prefix[600];
            assert_ok(haul_build_prefix(options.output_prefix, "text", held_out, prefix, 600));
            assert_ok(haul_indexed_open(prefix, &indexed));
            int64_t count = haul_indexed_length(indexed, 0);
            int32_t *tokens = haul_calloc(count, sizeof *tokens);
            assert_ok(haul_indexed_get(indexed, 0, 0, count, tokens));
            assert_int_equal(tokens[count - 1], 256);
            for (int64_t t = 0; t < count - 1; t++) {
                haul_string_append(&again, &(char){(char)tokens[t]}, 1);
            }
            free(tokens);
            haul_indexed_close(indexed);
        }
        assert_int_equal(again.length, text.length);
        assert_memory_equal(again.data, text.data, (size_t)text.length);
        haul_string_deinit(&again);
        haul_string_deinit(&text);
    }
}

/* The end may begin in the first of two files; JSON has none. */
static void files_are_told_apart(void **state) {
    (void)state;
    haul_string text = {0};
    const char *files[] = {scratch(0, "one.txt"), scratch(1, "two.txt")};
    haul_build_result result;
    append_lines(&text, 20);
    assert_ok(haul_file_replace(files[1], text.data, text.length));
    append_lines(&text, 60);
    assert_ok(haul_file_replace(files[0], text.data, text.length));
    haul_build_options options = {.input = {.files = files, .file_count = 2},
                                  .output_prefix = scratch(3, "two"),
                                  .tokenizer = bytes_tokenizer,
                                  .workers = 2,
                                  .holdout = 0.4};
    haul_text_tail tail = find(&options.input, 0.4);
    assert_int_equal(tail.cut.file, 0);
    assert_int_equal(tail.cut.offset, 600);
    assert_int_equal(tail.document, 1);
    assert_ok(haul_build(&options, &result));
    assert_int_equal(result.documents[0], 1);
    assert_int_equal(result.documents[1], 2);
    assert_int_equal(result.tokens[0], 600);
    assert_int_equal(result.tokens[1], 400);
    tail = find(&options.input, 0.1);
    assert_int_equal(tail.cut.file, 1);
    assert_int_equal(tail.cut.offset, 100);
    assert_int_equal(tail.document, 2);
    haul_string_clear(&text);
    haul_string_append_text(&text, "{\"text\": \"a b c d\"}\n");
    files[0] = scratch(2, "one.jsonl");
    assert_ok(haul_file_replace(files[0], text.data, text.length));
    options.input.file_count = 1;
    assert_int_equal(find(&options.input, 0.05).bytes, 0);
    haul_string_deinit(&text);
}

static int open_tokenizer(void **state) {
    (void)state;
    return haul_tokenizer_open("ByteTokenizer", NULL, 0, &bytes_tokenizer);
}

static int close_tokenizer(void **state) {
    (void)state;
    haul_tokenizer_close(bytes_tokenizer);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_is_cut_at_a_line),
        cmocka_unit_test(without_lines_words_and_characters_stay_whole),
        cmocka_unit_test(the_tail_is_the_held_out_document),
        cmocka_unit_test(files_are_told_apart),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
