/* The library is opened by name and called through prototypes of our own: it comes with the driver,
 * and neither the build nor a training needs it. */
#include "device/cuda/management.h"

#include "base/memory.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

enum { CLOCK_OF_MULTIPROCESSORS = 1, BUS_ID_BYTES = 32 };

/* The functions return 0 on success. */
struct haul_cuda_management {
    void *library;
    void *card;
    int (*shut_down)(void);
    int (*get_clock)(void *card, int kind, unsigned *megahertz);
    int (*get_power)(void *card, unsigned *milliwatts);
};

/* ISO C has no conversion from a data pointer to one of a function; POSIX promises that it works.
 */
static bool find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_functions(haul_cuda_management *management) {
    return find(management->library, "nvmlShutdown", &management->shut_down) &&
           find(management->library, "nvmlDeviceGetClockInfo", &management->get_clock) &&
           find(management->library, "nvmlDeviceGetPowerUsage", &management->get_power);
}

/* The library numbers cards in its own way, but knows them by their place on the bus too. */
static bool find_card(haul_cuda_management *management) {
    int (*initialize)(void);
    int (*get_card)(const char *bus, void **card);
    char bus[BUS_ID_BYTES];
    int device = 0;
    return find(management->library, "nvmlInit_v2", &initialize) &&
           find(management->library, "nvmlDeviceGetHandleByPciBusId_v2", &get_card) &&
           cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetPCIBusId(bus, sizeof bus, device) == cudaSuccess && initialize() == 0 &&
           get_card(bus, &management->card) == 0;
}

haul_cuda_management *haul_cuda_management_open(void) {
    haul_cuda_management *management = haul_calloc(1, sizeof *management);
    if (management == NULL) {
        return NULL;
    }
    management->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (management->library == NULL || !find_functions(management) || !find_card(management)) {
        haul_cuda_management_close(management);
        return NULL;
    }
    return management;
}

void haul_cuda_management_close(haul_cuda_management *management) {
    if (management == NULL) {
        return;
    }
    if (management->card != NULL) {
        management->shut_down();
    }
    if (management->library != NULL) {
        dlclose(management->library);
    }
    free(management);
}

haul_condition haul_cuda_management_ask(const haul_cuda_management *management) {
    haul_condition now = {.clock_hertz = (double)NAN, .power_watts = (double)NAN};
    unsigned megahertz, milliwatts;
    if (management == NULL) {
        return now;
    }
    if (management->get_clock(management->card, CLOCK_OF_MULTIPROCESSORS, &megahertz) == 0) {
        now.clock_hertz = 1e6 * megahertz;
    }
    if (management->get_power(management->card, &milliwatts) == 0) {
        now.power_watts = 1e-3 * milliwatts;
    }
    return now;
}
