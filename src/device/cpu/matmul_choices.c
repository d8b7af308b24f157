#include "device/cpu/matmul_choices.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void haul_choices_deinit(haul_choices *choices) {
    free(choices->items);
    *choices = (haul_choices){0};
}

haul_status haul_choices_add(haul_choices *choices, const haul_product *proxy, haul_method method) {
    void *grown = choices->items;
    HAUL_TRY(haul_grow(&grown, &choices->capacity, choices->count + 1, sizeof *choices->items));
    choices->items = grown;
    choices->items[choices->count++] = (haul_choice){*proxy, method};
    return HAUL_OK;
}

const haul_choice *haul_choices_find(const haul_choices *choices, const haul_product *proxy) {
    for (int64_t i = 0; i < choices->count; i++) {
        if (haul_product_same(&choices->items[i].proxy, proxy)) {
            return &choices->items[i];
        }
    }
    return NULL;
}

void haul_choices_append_text(const haul_choices *choices, haul_string *out) {
    for (int64_t i = 0; i < choices->count; i++) {
        const haul_product *proxy = &choices->items[i].proxy;
        haul_string_append_format(
            out, "%lldx%lldx%lld %c%c %s %s %s %s %s\n", (long long)proxy->m, (long long)proxy->n,
            (long long)proxy->k, proxy->flags & HAUL_PRODUCT_TRANSPOSE_A ? 't' : 'n',
            proxy->flags & HAUL_PRODUCT_TRANSPOSE_B ? 't' : 'n',
            haul_dtype_name((haul_dtype)proxy->a), haul_dtype_name((haul_dtype)proxy->b),
            haul_dtype_name((haul_dtype)proxy->c),
            proxy->flags & HAUL_PRODUCT_PACKED ? "packed" : "plain",
            haul_method_name(choices->items[i].method));
    }
}

static bool parse_dtype(const char *name, uint8_t *out) {
    *out = strcmp(name, "bf16") == 0 ? HAUL_BF16 : HAUL_F32;
    return *out == HAUL_BF16 || strcmp(name, "f32") == 0;
}

static bool parse_method(const char *name, haul_method *out) {
    for (haul_method method = 0; method < HAUL_METHODS; method++) {
        if (strcmp(name, haul_method_name(method)) == 0) {
            *out = method;
            return true;
        }
    }
    return false;
}

static bool parse_choice(const char *line, haul_product *proxy, haul_method *method) {
    long long m, n, k;
    char transposes[3], a[5], b[5], c[5], packed[7], name[20];
    if (sscanf(line, "%lldx%lldx%lld %2s %4s %4s %4s %6s %19s", &m, &n, &k, transposes, a, b, c,
               packed, name) != 9) {
        return false;
    }
    *proxy = (haul_product){.m = m, .n = n, .k = k};
    proxy->flags |= transposes[0] == 't' ? HAUL_PRODUCT_TRANSPOSE_A : 0;
    proxy->flags |= transposes[1] == 't' ? HAUL_PRODUCT_TRANSPOSE_B : 0;
    proxy->flags |= strcmp(packed, "packed") == 0 ? HAUL_PRODUCT_PACKED : 0;
    return parse_dtype(a, &proxy->a) && parse_dtype(b, &proxy->b) && parse_dtype(c, &proxy->c) &&
           parse_method(name, method);
}

haul_status haul_choices_add_text(haul_choices *choices, const char *text) {
    for (const char *line = text; *line != '\0';) {
        int length = (int)strcspn(line, "\n");
        haul_product proxy;
        haul_method method;
        if (!parse_choice(line, &proxy, &method)) {
            return haul_fail(HAUL_ERROR_DATA, "\"%.*s\" is no choice of a product's method", length,
                             line);
        }
        HAUL_TRY(haul_choices_add(choices, &proxy, method));
        line += length;
        line += *line == '\n';
    }
    return HAUL_OK;
}
