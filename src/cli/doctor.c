#define PCRE2_CODE_UNIT_WIDTH 8

#include "base/format.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "base/terminal.h"
#include "cli/cli.h"
#include "train/record.h"

#include <jansson.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

/* One line: "ok    memory         15.5 GiB". */
static void say_marked(const haul_cli *cli, const char *mark, haul_style style, const char *subject,
                       const char *format, va_list arguments) {
    printf("%s%-5s%s %-14s ", haul_terminal_style(cli->color_out, style), mark,
           haul_terminal_style(cli->color_out, HAUL_STYLE_NONE), subject);
    vprintf(format, arguments);
    putchar('\n');
    fflush(stdout);
}

static void say(const haul_cli *cli, bool good, const char *subject, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void say(const haul_cli *cli, bool good, const char *subject, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say_marked(cli, good ? "ok" : "warn", good ? HAUL_STYLE_GREEN : HAUL_STYLE_YELLOW, subject,
               format, arguments);
    va_end(arguments);
}

/* What is not there and need not be. */
static void say_none(const haul_cli *cli, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say_none(const haul_cli *cli, const char *subject, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say_marked(cli, "none", HAUL_STYLE_DIM, subject, format, arguments);
    va_end(arguments);
}

static void say_instructions(const haul_cli *cli) {
    static const char *const features[] = {"avx2",        "fma",      "avx512f",
                                           "avx512_bf16", "amx_bf16", "asimd"};
    haul_string text = {0};
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        if (haul_machine_has(features[i])) {
            haul_string_append_format(&text, "%s%s", text.length > 0 ? " " : "", features[i]);
        }
    }
    bool fast = haul_machine_has("avx2") && haul_machine_has("fma");
    say(cli, fast, "instructions", "%s%s", text.length > 0 ? text.data : "none that haul knows",
        fast ? "" : "; haul uses its portable kernels, which are slow");
    haul_string_deinit(&text);
}

static void say_memory(const haul_cli *cli, const haul_machine *machine) {
    static const int64_t little = (int64_t)1 << 30;
    say(cli, machine->available_bytes >= little, "memory", "%s, %s available",
        haul_format_bytes(machine->memory_bytes).text,
        haul_format_bytes(machine->available_bytes).text);
    bool huge =
        strcmp(machine->huge_pages, "always") == 0 || strcmp(machine->huge_pages, "madvise") == 0;
    say(cli, huge, "pages", "%s, transparent huge pages %s%s",
        haul_format_bytes(machine->page_bytes).text,
        machine->huge_pages[0] != '\0' ? machine->huge_pages : "unknown",
        huge ? "" : "; try: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
}

static void say_machine(const haul_cli *cli) {
    haul_machine machine;
    haul_machine_describe(&machine);
    say(cli, true, "processor", "%s",
        machine.processor[0] != '\0' ? machine.processor : "of unknown name");
    say_instructions(cli);
    say(cli, true, "cores", "%d that haul may use", haul_parallel_cores());
    say_memory(cli, &machine);
}

static void say_disk(const haul_cli *cli) {
    haul_disk_speed speed;
    if (haul_machine_measure_disk(".", &speed) != HAUL_OK) {
        say(cli, false, "disk", "%s", haul_error_message());
        return;
    }
    say(cli, speed.write_bytes_per_second >= 50e6 && speed.sync_seconds < 0.2, "disk",
        "%s/s written and synced in this directory, a small file in %s",
        haul_format_bytes((int64_t)speed.write_bytes_per_second).text,
        haul_format_duration(speed.sync_seconds).text);
}

static void say_product(const haul_cli *cli, haul_device *device, haul_dtype dtype) {
    char subject[32];
    double speed = 0;
    snprintf(subject, sizeof subject, "products %s", haul_dtype_name(dtype));
    if (haul_record_measure_ceiling(device, dtype, &speed) != HAUL_OK) {
        say(cli, false, subject, "%s", haul_error_message());
        return;
    }
    say(cli, true, subject, "%.0f GFLOP/s, one of 1024 x 1024 x 1024", speed / 1e9);
}

static void say_device(const haul_cli *cli) {
    haul_device device;
    char text[256];
    if (haul_device_init(&device, "cpu", 0, HAUL_PRODUCT_AUTO) != HAUL_OK) {
        say(cli, false, "device", "%s", haul_error_message());
        return;
    }
    device.backend->describe(&device, text, sizeof text);
    say(cli, true, "device", "%s", text);
    bool onednn = strstr(text, "no oneDNN") == NULL;
    say(cli, onednn, "oneDNN", "%s",
        onednn ? "found, see device"
               : "not in this build, products are slow; try: sudo apt-get install libdnnl-dev, "
                 "then build again");
    say_product(cli, &device, HAUL_F32);
    say_product(cli, &device, HAUL_BF16);
    haul_device_deinit(&device);
}

static void say_gpu(const haul_cli *cli) {
    haul_device device;
    char text[256];
    if (haul_device_init(&device, "cuda", 0, HAUL_PRODUCT_AUTO) != HAUL_OK) {
        say_none(cli, "GPU", "%s", haul_error_message());
        return;
    }
    device.backend->describe(&device, text, sizeof text);
    int64_t available = haul_device_available_bytes(&device);
    if (available > 0) {
        say(cli, true, "GPU", "%s, %s taken, %s available", text,
            haul_format_bytes(haul_device_used_bytes(&device)).text,
            haul_format_bytes(available).text);
    } else {
        say(cli, true, "GPU", "%s", text);
    }
    haul_device_deinit(&device);
}

static void say_libraries(const haul_cli *cli) {
    char pcre2[64] = "";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    say(cli, true, "jansson", "%s, built with %s", jansson_version_str(), JANSSON_VERSION);
    say(cli, true, "zlib", "%s, built with %s", zlibVersion(), ZLIB_VERSION);
    say(cli, true, "PCRE2", "%s", pcre2);
}

haul_status haul_cli_doctor(const haul_cli *cli, haul_config *config) {
    (void)config;
    say(cli, true, "haul", "%s", HAUL_VERSION);
    say_machine(cli);
    say_device(cli);
    say_gpu(cli);
    say_libraries(cli);
    say_disk(cli);
    return HAUL_OK;
}
