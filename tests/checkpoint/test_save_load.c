#include "fixture.h"

#include "checkpoint/manifest.h"
#include "checkpoint/retain.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_round_trip(void **state) {
    (void)state;
    char save[FIXTURE_PATH], path[FIXTURE_PATH];
    haul_checkpoint *checkpoint = NULL;
    fixture_directory(save, "round/trip");
    assert_ok(fixture_save(save, 1200, 0));
    fixture_path(path, save, "iter_0001200");
    /* The save directory, the checkpoint itself, and the checkpoint under another name. */
    char copy[FIXTURE_PATH];
    const char *places[] = {save, path, fixture_directory(copy, "copied/")};
    for (int i = 0; i < 3; i++) {
        if (i == 2) {
            assert_ok(haul_file_rename(path, copy));
        }
        assert_ok(haul_checkpoint_find(places[i], -1, &checkpoint, NULL));
        assert_int_equal(haul_checkpoint_iteration(checkpoint), 1200);
        assert_int_equal(haul_checkpoint_count(checkpoint), FIXTURE_TENSORS);
        assert_string_equal(haul_checkpoint_at(checkpoint, 0)->name, "counters");
        assert_string_equal(haul_checkpoint_state_json(checkpoint),
                            "{\"samples\":9007199254740993}");
        assert_string_equal(haul_checkpoint_config_json(checkpoint), "{\"hidden_size\": 5}");
        assert_int_equal(haul_checkpoint_get(checkpoint, "empty")->shape[1], 4);
        assert_null(haul_checkpoint_get(checkpoint, "layers"));
        fixture_check(checkpoint);
        haul_checkpoint_close(checkpoint);
    }
}

static void test_layout_on_disk(void **state) {
    (void)state;
    char save[FIXTURE_PATH], path[FIXTURE_PATH];
    haul_string text = {0};
    fixture_directory(save, "layout");
    assert_ok(fixture_save(save, 7, 0));
    static const char *const names[] = {"COMMIT", "config.json", "manifest.json",
                                        "shard_00000.safetensors", "shard_00003.safetensors"};
    fixture_path(path, save, "iter_0000007");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(fixture_exists(path, names[i]));
    }
    assert_false(fixture_exists(path, "shard_00004.safetensors"));
    assert_ok(haul_file_read(fixture_path(path, save, HAUL_CHECKPOINT_HINT), &text));
    assert_string_equal(text.data, "7");
    haul_string_deinit(&text);
    struct stat info;
    assert_int_equal(stat(fixture_path(path, save, "iter_0000007/COMMIT"), &info), 0);
    assert_int_equal(info.st_size, 32);
}

static void count_progress(void *context, int64_t done, int64_t total) {
    int64_t *last = context;
    assert_true(done > *last && done <= total);
    *last = done;
}

static void test_progress_ends_at_the_total(void **state) {
    (void)state;
    char save[FIXTURE_PATH];
    fixture run;
    int64_t last = 0, total = 0;
    fixture_directory(save, "progress");
    haul_checkpoint_request request = fixture_request(&run, save, 1);
    request.progress = count_progress;
    request.context = &last;
    request.shard_bytes = 0;
    request.state_json = NULL;
    request.config_json = NULL;
    assert_ok(haul_checkpoint_save(&request));
    for (int t = 0; t < FIXTURE_TENSORS; t++) {
        total += fixture_bytes(&run.tensors[t]);
    }
    assert_int_equal(last, total);
    haul_checkpoint *checkpoint = NULL;
    assert_ok(haul_checkpoint_find(save, 1, &checkpoint, NULL));
    assert_null(haul_checkpoint_config_json(checkpoint));
    assert_string_equal(haul_checkpoint_state_json(checkpoint), "{}");
    haul_checkpoint_close(checkpoint);
    char second[FIXTURE_PATH];
    assert_false(
        fixture_exists(fixture_path(second, save, "iter_0000001"), "shard_00001.safetensors"));
}

static void test_reads_refuse_another_model(void **state) {
    (void)state;
    char save[FIXTURE_PATH];
    fixture run;
    haul_checkpoint *checkpoint = NULL;
    fixture_directory(save, "model");
    assert_ok(fixture_save(save, 1, 0));
    assert_ok(haul_checkpoint_find(save, -1, &checkpoint, NULL));
    fixture_init(&run, 2);
    run.tensors[0].shape[1] = 6;
    haul_test_assert_fails(haul_checkpoint_read(checkpoint, &run.tensors[0]), HAUL_ERROR_CONFIG,
                           "tensor embedding.word.weight is bf16 [16, 5], must be bf16 [16, 6]");
    run.tensors[1].dtype = HAUL_BF16;
    haul_test_assert_fails(haul_checkpoint_read(checkpoint, &run.tensors[1]), HAUL_ERROR_CONFIG,
                           "layers.0.norm.weight is f32 [5], must be bf16 [5]");
    run.tensors[2].name = "layers.1.norm.weight";
    haul_test_assert_fails(haul_checkpoint_read(checkpoint, &run.tensors[2]), HAUL_ERROR_CONFIG,
                           "has no tensor layers.1.norm.weight (f32 [2, 3, 1, 5])");
    assert_non_null(strstr(haul_error_hint(), "config.json"));
    haul_checkpoint_close(checkpoint);
}

