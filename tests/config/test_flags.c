/* ctest: unit golden */
#include "testing.h"

#include "config/flags.h"
#include "config/megatron_flags.h"
#include "config/number.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t field_bytes(const haul_flag *flag) {
    switch (flag->kind->type) {
    case HAUL_FLAG_BOOL:
        return sizeof(bool);
    case HAUL_FLAG_CHOICE:
        return sizeof(haul_device_kind);
    case HAUL_FLAG_LIST:
        return sizeof(haul_text_list);
    case HAUL_FLAG_INT:
    case HAUL_FLAG_FLOAT:
    case HAUL_FLAG_TEXT:
        break;
    }
    return 8;
}

/* Every name is one flag, every field one flag's, and no field is without a flag. */
static void test_table_covers_the_struct(void **state) {
    (void)state;
    static char owner[sizeof(haul_config)];
    for (int64_t i = 0; i < haul_flag_count(); i++) {
        const haul_flag *flag = haul_flag_at(i);
        assert_int_equal(haul_flag_find(flag->name), i);
        for (int64_t byte = 0; byte < field_bytes(flag); byte++) {
            size_t at = flag->offset + (size_t)byte;
            assert_true(at < offsetof(haul_config, arguments));
            assert_int_equal(owner[at], 0);
            owner[at] = 1;
        }
    }
    int64_t gap = 0;
    for (size_t at = 0; at < offsetof(haul_config, arguments); at++) {
        gap = owner[at] ? 0 : gap + 1;
        assert_true(gap < 8);
    }
}

static void test_help_texts(void **state) {
    (void)state;
    for (int64_t i = 0; i < haul_flag_count(); i++) {
        const haul_flag *flag = haul_flag_at(i);
        assert_true(strlen(flag->help) > 5);
        assert_int_not_equal(flag->help[strlen(flag->help) - 1], '.');
        bool text = flag->kind->type == HAUL_FLAG_TEXT || flag->kind->type == HAUL_FLAG_LIST;
        assert_true(text == (flag->kind->value != NULL));
        assert_true((flag->kind->type == HAUL_FLAG_CHOICE) == (flag->kind->choices[0] != NULL));
    }
    for (int i = 0; i < HAUL_COMMANDS; i++) {
        const haul_command_info *info = haul_command_at((haul_command)i);
        assert_non_null(info->examples[0]);
        assert_true((info->operand != NULL) == (info->operands_max > 0));
        for (int r = 0; info->required[r] != NULL; r++) {
            int64_t flag = haul_flag_find(info->required[r]);
            assert_true(flag >= 0 && (haul_flag_at(flag)->commands & HAUL_COMMAND_BIT(i)) != 0);
        }
    }
}

static void test_spellings(void **state) {
    (void)state;
    assert_int_equal(haul_flag_find("num_layers"), haul_flag_find("num-layers"));
    assert_int_equal(haul_flag_find("persistent-save-interval"), haul_flag_find("save-interval"));
    assert_int_equal(haul_flag_find("num-layer"), -1);
    assert_int_equal(haul_flag_find(""), -1);
    assert_true(haul_megatron_flag_find("tensor-model-parallel-size") != HAUL_MEGATRON_UNKNOWN);
    assert_true(haul_megatron_flag_find("tensor_model_parallel_size") != HAUL_MEGATRON_UNKNOWN);
    assert_true(haul_megatron_flag_find("override-opt_param-scheduler") != HAUL_MEGATRON_UNKNOWN);
    assert_true(haul_megatron_flag_find("no-fp8-wgrad") != HAUL_MEGATRON_UNKNOWN);
    assert_false(haul_megatron_flag_find("tensor-model-parallel") != HAUL_MEGATRON_UNKNOWN);
    assert_false(haul_megatron_flag_find("parallel-size") != HAUL_MEGATRON_UNKNOWN);
    assert_false(haul_megatron_flag_find("") != HAUL_MEGATRON_UNKNOWN);
}

static void test_commands(void **state) {
    (void)state;
    haul_command command;
    int words;
    const char *const build[] = {"data", "build", "--input"};
    assert_ok(haul_command_find(3, build, &command, &words));
    assert_int_equal(command, HAUL_COMMAND_DATA_BUILD);
    assert_int_equal(words, 2);
    const char *const tokenizer[] = {"data", "tokenizer", "train"};
    assert_ok(haul_command_find(3, tokenizer, &command, &words));
    assert_int_equal(command, HAUL_COMMAND_DATA_TOKENIZER_TRAIN);
    const char *const wrong[] = {"trian"};
    haul_test_assert_fails(haul_command_find(1, wrong, &command, &words), HAUL_ERROR_USAGE,
                           "\"trian\" is not a command");
    assert_string_equal(haul_error_hint(), "did you mean haul train?");
    const char *const half[] = {"data", "biuld"};
    haul_test_assert_fails(haul_command_find(2, half, &command, &words), HAUL_ERROR_USAGE,
                           "\"data biuld\" is not");
    assert_string_equal(haul_error_hint(), "did you mean haul data build?");
    const char *const alone[] = {"checkpoint"};
    haul_test_assert_fails(haul_command_find(1, alone, &command, &words), HAUL_ERROR_USAGE, "");
    assert_string_equal(haul_error_hint(), "did you mean haul checkpoint list?");
    haul_test_assert_fails(haul_command_find(0, NULL, &command, &words), HAUL_ERROR_USAGE,
                           "missing");
}

/* What Megatron-LM writes as None is the field's zero here. */
static void check_default(const haul_config *config, const char *name, const char *value) {
    const haul_flag *flag = haul_flag_at(haul_flag_find(name));
    const char *field = (const char *)config + flag->offset;
    bool none = strcmp(value, "None") == 0;
    double number;
    int choice;
    switch (flag->kind->type) {
    case HAUL_FLAG_BOOL:
        assert_string_equal(*(const bool *)field ? "True" : "False", value);
        break;
    case HAUL_FLAG_INT:
        assert_int_equal(*(const int64_t *)field, none ? 0 : atoll(value));
        break;
    case HAUL_FLAG_FLOAT:
        number = none ? 0 : strtod(value, NULL);
        assert_true(*(const double *)field <= number && *(const double *)field >= number);
        break;
    case HAUL_FLAG_CHOICE:
        memcpy(&choice, field, sizeof choice);
        assert_true(choice == 0 || !none);
        assert_string_equal(none ? "None" : flag->kind->choices[choice], value);
        break;
    case HAUL_FLAG_TEXT:
        assert_true(none && *(const char *const *)field == NULL);
        break;
    case HAUL_FLAG_LIST:
        assert_true(none && ((const haul_text_list *)field)->count == 0);
        break;
    }
}

static void test_defaults_are_those_of_megatron(void **state) {
    (void)state;
    haul_string text = {0};
    assert_ok(haul_file_read(HAUL_TEST_DIR "/config/megatron_defaults.tsv", &text));
    haul_config config;
    assert_ok(haul_config_init(&config));
    int rows = 0;
    char *rest = text.data;
    for (char *line = strtok_r(rest, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char name[100], type[20], value[100];
        assert_int_equal(sscanf(line, "%99s %19s %99s", name, type, value), 3);
        assert_true(haul_megatron_flag_find(name) != HAUL_MEGATRON_UNKNOWN);
        check_default(&config, name, value);
        rows++;
    }
    assert_true(rows > 60);
    haul_config_deinit(&config);
    haul_string_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_covers_the_struct),
        cmocka_unit_test(test_help_texts),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_defaults_are_those_of_megatron),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
