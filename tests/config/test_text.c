/* The texts made from the tables. `config-text --update` writes docs/commands.md anew. */
#include "testing.h"

#include "base/file.h"
#include "config/presets.h"
#include "config/text.h"

#include <stdio.h>
#include <string.h>

#define COMMANDS_PAGE HAUL_TEST_DIR "/../docs/commands.md"

static void test_commands_page_is_current(void **state) {
    (void)state;
    haul_string made = {0}, committed = {0};
    assert_ok(haul_text_markdown(&made));
    assert_ok(haul_file_read(COMMANDS_PAGE, &committed));
    if (strcmp(made.data, committed.data) != 0) {
        fail_msg("docs/commands.md is not that of the flag table; run config-text --update");
    }
    haul_string_deinit(&made);
    haul_string_deinit(&committed);
}

static void lines_fit(const char *text, size_t width) {
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        bool example = strncmp(text, "  haul ", 7) == 0 || strncmp(text, "Usage:", 6) == 0;
        if (length > width && !example) {
            fail_msg("longer than %zu: %.*s", width, (int)length, text);
        }
        assert_true(length == 0 || text[length - 1] != ' ');
        text += length + (text[length] == '\n');
    }
}

static void test_help_names_every_flag(void **state) {
    (void)state;
    for (int i = 0; i < HAUL_COMMANDS; i++) {
        haul_string help = {0};
        assert_ok(haul_text_help((haul_command)i, &help));
        lines_fit(help.data, 80);
        for (int64_t f = 0; f < haul_flag_count(); f++) {
            char line[100];
            snprintf(line, sizeof line, "\n  --%s", haul_flag_at(f)->name);
            bool belongs = (haul_flag_at(f)->commands & HAUL_COMMAND_BIT(i)) != 0;
            assert_true(!belongs || strstr(help.data, line) != NULL);
        }
        haul_string_deinit(&help);
    }
    haul_string help = {0};
    assert_ok(haul_text_help(HAUL_COMMAND_TRAIN, &help));
    assert_non_null(strstr(help.data,
                           "\n  --lr-decay-style WORD       how the learning rate falls; "
                           "one of constant,\n"));
    assert_non_null(strstr(help.data, "(default adam)"));
    assert_non_null(strstr(help.data, "\n  quickstart "));
    haul_string_deinit(&help);
}

static void test_overview(void **state) {
    (void)state;
    haul_string text = {0};
    assert_ok(haul_text_overview(&text));
    lines_fit(text.data, 80);
    for (int i = 0; i < HAUL_COMMANDS; i++) {
        assert_non_null(strstr(text.data, haul_command_at((haul_command)i)->summary));
    }
    haul_string_deinit(&text);
}

static void test_manual_pages(void **state) {
    (void)state;
    haul_string page = {0};
    assert_ok(haul_text_manual(HAUL_COMMAND_DATA_BUILD, &page));
    assert_int_equal(strncmp(page.data, ".TH \"haul-data-build\" 1", 23), 0);
    assert_non_null(strstr(page.data, "\nhaul-data-build \\- turn text into"));
    assert_non_null(strstr(page.data, "\n.B \\-\\-output\\-prefix PREFIX\nwhere to write"));
    assert_non_null(strstr(page.data, "\n.B 64\na flag is unknown"));
    haul_string_deinit(&page);
}

static void test_completions(void **state) {
    (void)state;
    haul_string script = {0};
    assert_ok(haul_text_completion("bash", &script));
    assert_non_null(strstr(script.data,
                           "\"\"*) offered=\"train eval generate data checkpoint bench "
                           "report doctor help completion\""));
    assert_non_null(strstr(script.data, "\"data \"*) offered=\"build inspect tokenizer\""));
    assert_non_null(strstr(script.data, "--device) offered=\"cpu cuda auto ref meta\""));
    assert_non_null(strstr(script.data, "--preset) offered=\"tiny "));
    haul_string_clear(&script);
    assert_ok(haul_text_completion("zsh", &script));
    assert_int_equal(strncmp(script.data, "#compdef haul\n", 14), 0);
    haul_test_assert_fails(haul_text_completion("fish", &script), HAUL_ERROR_USAGE, "\"fish\"");
    haul_string_deinit(&script);
}

static int update(void) {
    haul_string made = {0};
    haul_status status = haul_text_markdown(&made);
    if (status == HAUL_OK) {
        status = haul_file_replace(COMMANDS_PAGE, made.data, made.length);
    }
    haul_string_deinit(&made);
    return status;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--update") == 0) {
        return update();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands_page_is_current),
        cmocka_unit_test(test_help_names_every_flag),
        cmocka_unit_test(test_overview),
        cmocka_unit_test(test_manual_pages),
        cmocka_unit_test(test_completions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
