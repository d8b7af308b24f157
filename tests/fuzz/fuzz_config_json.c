/* The config.json of a run or checkpoint. */
#include "config/json.h"
#include "config/validate.h"
#include "config_checks.h"
#include "fuzzing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    haul_config config;
    fuzz_require_ok(haul_config_init(&config));
    if (fuzz_accepted(
            haul_config_from_json(&config, (const char *)data, (int64_t)size, "config.json"))) {
        fuzz_check_round_trip(&config);
        if (fuzz_accepted(haul_config_finalize_model(&config))) {
            fuzz_check_model(&config);
        }
        if (fuzz_accepted(haul_config_finalize(&config))) {
            fuzz_check_training(&config);
        }
    }
    haul_config_deinit(&config);
    return 0;
}
