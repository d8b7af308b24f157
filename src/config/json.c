#include "config/json.h"

#include "base/file.h"
#include "config/flags.h"
#include "config/number.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of a field: that of its flag with '_' for '-'. */
static void append_key(haul_string *out, const char *name) {
    haul_string_append_text(out, "\"");
    for (; *name != '\0'; name++) {
        haul_string_append(out, *name == '-' ? "_" : name, 1);
    }
    haul_string_append_text(out, "\": ");
}

static haul_status append_text(haul_string *out, const haul_flag *flag, const char *text) {
    if (text == NULL) {
        haul_string_append_text(out, "null");
        return HAUL_OK;
    }
    json_t *string = json_string(text);
    if (string == NULL) {
        return haul_fail(HAUL_ERROR_USAGE, "--%s is \"%s\", must be UTF-8", flag->name, text);
    }
    json_decref(string);
    haul_string_append_json(out, text);
    return HAUL_OK;
}

static haul_status append_list(haul_string *out, const haul_flag *flag,
                               const haul_text_list *list) {
    haul_string_append_text(out, "[");
    for (int64_t i = 0; i < list->count; i++) {
        haul_string_append_text(out, i == 0 ? "" : ", ");
        HAUL_TRY(append_text(out, flag, list->items[i]));
    }
    haul_string_append_text(out, "]");
    return HAUL_OK;
}

static haul_status append_value(haul_string *out, const haul_flag *flag,
                                const haul_config *config) {
    const void *field = (const char *)config + flag->offset;
    switch (flag->kind->type) {
    case HAUL_FLAG_BOOL:
        haul_string_append_text(out, *(const bool *)field ? "true" : "false");
        break;
    case HAUL_FLAG_INT:
        haul_string_append_format(out, "%lld", (long long)*(const int64_t *)field);
        break;
    case HAUL_FLAG_FLOAT:
        haul_append_float(out, *(const double *)field);
        break;
    case HAUL_FLAG_CHOICE:
        return append_text(out, flag, haul_config_choice(config, flag->name));
    case HAUL_FLAG_TEXT:
        return append_text(out, flag, *(const char *const *)field);
    case HAUL_FLAG_LIST:
        return append_list(out, flag, field);
    }
    return HAUL_OK;
}

haul_status haul_config_to_json(const haul_config *config, haul_string *out) {
    haul_string_append_text(out, "{");
    const char *separator = "\n  ";
    for (int64_t i = 0; i < haul_flag_count(); i++) {
        const haul_flag *flag = haul_flag_at(i);
        if (strcmp(flag->name, "help") == 0) {
            continue;
        }
        haul_string_append_text(out, separator);
        append_key(out, flag->name);
        HAUL_TRY(append_value(out, flag, config));
        separator = ",\n  ";
    }
    haul_string_append_text(out, "\n}\n");
    return haul_string_status(out);
}

static haul_status wrong_type(const char *name, const char *key, const char *wanted) {
    return haul_fail(HAUL_ERROR_DATA, "%s: \"%s\" must be %s", name, key, wanted);
}

/* The failure of haul_config_set, told as one of the file. */
static haul_status set(haul_config *config, const haul_flag *flag, const char *const *values,
                       int64_t count, const char *name) {
    haul_status status = haul_config_set(config, flag->name, values, count, HAUL_SOURCE_FILE);
    if (status == HAUL_ERROR_USAGE) {
        return haul_fail(HAUL_ERROR_DATA, "%s: %s", name, haul_error_message());
    }
    return status;
}

static haul_status set_list(haul_config *config, const haul_flag *flag, const json_t *array,
                            const char *name) {
    int64_t count = (int64_t)json_array_size(array);
    const char **values = haul_config_allocate(config, count * (int64_t)sizeof *values);
    if (values == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < count; i++) {
        values[i] = json_string_value(json_array_get(array, (size_t)i));
        if (values[i] == NULL) {
            return wrong_type(name, flag->name, "a list of texts");
        }
    }
    return set(config, flag, values, count, name);
}

static haul_status set_value(haul_config *config, const haul_flag *flag, const json_t *value,
                             const char *name) {
    char number[40];
    const char *text = number;
    switch (flag->kind->type) {
    case HAUL_FLAG_BOOL:
        if (!json_is_boolean(value)) {
            return wrong_type(name, flag->name, "true or false");
        }
        text = json_is_true(value) ? "true" : "false";
        break;
    case HAUL_FLAG_INT:
        if (!json_is_integer(value)) {
            return wrong_type(name, flag->name, "a whole number");
        }
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        break;
    case HAUL_FLAG_FLOAT:
        if (!json_is_number(value)) {
            return wrong_type(name, flag->name, "a number");
        }
        snprintf(number, sizeof number, "%.17g", json_number_value(value));
        break;
    case HAUL_FLAG_TEXT:
    case HAUL_FLAG_CHOICE:
        if (!json_is_string(value)) {
            return wrong_type(name, flag->name, "a text");
        }
        text = json_string_value(value);
        break;
    case HAUL_FLAG_LIST:
        if (!json_is_array(value)) {
            return wrong_type(name, flag->name, "a list of texts");
        }
        return set_list(config, flag, value, name);
    }
    return set(config, flag, &text, 1, name);
}

static haul_status set_all(haul_config *config, json_t *root, const char *name) {
    if (!json_is_object(root)) {
        return haul_fail(HAUL_ERROR_DATA, "%s: must hold one JSON object", name);
    }
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        int64_t flag = haul_flag_find(key);
        if (flag < 0) {
            return haul_fail(HAUL_ERROR_DATA, "%s: \"%s\" is not a setting of this version of haul",
                             name, key);
        }
        if (!json_is_null(value)) {
            HAUL_TRY(set_value(config, haul_flag_at(flag), value, name));
        }
    }
    return HAUL_OK;
}

haul_status haul_config_from_json(haul_config *config, const char *text, int64_t length,
                                  const char *name) {
    json_error_t error;
    json_t *root = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        return haul_fail(HAUL_ERROR_DATA, "%s:%d: %s", name, error.line, error.text);
    }
    haul_status status = set_all(config, root, name);
    json_decref(root);
    return status;
}

haul_status haul_config_read_json(haul_config *config, const char *path) {
    haul_string text = {0};
    haul_status status = haul_file_read(path, &text);
    if (status == HAUL_OK) {
        status = haul_config_from_json(config, text.data, text.length, path);
    }
    haul_string_deinit(&text);
    return status;
}
