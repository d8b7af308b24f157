/* What kind of work a kernel does, told from its name by rules that people can read and extend
 * (docs/trace.md, "Kernel classes"). */
#ifndef HAUL_TRACE_KERNEL_CLASS_H
#define HAUL_TRACE_KERNEL_CLASS_H

#include "base/status.h"
#include "trace/entry.h"

typedef enum haul_kernel_class {
    HAUL_KERNEL_GEMM,
    HAUL_KERNEL_ATTENTION,
    HAUL_KERNEL_MOE_GEMM, /* grouped products of experts */
    HAUL_KERNEL_NORM,
    HAUL_KERNEL_ELEMENTWISE,
    HAUL_KERNEL_REDUCE,
    HAUL_KERNEL_QUANTIZE, /* and casts */
    HAUL_KERNEL_OPTIMIZER,
    HAUL_KERNEL_EMBEDDING, /* gathers, scatters, sorts, indexing */
    HAUL_KERNEL_CONVOLUTION,
    HAUL_KERNEL_COMPUTE, /* compute that no rule knows */
    HAUL_KERNEL_COLLECTIVE,
    HAUL_KERNEL_POINT_TO_POINT,
    HAUL_KERNEL_DISPATCH, /* tokens to experts, DeepEP's and its kin */
    HAUL_KERNEL_COMBINE,
    HAUL_KERNEL_NOTIFY, /* the exchange of counts before a dispatch */
    HAUL_KERNEL_COPY_TO_DEVICE,
    HAUL_KERNEL_COPY_TO_HOST,
    HAUL_KERNEL_COPY_ON_DEVICE,
    HAUL_KERNEL_COPY_PEER,
    HAUL_KERNEL_MEMSET,
    HAUL_KERNEL_CLASSES
} haul_kernel_class;

/* "gemm", "attention", ..., as the rules spell them. */
const char *haul_kernel_class_name(haul_kernel_class kernel_class);

static inline bool haul_kernel_class_communicates(haul_kernel_class c) {
    return c >= HAUL_KERNEL_COLLECTIVE && c <= HAUL_KERNEL_NOTIFY;
}

/* Copies and fills: neither compute nor communication. */
static inline bool haul_kernel_class_copies(haul_kernel_class c) {
    return c >= HAUL_KERNEL_COPY_TO_DEVICE && c <= HAUL_KERNEL_MEMSET;
}

static inline bool haul_kernel_class_computes(haul_kernel_class c) {
    return c <= HAUL_KERNEL_COMPUTE;
}

typedef struct haul_kernel_rules haul_kernel_rules;

/* The rules of `path` (NULL: none), then haul's own. A rule is a line "CLASS REGEX", # begins a
 * comment; the first whose regex (PCRE2, unanchored) is found in the name wins.
 * HAUL_ERROR_DATA names the line that is wrong. */
haul_status haul_kernel_rules_create(const char *path, haul_kernel_rules **out);
void haul_kernel_rules_destroy(haul_kernel_rules *rules);

/* The class of a kernel, or of a copy ("Memcpy HtoD (Pinned -> Device)") or fill by its kind. Costs
 * microseconds: ask once a name. May be called by several threads. */
haul_kernel_class haul_kernel_rules_class(const haul_kernel_rules *rules, haul_entry_kind kind,
                                          haul_text name);

/* haul's own rules as text, for people to start from. */
const char *haul_kernel_rules_builtin(void);

#endif