static void test_save_refuses_what_it_cannot_keep(void **state) {
    (void)state;
    char save[FIXTURE_PATH];
    fixture run;
    fixture_directory(save, "refuse");
    haul_checkpoint_request request = fixture_request(&run, save, 1);
    request.state_json = "[1]";
    haul_test_assert_fails(haul_checkpoint_save(&request), HAUL_ERROR_INTERNAL, "state to save");
    request.state_json = "{\"a\": }";
    haul_test_assert_fails(haul_checkpoint_save(&request), HAUL_ERROR_INTERNAL, "state to save");
    request.state_json = NULL;
    run.tensors[1].shape[0] = (int64_t)1 << 50;
    haul_test_assert_fails(haul_checkpoint_save(&request), HAUL_ERROR_IO, "not enough space");
    assert_non_null(strstr(haul_error_hint(), "free some space"));
    haul_checkpoint *checkpoint = NULL;
    haul_test_assert_fails(haul_checkpoint_find(save, -1, &checkpoint, NULL), HAUL_ERROR_NO_INPUT,
                           "holds no checkpoint");
}

static void test_absent_directory(void **state) {
    (void)state;
    char save[FIXTURE_PATH];
    haul_checkpoint *checkpoint = NULL;
    fixture_directory(save, "absent");
    haul_test_assert_fails(haul_checkpoint_find(save, -1, &checkpoint, NULL), HAUL_ERROR_NO_INPUT,
                           "does not exist");
    assert_ok(fixture_save(save, 5, 0));
    haul_test_assert_fails(haul_checkpoint_find(save, 6, &checkpoint, NULL), HAUL_ERROR_NO_INPUT,
                           "holds no checkpoint of iteration 6");
}

/* One way to damage a checkpoint, and the reason that must be given for passing it over. */
static const struct damage {
    const char *file;
    int64_t flip;     /* the bit to flip, or -1 */
    int64_t truncate; /* the new size, or -1; both -1: the file goes */
    const char *reason;
} damages[] = {
    {"COMMIT", -1, -1, "no COMMIT"},
    {"COMMIT", -1, 31, "COMMIT is damaged"},
    {"COMMIT", -1, 0, "COMMIT is damaged"},
    {"COMMIT", 3, -1, "COMMIT is damaged"},
    {"COMMIT", 64, -1, "iteration differs"},
    {"COMMIT", 255, -1, "manifest.json is damaged"},
    {"manifest.json", 1000, -1, "manifest.json is damaged"},
    {"manifest.json", -1, 100, "manifest.json is damaged"},
    {"manifest.json", -1, 0, "manifest.json is damaged"},
    {"manifest.json", -1, -1, "manifest.json"},
    {"config.json", 9, -1, "config.json is damaged"},
    {"config.json", -1, -1, "config.json is missing"},
    {"shard_00000.safetensors", 5, -1, "shard_00000.safetensors is damaged"},
    {"shard_00001.safetensors", 2400, -1, "shard_00001.safetensors is damaged"},
    {"shard_00002.safetensors", -1, 60, "shard_00002.safetensors is 60 bytes, must be"},
    {"shard_00002.safetensors", -1, -1, "shard_00002.safetensors is missing"},
};

static void apply_damage(const char *checkpoint, const struct damage *damage) {
    char path[FIXTURE_PATH];
    fixture_path(path, checkpoint, damage->file);
    if (damage->flip >= 0) {
        haul_string bytes = {0};
        assert_ok(haul_file_read(path, &bytes));
        assert_true(damage->flip / 8 < bytes.length);
        bytes.data[damage->flip / 8] ^= (char)(1 << damage->flip % 8);
        fixture_put(path, bytes.data, bytes.length);
        haul_string_deinit(&bytes);
    } else if (damage->truncate >= 0) {
        assert_int_equal(truncate(path, damage->truncate), 0);
    } else {
        assert_int_equal(unlink(path), 0);
    }
}

