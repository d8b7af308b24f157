/* Where the time of a training step goes, op by op and product by product: each launch on the cpu
 * is over before the next one is observed, so the time between two observations belongs to the
 * first. Then the products run alone, and the shares that haul means to keep are printed.
 *
 *     profile [flags of haul train], for example --preset gpt2-124m --micro-batch-size 4
 */
#include "base/clock.h"
#include "config/parse.h"
#include "config/validate.h"
#include "contest.h"
#include "peak.h"
#include "train/record.h"
#include "train/save.h"

#include <stdio.h>
#include <string.h>

enum { WARM_UP = 1, MEASURED = 2, PRODUCTS = 64 };

typedef struct profile_cost {
    double seconds, flops;
    long launches;
} profile_cost;

typedef struct profile {
    double since;
    profile_cost ops[HAUL_OPS];
    bench_product shapes[PRODUCTS]; /* the distinct products */
    profile_cost products[PRODUCTS];
    int product_count;
    profile_cost *running[2]; /* of the op that runs now, and of its product */
} profile;

static bench_product product_of(const haul_matmul_args *args) {
    bench_product product = {.dtype = args->a.dtype, .accumulate = args->accumulate};
    product.bias = args->bias.ndim > 0;
    if (args->transpose_a) {
        product.kind = BENCH_WGRAD;
        product.rows = haul_tensor_rows(&args->a);
        product.n = haul_tensor_columns(&args->a);
        product.k = haul_tensor_columns(&args->b);
    } else {
        product.kind = args->transpose_b ? BENCH_FORWARD : BENCH_DGRAD;
        product.rows = haul_tensor_rows(&args->a);
        product.n = haul_tensor_rows(&args->b);
        product.k = haul_tensor_columns(&args->b);
    }
    return product;
}

static bool same_product(const bench_product *a, const bench_product *b) {
    return a->kind == b->kind && a->rows == b->rows && a->n == b->n && a->k == b->k &&
           a->bias == b->bias && a->accumulate == b->accumulate;
}

static profile_cost *find_product(profile *p, const haul_matmul_args *args) {
    bench_product product = product_of(args);
    for (int i = 0; i < p->product_count; i++) {
        if (same_product(&p->shapes[i], &product)) {
            return &p->products[i];
        }
    }
    if (p->product_count == PRODUCTS) {
        return NULL;
    }
    p->shapes[p->product_count] = product;
    return &p->products[p->product_count++];
}

static void end_running(profile *p, double now) {
    for (int i = 0; i < 2; i++) {
        if (p->running[i] != NULL) {
            p->running[i]->seconds += now - p->since;
            p->running[i] = NULL;
        }
    }
}

static void observe(void *context, haul_op op, const void *args) {
    profile *p = context;
    end_running(p, haul_clock_seconds());
    p->running[0] = &p->ops[op];
    p->running[1] = op == HAUL_OP_MATMUL ? find_product(p, args) : NULL;
    for (int i = 0; i < 2; i++) {
        if (p->running[i] != NULL) {
            p->running[i]->launches++;
            p->running[i]->flops += (double)haul_op_cost(op, args).flops;
        }
    }
    p->since = haul_clock_seconds();
}

static haul_status fill(void *context, int micro_batch, const char *value, haul_tensor tensor) {
    (void)value;
    for (int64_t i = 0; i < haul_tensor_count(&tensor); i++) {
        bool weights = tensor.dtype != HAUL_I32;
        int64_t vocabulary = *(const int64_t *)context;
        haul_element_set(tensor.data, tensor.dtype, i,
                         weights ? 1e-4 : (double)((i * 7 + micro_batch) % vocabulary));
    }
    return HAUL_OK;
}

static double step(haul_session *session, int64_t number) {
    const haul_config *config = session->config;
    int64_t vocabulary = config->vocab_size;
    haul_verdict verdict;
    haul_step_request request = {.info = {.step = (uint32_t)number, .training = true},
                                 .samples = config->micro_batch_size,
                                 .fill = fill,
                                 .fill_context = &vocabulary,
                                 .learning_rate = 1e-4};
    double begin = haul_clock_seconds();
    bench_die_on_failure(haul_executor_run(&session->trainer, &request, &verdict));
    return haul_clock_seconds() - begin;
}

static void print_ops(const profile *p, double seconds) {
    printf("%-20s %9s %10s %7s %9s\n", "op", "launches", "ms a step", "share", "GFLOP/s");
    for (int op = 0; op < HAUL_OPS; op++) {
        const profile_cost *cost = &p->ops[op];
        if (cost->launches > 0) {
            printf("%-20s %9ld %10.2f %6.1f%% %9.1f\n", haul_op_name((haul_op)op),
                   cost->launches / MEASURED, 1e3 * cost->seconds / MEASURED,
                   100 * cost->seconds / seconds, cost->flops / cost->seconds / 1e9);
        }
    }
}

/* Seconds that the products of a kind took in the steps, and would have taken by oneDNN's plain
 * primitive and by the best method, alone. */
typedef struct contest_sums {
    double step, primitive, best;
} contest_sums;

