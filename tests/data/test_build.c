#include "data_testing.h"

#include "base/fault.h"
#include "base/memory.h"
#include "base/philox.h"
#include "data/build.h"
#include "data/inspect.h"

#include <stdlib.h>

static haul_tokenizer *bytes_tokenizer;

static void write_text(const char *path, const char *text) {
    assert_ok(haul_file_replace(path, text, (int64_t)strlen(text)));
}

static haul_build_options options_of(const char *const *file, const char *separator) {
    return (haul_build_options){
        .input = {.files = file, .file_count = 1, .separator = separator},
        .output_prefix = scratch(3, "out"),
        .tokenizer = bytes_tokenizer,
        .workers = 1,
    };
}

/* The documents of a data set of bytes, each ended by "|", and "$" for eod. */
static haul_string read_documents(const char *prefix) {
    haul_indexed *indexed;
    haul_string text = {0};
    assert_ok(haul_indexed_open(prefix, &indexed));
    for (int64_t d = 0; d < haul_indexed_documents(indexed); d++) {
        int64_t begin, end;
        haul_indexed_document(indexed, d, &begin, &end);
        for (int64_t s = begin; s < end; s++) {
            int64_t count = haul_indexed_length(indexed, s);
            int32_t *tokens = haul_calloc(count, sizeof *tokens);
            assert_ok(haul_indexed_get(indexed, s, 0, count, tokens));
            for (int64_t i = 0; i < count; i++) {
                char byte = (char)tokens[i];
                haul_string_append(&text, tokens[i] == 256 ? "$" : &byte, 1);
            }
            free(tokens);
        }
        haul_string_append(&text, "|", 1);
    }
    haul_indexed_close(indexed);
    return text;
}

static void check_text(const char *text, const char *separator, const char *expected) {
    haul_build_result result;
    const char *file = scratch(0, "in.txt");
    haul_build_options options = options_of(&file, separator);
    options.append_eod = true;
    write_text(file, text);
    assert_ok(haul_build(&options, &result));
    haul_string documents = read_documents(scratch(1, "out_text_document"));
    assert_string_equal(documents.data, expected);
    haul_string_deinit(&documents);
}

static void separators_cut_text(void **state) {
    (void)state;
    check_text("one\n%\ntwo\n\nlines\n%\n", "%", "one\n$|two\n\nlines\n$|");
    check_text("%\n%\none\n%\n%\ntwo", "%", "one\n$|two$|");
    check_text("one\r\n%\r\ntwo\r\n", "%", "one\r\n$|two\r\n$|");
    check_text("a % b\n%%\n%", "%", "a % b\n%%\n$|");
    check_text("a\nb\n\nc\n\n\nd\n", "", "a\nb\n$|c\n$|d\n$|");
    check_text("a\n\n%\n", NULL, "a\n\n%\n$|");
}

/* Pseudo-random documents of up to `largest` bytes. */
static haul_string make_text(int64_t documents, uint32_t largest) {
    haul_string text = {0};
    for (uint32_t d = 0; d < documents; d++) {
        haul_philox word =
            haul_philox_4x32((const uint32_t[]){d, 0}, (const uint32_t[]){0, 0, 0, 0});
        for (uint32_t i = 0; i < word.word[0] % largest; i++) {
            uint32_t letter = (word.word[1] + i * i) % 27;
            char byte = letter == 26 ? '\n' : (char)('a' + letter);
            haul_string_append(&text, &byte, 1);
        }
        haul_string_append_text(&text, "\n%\n");
    }
    assert_ok(haul_string_status(&text));
    return text;
}

static void expect_same_file(const char *a, const char *b) {
    haul_string left = {0}, right = {0};
    assert_ok(haul_file_read(a, &left));
    assert_ok(haul_file_read(b, &right));
    assert_int_equal(left.length, right.length);
    assert_memory_equal(left.data, right.data, (size_t)left.length);
    haul_string_deinit(&left);
    haul_string_deinit(&right);
}