static void test_falls_back_over_damage(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        char save[FIXTURE_PATH], name[32], newest[FIXTURE_PATH], older[FIXTURE_PATH];
        haul_checkpoint *checkpoint = NULL;
        haul_string rejected = {0};
        snprintf(name, sizeof name, "damage%zu", i);
        fixture_directory(save, name);
        fixture_path(newest, save, "iter_0000020");
        fixture_path(older, save, "iter_0000010");
        assert_ok(fixture_save(save, 10, 0));
        assert_ok(fixture_save(save, 20, 0));
        apply_damage(newest, &damages[i]);
        assert_ok(haul_checkpoint_find(save, -1, &checkpoint, &rejected));
        assert_int_equal(haul_checkpoint_iteration(checkpoint), 10);
        fixture_check(checkpoint);
        haul_checkpoint_close(checkpoint);
        assert_non_null(strstr(rejected.data, damages[i].reason));
        haul_test_assert_fails(haul_checkpoint_find(save, 20, &checkpoint, NULL), HAUL_ERROR_DATA,
                               damages[i].reason);
        apply_damage(older, &damages[i]);
        haul_test_assert_fails(haul_checkpoint_find(save, -1, &checkpoint, NULL), HAUL_ERROR_DATA,
                               "none of the 2 checkpoints");
        haul_string_deinit(&rejected);
    }
}

/* Open trusts the sizes; the first tensor that is read from a damaged shard tells. */
static void test_read_checks_the_shard(void **state) {
    (void)state;
    char save[FIXTURE_PATH], path[FIXTURE_PATH];
    fixture run;
    haul_checkpoint *checkpoint = NULL;
    fixture_directory(save, "lazy");
    assert_ok(fixture_save(save, 1, 0));
    fixture_path(path, save, "iter_0000001");
    apply_damage(path, &damages[13]);
    assert_ok(haul_checkpoint_open(path, &checkpoint));
    fixture_init(&run, 2);
    assert_ok(haul_checkpoint_read(checkpoint, &run.tensors[3]));
    haul_test_assert_fails(haul_checkpoint_read(checkpoint, &run.tensors[2]), HAUL_ERROR_DATA,
                           "shard_00001.safetensors is damaged");
    haul_checkpoint_close(checkpoint);
}

static void test_foreign_directories(void **state) {
    (void)state;
    char save[FIXTURE_PATH], path[FIXTURE_PATH];
    haul_checkpoint *checkpoint = NULL;
    fixture_directory(save, "foreign");
    assert_ok(haul_directory_create(fixture_path(path, save, "iter_0000500/mp_rank_00")));
    fixture_put(fixture_path(path, save, "iter_0000500/mp_rank_00/model_optim_rng.pt"), "PK", 2);
    fixture_put(fixture_path(path, save, HAUL_CHECKPOINT_HINT), "500", 3);
    haul_test_assert_fails(haul_checkpoint_find(save, -1, &checkpoint, NULL), HAUL_ERROR_DATA,
                           "no COMMIT file: not a haul checkpoint");
    haul_test_assert_fails(fixture_save(save, 500, 1), HAUL_ERROR_CREATE,
                           "exists and is no haul checkpoint");
    assert_ok(fixture_save(save, 600, 1));
    assert_ok(fixture_save(save, 700, 1));
    assert_true(fixture_exists(save, "iter_0000500/mp_rank_00/model_optim_rng.pt"));
    assert_int_equal(fixture_newest(save), 700);
}

static void test_replaces_the_same_iteration(void **state) {
    (void)state;
    char save[FIXTURE_PATH], path[FIXTURE_PATH];
    fixture run;
    fixture_directory(save, "replace");
    assert_ok(fixture_save(save, 3, 0));
    haul_checkpoint_request request = fixture_request(&run, save, 3);
    request.state_json = "{\"second\": true}";
    assert_ok(haul_checkpoint_save(&request));
    haul_checkpoint *checkpoint = NULL;
    assert_ok(haul_checkpoint_find(save, -1, &checkpoint, NULL));
    assert_string_equal(haul_checkpoint_state_json(checkpoint), "{\"second\":true}");
    haul_checkpoint_close(checkpoint);
    assert_false(fixture_exists(save, "iter_0000003.old"));
    /* A job killed between the two renames: found as it is, put back by the next lock. */
    char old[FIXTURE_PATH];
    fixture_path(path, save, "iter_0000003");
    assert_ok(haul_file_rename(path, fixture_path(old, save, "iter_0000003.old")));
    assert_int_equal(fixture_newest(save), 3);
    haul_checkpoint_writer *writer = NULL;
    assert_ok(haul_checkpoint_lock(save, &writer));
    assert_true(fixture_exists(save, "iter_0000003"));
    assert_false(fixture_exists(save, "iter_0000003.old"));
    assert_int_equal(fixture_newest(save), 3);
    haul_checkpoint_unlock(writer);
}

