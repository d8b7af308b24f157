/* Status codes and the message of the last failure.
 *
 * Every fallible function returns a haul_status. Who detects a failure describes it once with
 * haul_fail (what, where, what must hold) and may add a hint; callers only pass the status on.
 * The message lives in the calling thread: a rank is a thread, so ranks do not mix theirs.
 * The library never prints and never exits. */
#ifndef HAUL_BASE_STATUS_H
#define HAUL_BASE_STATUS_H

/* The values are the exit codes of the command line (docs/errors.md). */
typedef enum haul_status {
    HAUL_OK = 0,
    HAUL_ERROR_USAGE = 64,       /* a flag is unknown, malformed or out of range */
    HAUL_ERROR_DATA = 65,        /* the content of a file is wrong */
    HAUL_ERROR_NO_INPUT = 66,    /* a file is missing or cannot be opened */
    HAUL_ERROR_UNAVAILABLE = 69, /* this build or this machine lacks what was asked for */
    HAUL_ERROR_INTERNAL = 70,    /* a broken promise inside haul: please report it */
    HAUL_ERROR_MEMORY = 71,      /* memory could not be had */
    HAUL_ERROR_CREATE = 73,      /* an output cannot be created, or another job holds it */
    HAUL_ERROR_IO = 74,          /* reading or writing failed midway, a full disk included */
    HAUL_ERROR_CONFIG = 78,      /* settings that contradict each other */
    HAUL_ERROR_NUMERIC = 79,     /* a loss or gradient that is not finite */
    HAUL_INTERRUPTED = 130       /* stopped by Ctrl-C or SIGTERM, state saved where asked */
} haul_status;

#define HAUL_TRY(expression)                                                                       \
    do {                                                                                           \
        haul_status haul_try_status = (expression);                                                \
        if (haul_try_status != HAUL_OK) {                                                          \
            return haul_try_status;                                                                \
        }                                                                                          \
    } while (0)

/* Sets the thread's message, clears its hint, and returns `status` for `return haul_fail(...)`. */
haul_status haul_fail(haul_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds to the last failure what the user can do about it, one imperative sentence or command. */
void haul_hint(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Puts `format` and ": " before the last message: what was being done when it failed. */
void haul_fail_context(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last message and hint of this thread, "" when there is none. Valid until the next failure. */
const char *haul_error_message(void);
const char *haul_error_hint(void);

#endif