static void the_output_does_not_depend_on_workers(void **state) {
    (void)state;
    const char *file = scratch(0, "in.txt");
    haul_string text = make_text(3000, 1200);
    haul_build_result result, again;
    assert_ok(haul_file_replace(file, text.data, text.length));
    haul_build_options options = options_of(&file, "%");
    options.holdout = 0.2;
    options.append_eod = true;
    assert_ok(haul_build(&options, &result));
    assert_true(result.documents[0] > 2200 && result.documents[1] > 450);
    assert_int_equal(result.text_bytes + result.documents[0] + result.documents[1],
                     result.tokens[0] + result.tokens[1]);
    for (int workers = 2; workers <= 5; workers += 3) {
        static const char *const names[] = {"_text_document.bin", "_text_document.idx",
                                            "_valid_text_document.bin", "_valid_text_document.idx"};
        options.output_prefix = scratch(3, "other");
        options.workers = workers;
        assert_ok(haul_build(&options, &again));
        assert_memory_equal(&result, &again, sizeof result);
        for (int i = 0; i < 4; i++) {
            char a[600], b[600];
            snprintf(a, sizeof a, "%s/out%s", haul_test_directory(), names[i]);
            snprintf(b, sizeof b, "%s/other%s", haul_test_directory(), names[i]);
            expect_same_file(a, b);
        }
    }
    haul_string_deinit(&text);
}

/* The documents of the two data sets, put back in order by the rule, are those of the text. */
static void held_out_documents_follow_the_seed(void **state) {
    (void)state;
    const char *file = scratch(0, "in.txt");
    haul_build_result result;
    haul_build_options options = options_of(&file, "%");
    write_text(file, "0\n%\n1\n%\n2\n%\n3\n%\n4\n%\n5\n%\n6\n%\n7\n%\n8\n%\n9\n");
    options.holdout = 0.5;
    options.seed = 11;
    assert_ok(haul_build(&options, &result));
    haul_string kept = read_documents(scratch(1, "out_text_document"));
    haul_string held = read_documents(scratch(2, "out_valid_text_document"));
    const char *next[2] = {kept.data, held.data};
    for (int64_t d = 0; d < 10; d++) {
        int side = haul_build_holds_out(11, d, 0.5);
        assert_int_equal(next[side][0], '0' + d);
        next[side] += 3;
    }
    haul_string_deinit(&kept);
    haul_string_deinit(&held);
    int64_t differ = 0, count = 0;
    for (int64_t d = 0; d < 10000; d++) {
        count += haul_build_holds_out(3, d, 0.05);
        differ += haul_build_holds_out(3, d, 0.05) != haul_build_holds_out(4, d, 0.05);
    }
    assert_in_range(count, 400, 600);
    assert_true(differ > 500);
}

/* One document of several chunks, by bytes (cut) and by BPE (whole). */
static void a_file_may_be_one_document(void **state) {
    (void)state;
    const char *file = scratch(0, "in.txt");
    char model[512];
    haul_tokenizer *bpe;
    haul_build_result result;
    haul_string text = make_text(1500, 1200);
    text.length = 3 * 256 * 1024; /* the last chunk ends with the file */
    assert_ok(haul_file_replace(file, text.data, text.length));
    haul_build_options options = options_of(&file, NULL);
    options.append_eod = true;
    options.workers = 3;
    assert_ok(haul_build(&options, &result));
    assert_int_equal(result.documents[0], 1);
    assert_int_equal(result.tokens[0], text.length + 1);
    haul_string read = read_documents(scratch(1, "out_text_document"));
    assert_memory_equal(read.data, text.data, (size_t)text.length);
    assert_string_equal(read.data + text.length, "$|");
    haul_string_deinit(&read);
    snprintf(model, sizeof model, "%s/data/tokenizer_gpt2.json", HAUL_TEST_DIR);
    assert_ok(haul_tokenizer_open("HuggingFaceTokenizer", model, 0, &bpe));
    options.tokenizer = bpe;
    assert_ok(haul_build(&options, &result));
    haul_token_list whole = {0};
    assert_ok(haul_tokenizer_encode(bpe, text.data, text.length, &whole));
    assert_int_equal(result.tokens[0], whole.count + 1);
    haul_token_list_deinit(&whole);
    haul_tokenizer_close(bpe);
    haul_string_deinit(&text);
}

