#include "base/file.h"
#include "base/progress.h"
#include "base/table.h"
#include "cli/bench.h"
#include "config/presets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shown {
    haul_bench_launches launches;
    double product; /* FLOP/s and bytes/s of this run */
    double copy;
} shown;

static bool is_counted_in_flops(haul_op op) {
    return op == HAUL_OP_MATMUL || op == HAUL_OP_ATTENTION || op == HAUL_OP_ATTENTION_BACKWARD;
}

static double seconds_a_step(const haul_bench_launch *launch) {
    return (double)launch->count * launch->seconds;
}

/* What a launch reaches, of what was measured in the same run. */
static double share(const shown *s, const haul_bench_launch *launch) {
    return is_counted_in_flops(launch->op)
               ? (double)launch->cost.flops / launch->seconds / s->product
               : (double)launch->cost.bytes / launch->seconds / s->copy;
}

static int longest_first(const void *a, const void *b) {
    double x = seconds_a_step(a), y = seconds_a_step(b);
    return (x < y) - (x > y);
}

static haul_status measure(const haul_cli *cli, haul_session *session, shown *s) {
    haul_dtype dtype = session->chunk.numerics.activation;
    haul_bench_timer timer;
    haul_progress progress;
    haul_status status = haul_bench_timer_init(&timer, &session->device);
    if (status == HAUL_OK) {
        status = haul_bench_collect(session, &s->launches);
    }
    if (status == HAUL_OK) {
        status = haul_bench_product_ceiling(&timer, dtype, &s->product);
    }
    if (status == HAUL_OK) {
        status = haul_bench_copy_ceiling(&timer, dtype, &s->copy);
    }
    haul_progress_begin(&progress, cli->live ? stderr : NULL, "measuring", "ops",
                        s->launches.count);
    for (int64_t i = 0; i < s->launches.count && status == HAUL_OK; i++) {
        status = haul_bench_time(&timer, &s->launches.items[i], 0);
        haul_progress_update(&progress, i + 1);
    }
    haul_progress_end(&progress);
    haul_bench_timer_deinit(&timer);
    return status;
}

static void add_row(haul_table *table, const shown *s, const haul_bench_launch *launch) {
    bool flops = is_counted_in_flops(launch->op);
    double amount = (double)(flops ? launch->cost.flops : launch->cost.bytes);
    haul_table_cell(table, "%s", haul_op_name(launch->op));
    haul_table_cell(table, "%s", launch->shape);
    haul_table_cell(table, "%lld", (long long)launch->count);
    haul_table_cell(table, "%.2f", 1e6 * launch->seconds);
    haul_table_cell(table, "%.3f", 1e3 * seconds_a_step(launch));
    haul_table_cell(table, flops ? "%.4g TFLOP/s" : "%.4g GB/s",
                    amount / launch->seconds / (flops ? 1e12 : 1e9));
    haul_table_cell(table, "%.0f %%", 100 * share(s, launch));
}

static haul_status print(const shown *s) {
    static const haul_table_column columns[] = {
        {"op", HAUL_ALIGN_LEFT},         {"shape", HAUL_ALIGN_LEFT},
        {"a step", HAUL_ALIGN_RIGHT},    {"us", HAUL_ALIGN_RIGHT},
        {"ms a step", HAUL_ALIGN_RIGHT}, {"speed", HAUL_ALIGN_RIGHT},
        {"of ceiling", HAUL_ALIGN_RIGHT}};
    haul_table table;
    haul_string text = {0};
    double sum = 0;
    haul_table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (int64_t i = 0; i < s->launches.count; i++) {
        add_row(&table, s, &s->launches.items[i]);
        sum += seconds_a_step(&s->launches.items[i]);
    }
    printf("ceilings of this run: a large product %.4g TFLOP/s, a large copy %.4g GB/s\n\n",
           s->product / 1e12, s->copy / 1e9);
    haul_status status = haul_table_render(&table, &text);
    if (status == HAUL_OK) {
        haul_cli_print(&text);
        printf("\nall launches of a step, each alone: %.3f ms\n", 1e3 * sum);
    }
    haul_string_deinit(&text);
    haul_table_deinit(&table);
    return status;
}

static json_t *to_json(const haul_cli *cli, const haul_session *session, const shown *s) {
    json_t *root = haul_bench_describe(cli, session), *list = json_array();
    for (int64_t i = 0; i < s->launches.count; i++) {
        const haul_bench_launch *launch = &s->launches.items[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:I, s:f, s:I, s:I, s:f}", "op", haul_op_name(launch->op),
                            "shape", launch->shape, "count", (json_int_t)launch->count, "seconds",
                            launch->seconds, "flops", (json_int_t)launch->cost.flops, "bytes",
                            (json_int_t)launch->cost.bytes, "share", share(s, launch)));
    }
    json_object_set_new(root, "product_ceiling", json_real(s->product));
    json_object_set_new(root, "copy_ceiling", json_real(s->copy));
    json_object_set_new(root, "kernels", list);
    return root;
}

haul_status haul_cli_bench_kernels(const haul_cli *cli, haul_config *config) {
    haul_session session = {0};
    shown s = {0};
    haul_status status = haul_file_check_target(config->json);
    if (status == HAUL_OK && config->preset == NULL && config->num_layers == 0) {
        status = haul_preset_apply(config, "llama3-8b");
    }
    if (status == HAUL_OK) {
        status = haul_bench_plan(config, &session);
    }
    if (status == HAUL_OK) {
        status = measure(cli, &session, &s);
    }
    if (status == HAUL_OK) {
        qsort(s.launches.items, (size_t)s.launches.count, sizeof *s.launches.items, longest_first);
        status = print(&s);
    }
    if (status == HAUL_OK) {
        status = haul_bench_write_json(config, to_json(cli, &session, &s));
    }
    haul_bench_launches_deinit(&s.launches);
    haul_session_deinit(&session);
    return status;
}
