/* The methods chosen for products, and their form as text. */
#ifndef HAUL_DEVICE_CPU_MATMUL_CHOICES_H
#define HAUL_DEVICE_CPU_MATMUL_CHOICES_H

#include "base/string.h"
#include "device/cpu/matmul_plan.h"

typedef struct haul_choice {
    haul_product proxy; /* haul_product_proxy of the products that it holds for */
    haul_method method;
} haul_choice;

/* Tens of entries, searched from the front. A zeroed one is empty. */
typedef struct haul_choices {
    haul_choice *items;
    int64_t count, capacity;
} haul_choices;

void haul_choices_deinit(haul_choices *choices);
haul_status haul_choices_add(haul_choices *choices, const haul_product *proxy, haul_method method);

/* NULL when nothing was chosen yet; else valid until the next is added. */
const haul_choice *haul_choices_find(const haul_choices *choices, const haul_product *proxy);

/* The text of haul_cpu_matmul_choices, and what it says added. HAUL_ERROR_DATA for a line that is
 * no choice. */
void haul_choices_append_text(const haul_choices *choices, haul_string *out);
haul_status haul_choices_add_text(haul_choices *choices, const char *text);

#endif
