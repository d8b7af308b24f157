/* The kinds of line in log.jsonl and their fields, for its writer and its reader. */
#ifndef HAUL_REPORT_RUN_LOG_FIELDS_H
#define HAUL_REPORT_RUN_LOG_FIELDS_H

#include <stddef.h>

typedef enum haul_log_type { HAUL_LOG_INTEGER, HAUL_LOG_REAL, HAUL_LOG_TEXT } haul_log_type;

typedef struct haul_log_field {
    const char *name; /* NULL ends a table */
    haul_log_type type;
    size_t offset; /* in the kind's struct, of an int64_t, a double or a const char * */
} haul_log_field;

typedef enum haul_log_kind {
    HAUL_LOG_START,
    HAUL_LOG_MEMORY,
    HAUL_LOG_TRAIN,
    HAUL_LOG_EVAL,
    HAUL_LOG_SAMPLE,
    HAUL_LOG_CHECKPOINT,
    HAUL_LOG_END,
    HAUL_LOG_KINDS
} haul_log_kind;

typedef struct haul_log_layout {
    const char *kind;
    const haul_log_field *fields;
    size_t size; /* of the struct */
} haul_log_layout;

extern const haul_log_layout haul_log_layouts[HAUL_LOG_KINDS];

#endif
