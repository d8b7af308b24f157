#include "train/evaluate.h"

#include "base/memory.h"
#include "train/batch.h"

#include <math.h>

double haul_evaluation_loss(const haul_evaluation *evaluation) {
    return evaluation->loss_sum / (double)haul_max(evaluation->labels, 1);
}

double haul_evaluation_bits_per_byte(const haul_evaluation *evaluation) {
    return evaluation->bytes > 0 ? evaluation->loss_sum / log(2) / (double)evaluation->bytes
                                 : (double)NAN;
}

/* Bytes of text behind the labels of a batch; an id without text (end of document) has none. */
static haul_status count_bytes(const haul_batch *batch, const haul_tokenizer *tokenizer,
                               int64_t *bytes) {
    haul_string text = {0};
    haul_status status = HAUL_OK;
    for (int64_t s = 0; s < batch->samples && status == HAUL_OK; s++) {
        const int32_t *labels = batch->tokens + s * (batch->length + 1) + 1;
        haul_string_clear(&text);
        for (int64_t t = 0; t < batch->labels[s] && status == HAUL_OK; t++) {
            if (labels[t] != haul_tokenizer_eod(tokenizer)) {
                status = haul_tokenizer_decode(tokenizer, labels[t], &text);
            }
        }
        *bytes += text.length;
    }
    haul_string_deinit(&text);
    return status;
}

static haul_status run(haul_session *session, haul_batch *batch, const haul_tokenizer *tokenizer,
                       haul_evaluation *out) {
    haul_step_request request = {
        .samples = batch->samples, .fill = haul_batch_fill, .fill_context = batch};
    HAUL_TRY(haul_executor_run(&session->evaluator, &request, NULL));
    haul_batch_sum_losses(batch, &session->evaluator, session->values.losses, &out->loss_sum,
                          &out->labels);
    return tokenizer != NULL ? count_bytes(batch, tokenizer, &out->bytes) : HAUL_OK;
}

haul_status haul_evaluate_samples(haul_session *session, const haul_dataset *dataset, int64_t first,
                                  int64_t samples, const haul_tokenizer *tokenizer,
                                  haul_evaluation *out) {
    const haul_config *config = session->config;
    haul_batch batch;
    *out = (haul_evaluation){0};
    haul_status status = haul_batch_init(&batch, config->micro_batch_size, config->seq_length, 1);
    for (int64_t s = 0; s < samples && status == HAUL_OK; s += batch.samples) {
        status = haul_batch_load(&batch, dataset, first + s);
        if (status == HAUL_OK) {
            status = run(session, &batch, tokenizer, out);
        }
    }
    haul_batch_deinit(&batch);
    return status;
}

haul_status haul_evaluate_windows(haul_session *session, const haul_windows *windows,
                                  const haul_tokenizer *tokenizer,
                                  void (*progress)(void *context, int64_t done, int64_t total),
                                  void *context, haul_evaluation *out) {
    const haul_config *config = session->config;
    int64_t total = haul_windows_count(windows);
    haul_batch batch;
    *out = (haul_evaluation){0};
    haul_status status = haul_batch_init(&batch, config->micro_batch_size, config->seq_length, 1);
    for (int64_t w = 0; w < total && status == HAUL_OK; w += batch.samples) {
        status = haul_batch_load_windows(&batch, windows, w);
        if (status == HAUL_OK) {
            status = run(session, &batch, tokenizer, out);
        }
        if (progress != NULL) {
            progress(context, haul_min(w + batch.samples, total), total);
        }
    }
    haul_batch_deinit(&batch);
    return status;
}