/* A line is no separator because its first part was read before. */
static void lines_across_reads_are_whole(void **state) {
    (void)state;
    const char *file = scratch(0, "in.txt");
    haul_build_result result;
    haul_build_options options = options_of(&file, "%");
    for (int64_t before = 256 * 1024 - 3; before <= 256 * 1024 + 1; before++) {
        haul_string text = {0};
        for (int64_t i = 0; i < before; i++) {
            haul_string_append(&text, "a", 1);
        }
        haul_string_append_text(&text, "%\nstill the same\n");
        assert_ok(haul_file_replace(file, text.data, text.length));
        assert_ok(haul_build(&options, &result));
        assert_int_equal(result.documents[0], 1);
        haul_string_append_text(&text, "%\nnext\n");
        assert_ok(haul_file_replace(file, text.data, text.length));
        assert_ok(haul_build(&options, &result));
        assert_int_equal(result.documents[0], 2);
        assert_int_equal(result.text_bytes, text.length - 2);
        haul_string_deinit(&text);
    }
}

/* Files that are cut into chunks count as one document each. */
static void ordinals_count_documents_not_chunks(void **state) {
    (void)state;
    const char *files[12];
    char names[12][600];
    haul_build_result result;
    haul_string text = make_text(1500, 1200);
    int64_t held_out = 0;
    for (int i = 0; i < 12; i++) {
        snprintf(names[i], sizeof names[i], "%s/part%d.txt", haul_test_directory(), i);
        files[i] = names[i];
        assert_ok(haul_file_replace(files[i], text.data, i % 3 == 0 ? text.length : i));
        held_out += haul_build_holds_out(5, i, 0.4) * (i % 3 == 0 ? text.length : i);
    }
    haul_build_options options = options_of(files, NULL);
    options.input.file_count = 12;
    options.holdout = 0.4;
    options.seed = 5;
    assert_ok(haul_build(&options, &result));
    assert_int_equal(result.documents[0] + result.documents[1], 12);
    assert_true(held_out > 0);
    assert_int_equal(result.tokens[1], held_out);
    haul_string_deinit(&text);
}

static void write_gzip(const char *path, const char *text, int64_t bytes) {
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)bytes), bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

static void gzip_is_read_as_plain(void **state) {
    (void)state;
    const char *plain = scratch(0, "in.txt"), *packed = scratch(1, "in.txt.gz");
    haul_string text = make_text(2000, 900), bytes = {0};
    haul_build_result a, b;
    assert_ok(haul_file_replace(plain, text.data, text.length));
    write_gzip(packed, text.data, text.length);
    haul_build_options options = options_of(&plain, "%");
    assert_ok(haul_build(&options, &a));
    options.input.files = &packed;
    options.output_prefix = scratch(3, "other");
    assert_ok(haul_build(&options, &b));
    assert_memory_equal(&a, &b, sizeof a);
    expect_same_file(scratch(2, "out_text_document.bin"), scratch(3, "other_text_document.bin"));
    assert_ok(haul_file_read(packed, &bytes));
    assert_ok(haul_file_replace(packed, bytes.data, bytes.length / 2));
    haul_test_assert_fails(haul_build(&options, &b), HAUL_ERROR_DATA, "in.txt.gz");
    haul_string_deinit(&bytes);
    haul_string_deinit(&text);
}