static void run_products(const profile *p, haul_device *device, contest_sums *sums) {
    bench_arena arena;
    bench_arena_init(&arena, device);
    printf("\n%-8s %20s %9s %10s %8s %8s %8s %8s\n", "product", "rows x n x k", "launches",
           "ms a step", "GFLOP/s", "alone:op", "oneDNN", "best");
    for (int i = 0; i < p->product_count; i++) {
        const bench_product *shape = &p->shapes[i];
        const profile_cost *cost = &p->products[i];
        double seconds[BENCH_CONTESTANTS], best = 0;
        bench_contest(device, &arena, shape, seconds);
        for (int c = BENCH_OP + 1; c < BENCH_CONTESTANTS; c++) {
            best = seconds[c] > 0 && (best == 0 || seconds[c] < best) ? seconds[c] : best;
        }
        double primitive = seconds[1 + HAUL_METHOD_ONEDNN];
        double gflop = cost->flops / (double)cost->launches / 1e9;
        printf("%-8s %6lldx%6lldx%6lld %9ld %10.2f %8.1f %8.1f %8.1f %8.1f\n",
               bench_product_kind_name(shape->kind), (long long)shape->rows, (long long)shape->n,
               (long long)shape->k, cost->launches / MEASURED, 1e3 * cost->seconds / MEASURED,
               cost->flops / cost->seconds / 1e9, gflop / seconds[BENCH_OP], gflop / primitive,
               gflop / best);
        contest_sums *sum = &sums[shape->kind == BENCH_WGRAD];
        sum->step += cost->seconds;
        sum->primitive += (double)cost->launches * primitive;
        sum->best += (double)cost->launches * best;
    }
    bench_arena_deinit(&arena);
}

static void print_shares(const profile *p, const haul_session *session, double seconds,
                         const contest_sums *sums) {
    bool bf16 = session->chunk.numerics.activation == HAUL_BF16;
    double peak = bench_peak_gflops(session->device.threads) * 1e9, outside = seconds;
    const profile_cost *attention[] = {&p->ops[HAUL_OP_ATTENTION],
                                       &p->ops[HAUL_OP_ATTENTION_BACKWARD]};
    outside -= p->ops[HAUL_OP_MATMUL].seconds + attention[0]->seconds + attention[1]->seconds;
    printf("\nforward and dgrad products: %.3f of the primitives' time alone (aim: 1.111)\n",
           sums[0].step / sums[0].primitive);
    printf("wgrad products: %.3f of the best methods' time alone (aim: 1.053)\n",
           sums[1].step / sums[1].best);
    printf("attention: forward %.0f %%, backward %.0f %% of %.1f GFLOP/s, the peak of f32 "
           "multiply-adds (aim: %d %%)\n",
           100 * attention[0]->flops / attention[0]->seconds / peak,
           100 * attention[1]->flops / attention[1]->seconds / peak, peak / 1e9, bf16 ? 35 : 50);
    printf("outside products and attention: %.1f %% of the step (aim: %d %%)\n",
           100 * outside / seconds, bf16 ? 25 : 15);
}

static void start(haul_config *config, haul_session *session, int argc, char **argv) {
    const char *one = "1", *zero = "0", *yes = "true";
    haul_config_source source = HAUL_SOURCE_COMMAND_LINE;
    bench_die_on_failure(haul_config_init(config));
    bench_die_on_failure(haul_config_set(config, "train-iters", &one, 1, source));
    bench_die_on_failure(haul_config_set(config, "lr-warmup-iters", &zero, 1, source));
    bench_die_on_failure(haul_config_set(config, "mock-data", &yes, 1, source));
    bench_die_on_failure(
        haul_config_parse(config, HAUL_COMMAND_TRAIN, argc - 1, (const char *const *)argv + 1));
    bench_die_on_failure(haul_config_finalize(config));
    bench_die_on_failure(haul_session_plan(session, config, true));
    bench_die_on_failure(haul_session_allocate(session));
    haul_train train = {.config = config, .session = session};
    bench_die_on_failure(haul_train_start(&train, NULL));
}

int main(int argc, char **argv) {
    haul_config config;
    haul_session session;
    profile p = {0};
    contest_sums sums[2] = {0};
    double ceiling, seconds = 0;
    start(&config, &session, argc, argv);
    bench_die_on_failure(
        haul_record_measure_ceiling(&session.device, session.chunk.numerics.activation, &ceiling));
    for (int64_t i = 0; i < WARM_UP; i++) {
        step(&session, 1 + i);
    }
    session.trainer.stream.observe = observe;
    session.trainer.stream.observe_context = &p;
    for (int64_t i = 0; i < MEASURED; i++) {
        seconds += step(&session, 1 + WARM_UP + i);
        end_running(&p, haul_clock_seconds());
    }
    double tokens = (double)(config.global_batch_size * config.seq_length);
    printf("step: %.1f ms, %.0f tokens/s; a 1024^3 product runs at %.1f GFLOP/s\n",
           1e3 * seconds / MEASURED, tokens * MEASURED / seconds, ceiling / 1e9);
    print_ops(&p, seconds);
    run_products(&p, &session.device, sums);
    print_shares(&p, &session, seconds, sums);
    haul_session_deinit(&session);
    haul_config_deinit(&config);
    return 0;
}