static void assert_present(const char *save, const char *present, const char *absent) {
    char name[32];
    for (int i = 1; i <= 9; i++) {
        snprintf(name, sizeof name, "iter_%07d", i);
        if (strchr(present, '0' + i) != NULL) {
            assert_true(fixture_exists(save, name));
        }
        if (strchr(absent, '0' + i) != NULL) {
            assert_false(fixture_exists(save, name));
        }
    }
}

static void test_retention(void **state) {
    (void)state;
    char save[FIXTURE_PATH], path[FIXTURE_PATH];
    fixture_directory(save, "retain");
    for (int i = 1; i <= 4; i++) {
        assert_ok(fixture_save(save, i, 2));
    }
    assert_present(save, "34", "12");
    /* A damaged one does not count, and stays to be looked at. */
    apply_damage(fixture_path(path, save, "iter_0000004"), &damages[14]);
    assert_ok(fixture_save(save, 5, 2));
    assert_present(save, "345", "");
    assert_ok(fixture_save(save, 6, 2));
    assert_present(save, "456", "3");
    /* An earlier iteration after going back: later ones are not its business. */
    assert_ok(fixture_save(save, 2, 1));
    assert_present(save, "2456", "");
    assert_ok(fixture_save(save, 7, 1));
    assert_present(save, "47", "256");
    assert_int_equal(fixture_newest(save), 7);
}

/* What was just saved must read back before an older one may go. */
static void test_retention_reads_back_first(void **state) {
    (void)state;
    char save[FIXTURE_PATH], path[FIXTURE_PATH];
    fixture_directory(save, "read-back");
    assert_ok(fixture_save(save, 1, 0));
    assert_ok(fixture_save(save, 2, 0));
    apply_damage(fixture_path(path, save, "iter_0000002"), &damages[13]);
    haul_test_assert_fails(haul_checkpoint_retain(save, 2, 1), HAUL_ERROR_DATA,
                           "shard_00001.safetensors is damaged");
    assert_present(save, "12", "");
    apply_damage(path, &damages[14]);
    assert_ok(haul_checkpoint_retain(save, 2, 1));
    assert_present(save, "12", "");
    assert_int_equal(fixture_newest(save), 1);
}

static void test_list_verify_show(void **state) {
    (void)state;
    char save[FIXTURE_PATH], path[FIXTURE_PATH];
    haul_string text = {0};
    fixture_directory(save, "list");
    assert_ok(fixture_save(save, 10, 0));
    assert_ok(fixture_save(save, 20, 0));
    assert_ok(haul_checkpoint_verify(save, &text));
    assert_non_null(strstr(text.data, "every byte read"));
    apply_damage(fixture_path(path, save, "iter_0000020"), &damages[13]);
    haul_string_clear(&text);
    assert_ok(haul_checkpoint_list(save, &text));
    const char *newer = strstr(text.data, "20 "), *older = strstr(text.data, "10 ");
    assert_true(newer != NULL && older != NULL && newer < older);
    assert_null(strstr(text.data, "damaged"));
    haul_string_clear(&text);
    haul_test_assert_fails(haul_checkpoint_verify(save, &text), HAUL_ERROR_DATA,
                           "1 of 2 checkpoints");
    assert_non_null(strstr(text.data, "shard_00001.safetensors is damaged"));
    haul_checkpoint_summary *summaries = NULL;
    int64_t count = 0;
    assert_ok(haul_checkpoint_scan(save, true, &summaries, &count));
    assert_int_equal(count, 2);
    assert_false(summaries[0].good);
    assert_true(summaries[1].good);
    assert_int_equal(summaries[1].iteration, 10);
    assert_int_equal(summaries[1].tensors, FIXTURE_TENSORS);
    assert_int_equal(summaries[1].elements, 16 * 5 + 5 + 30 + 1 + 3);
    free(summaries);
    haul_string_clear(&text);
    assert_ok(haul_checkpoint_show(save, -1, &text));
    assert_non_null(strstr(text.data, "bf16 [16, 5]"));
    assert_non_null(strstr(text.data, "{\"samples\":9007199254740993}"));
    haul_string_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_layout_on_disk),
        cmocka_unit_test(test_progress_ends_at_the_total),
        cmocka_unit_test(test_reads_refuse_another_model),
        cmocka_unit_test(test_save_refuses_what_it_cannot_keep),
        cmocka_unit_test(test_absent_directory),
        cmocka_unit_test(test_falls_back_over_damage),
        cmocka_unit_test(test_read_checks_the_shard),
        cmocka_unit_test(test_foreign_directories),
        cmocka_unit_test(test_replaces_the_same_iteration),
        cmocka_unit_test(test_retention),
        cmocka_unit_test(test_retention_reads_back_first),
        cmocka_unit_test(test_list_verify_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