static void json_members_become_data_sets(void **state) {
    (void)state;
    const char *file = scratch(0, "in.jsonl");
    haul_build_result result;
    haul_build_options options = options_of(&file, NULL);
    options.append_eod = true;
    write_text(file, "{\"text\": \"a\\nb\", \"id\": 1, \"title\": \"A\"}\n"
                     "\n"
                     "{\"title\": \"\\u00e9\", \"text\": \"\"}\n"
                     "{\"title\": \"C\", \"text\": \"x\\u0000y\"}");
    assert_ok(haul_build(&options, &result));
    assert_int_equal(result.documents[0], 3);
    haul_string text = read_documents(scratch(1, "out_text_document"));
    assert_int_equal(text.length, 11);
    assert_memory_equal(text.data, "a\nb$||x\0y$|", 11);
    haul_string_deinit(&text);
    options.input.json_keys = (const char *const[]){"title", "text"};
    options.input.json_key_count = 2;
    assert_ok(haul_build(&options, &result));
    assert_int_equal(result.documents[0], 6);
    text = read_documents(scratch(1, "out_title_document"));
    assert_string_equal(text.data, "A$|\xc3\xa9$|C$|");
    haul_string_deinit(&text);
}

/* The failure is that of the first bad line, for any number of workers. */
static void bad_json_names_its_line(void **state) {
    (void)state;
    const char *file = scratch(0, "in.jsonl");
    haul_build_result result;
    haul_build_options options = options_of(&file, NULL);
    haul_string text = {0};
    for (int i = 1; i <= 40000; i++) {
        haul_string_append_text(&text, i == 31234 || i > 39000 ? "{\"text\": \"some\n"
                                                               : "{\"text\": \"some text\"}\n");
    }
    assert_ok(haul_file_replace(file, text.data, text.length));
    for (options.workers = 1; options.workers <= 4; options.workers++) {
        haul_test_assert_fails(haul_build(&options, &result), HAUL_ERROR_DATA, "in.jsonl:31234:");
    }
    haul_string_deinit(&text);
    write_text(file, "{\"text\": 5}\n");
    haul_test_assert_fails(haul_build(&options, &result), HAUL_ERROR_DATA,
                           "in.jsonl:1: the member \"text\" is no string");
    write_text(file, "{\"text\": \"a\"}\n{\"tekst\": \"b\"}\n");
    haul_test_assert_fails(haul_build(&options, &result), HAUL_ERROR_DATA,
                           "in.jsonl:2: there is no member \"text\"");
    write_text(file, "[1]\n");
    haul_test_assert_fails(haul_build(&options, &result), HAUL_ERROR_DATA, "in.jsonl:1:");
    assert_false(haul_file_exists(scratch(1, "bad_text_document.idx")));
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    const char *files[] = {scratch(0, "in.txt"), scratch(1, "in.jsonl")};
    haul_build_result result;
    write_text(files[0], "text");
    write_text(files[1], "{\"text\": \"a\"}\n");
    haul_build_options options = options_of(files, NULL);
    options.input.file_count = 2;
    haul_test_assert_fails(haul_build(&options, &result), HAUL_ERROR_USAGE, "mixes text and JSONL");
    options.input.file_count = 0;
    haul_test_assert_fails(haul_build(&options, &result), HAUL_ERROR_USAGE, "no file");
    options.input.file_count = 1;
    options.workers = 0;
    haul_test_assert_fails(haul_build(&options, &result), HAUL_ERROR_USAGE, "--workers is 0");
    options.workers = 1;
    options.holdout = 1.5;
    haul_test_assert_fails(haul_build(&options, &result), HAUL_ERROR_USAGE, "--holdout is 1.5");
    options.holdout = 0;
    write_text(files[0], "");
    haul_test_assert_fails(haul_build(&options, &result), HAUL_ERROR_DATA, "no text");
    options.input.files = (const char *const[]){scratch(2, "absent.txt")};
    haul_test_assert_fails(haul_build(&options, &result), HAUL_ERROR_NO_INPUT, "absent.txt");
}

static void a_full_disk_leaves_no_data_set(void **state) {
    (void)state;
    const char *file = scratch(0, "in.txt");
    haul_build_result result;
    haul_build_options options = options_of(&file, "%");
    options.output_prefix = scratch(3, "full");
    write_text(file, "a\n%\nb\n");
    for (long nth = 1;; nth++) {
        haul_fault_arm(HAUL_FAULT_WRITE, nth, false);
        haul_status status = haul_build(&options, &result);
        haul_fault_arm(HAUL_FAULT_WRITE, 0, false);
        if (status == HAUL_OK) {
            assert_true(nth > 4);
            break;
        }
        assert_int_equal(status, HAUL_ERROR_IO);
        assert_non_null(strstr(haul_error_message(), "full_text_document"));
        assert_non_null(strstr(haul_error_hint(), "free some space"));
        assert_false(haul_file_exists(scratch(1, "full_text_document.idx")));
        assert_false(haul_file_exists(scratch(1, "full_text_document.bin")));
    }
}

typedef struct seen {
    int64_t done, total, calls;
} seen;

static void see(void *context, int64_t done, int64_t total) {
    seen *last = context;
    assert_true(done >= last->done && done <= total);
    *last = (seen){done, total, last->calls + 1};
}

static void progress_reaches_the_end(void **state) {
    (void)state;
    const char *file = scratch(0, "in.txt");
    haul_string text = make_text(3000, 1200);
    haul_build_result result;
    seen last = {0};
    assert_ok(haul_file_replace(file, text.data, text.length));
    haul_build_options options = options_of(&file, "%");
    options.progress = see;
    options.progress_context = &last;
    assert_ok(haul_build(&options, &result));
    assert_int_equal(last.done, text.length);
    assert_int_equal(last.total, text.length);
    assert_true(last.calls > 3);
    haul_string_deinit(&text);
}

static void inspect_shows_counts_and_text(void **state) {
    (void)state;
    const char *file = scratch(0, "in.txt");
    haul_build_result result;
    haul_string out = {0};
    haul_build_options options = options_of(&file, "%");
    options.append_eod = true;
    write_text(file, "first \"one\"\n%\nsecond \xff\n%\nthird\n");
    assert_ok(haul_build(&options, &result));
    assert_ok(haul_inspect(scratch(1, "out_text_document"), bytes_tokenizer, 2, &out));
    assert_non_null(strstr(out.data, "documents  3\n"));
    assert_non_null(strstr(out.data, "tokens     30, u16 each, 60 B\n"));
    assert_non_null(strstr(out.data, "7 tokens the shortest, 10.0 the mean, 13 the longest"));
    assert_non_null(strstr(out.data, "0   \"first \\\"one\\\"\\n<|endoftext|>\"\n"));
    assert_non_null(strstr(out.data, "1   \"second \xef\xbf\xbd\\n<|endoftext|>\"\n"));
    assert_null(strstr(out.data, "third"));
    haul_string_clear(&out);
    assert_ok(haul_inspect(scratch(1, "out_text_document"), NULL, 1, &out));
    assert_non_null(strstr(out.data, "0   102 105 114 115 116"));
    haul_string_deinit(&out);
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
        cmocka_unit_test(separators_cut_text),
        cmocka_unit_test(the_output_does_not_depend_on_workers),
        cmocka_unit_test(held_out_documents_follow_the_seed),
        cmocka_unit_test(a_file_may_be_one_document),
        cmocka_unit_test(lines_across_reads_are_whole),
        cmocka_unit_test(ordinals_count_documents_not_chunks),
        cmocka_unit_test(gzip_is_read_as_plain),
        cmocka_unit_test(json_members_become_data_sets),
        cmocka_unit_test(bad_json_names_its_line),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(a_full_disk_leaves_no_data_set),
        cmocka_unit_test(progress_reaches_the_end),
        cmocka_unit_test(inspect_shows_counts_and_text),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
